#include "data/deflate.h"

#include <algorithm>
#include <cstring>

namespace eg::data {
namespace {

unsigned reversed(unsigned code, int length) {
  unsigned turned = 0;
  for (int i = 0; i < length; ++i) turned |= (code >> i & 1U) << (length - 1 - i);
  return turned;
}

} // namespace

bool DeflateCode::build(std::span<const std::uint8_t> lengths, bool single) {
  std::array<std::int32_t, longest + 1> count{}, next{};
  for (const std::uint8_t length : lengths) ++count[length];
  std::int32_t code = 0, place = 0, most = 0;
  for (std::size_t l = 1; l <= longest; ++l) {
    code <<= 1;
    next[l] = code;
    offset_[l] = place - code;
    code += count[l];
    place += count[l];
    end_[l] = code;
    if (code > 1 << l) return false;
    if (count[l] > 0) most = static_cast<std::int32_t>(l);
  }
  if (code != 1 << longest && !(single && most <= 1)) return false;
  fast_.fill(0);
  for (std::size_t s = 0; s < lengths.size(); ++s)
    if (lengths[s] > 0) add(s, lengths[s], next[lengths[s]]++);
  return true;
}

void DeflateCode::add(std::size_t symbol, std::uint8_t length, std::int32_t code) {
  symbols_[static_cast<std::size_t>(code + offset_[length])] = static_cast<std::uint16_t>(symbol);
  if (length > fast_bits) return;
  for (std::size_t i = reversed(static_cast<unsigned>(code), length); i < fast_.size(); i += std::size_t{1} << length)
    fast_[i] = static_cast<std::uint16_t>(symbol << 4 | length);
}

DeflateCode::Symbol DeflateCode::find_long(std::uint64_t bits) const {
  const auto turned = static_cast<std::int32_t>(reversed(static_cast<unsigned>(bits & 0x7FFFU), longest));
  for (int length = fast_bits + 1; length <= longest; ++length) {
    const auto l = static_cast<std::size_t>(length);
    const std::int32_t code = turned >> (longest - length);
    if (code < end_[l]) return {symbols_[static_cast<std::size_t>(code + offset_[l])], length};
  }
  return {};
}

bool DeflateBits::next_piece() {
  before_ += piece_.size();
  piece_ = more_();
  at_ = 0;
  return !piece_.empty();
}

void DeflateBits::fill_slowly() {
  while (held_ < 56) {
    if (at_ == piece_.size() && !next_piece()) return;
    bits_ |= std::uint64_t{piece_[at_++]} << held_;
    held_ += 8;
  }
}

std::size_t DeflateBits::copy(std::uint8_t* to, std::size_t bytes) {
  std::size_t done = 0;
  for (; done < bytes && held_ >= 8; ++done) {
    to[done] = static_cast<std::uint8_t>(bits_);
    skip(8);
  }
  if (held_ == 0) bits_ = 0; // fill() may have put bits above those that it counts
  while (done < bytes) {
    if (at_ == piece_.size() && !next_piece()) break;
    const std::size_t part = std::min(bytes - done, piece_.size() - at_);
    std::memcpy(to + done, piece_.data() + at_, part);
    at_ += part;
    done += part;
  }
  return done;
}

} // namespace eg::data
