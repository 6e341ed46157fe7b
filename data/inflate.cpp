#include "data/inflate.h"

#include "core/error.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <span>

namespace eg::data {
namespace {

constexpr std::size_t window = 32768;
constexpr int end_of_block = 256;
constexpr const char* malformed_code = "its packed data are corrupt: a malformed code";
constexpr std::size_t literal_symbols = 286, distance_symbols = 30;

/// What the symbols of lengths (from 257) and distances stand for, and how many bits follow them.
constexpr std::array<std::uint16_t, 29> length_base{3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                                    31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::array<std::uint8_t, 29> length_bits{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                   2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr std::array<std::uint16_t, 30> distance_base{1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                                      33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                                      1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr std::array<std::uint8_t, 30> distance_bits{0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                                     6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

DeflateCode fixed_literals() {
  std::array<std::uint8_t, 288> lengths{};
  std::fill_n(lengths.begin(), 288, std::uint8_t{8});
  std::fill_n(lengths.begin() + 144, 112, std::uint8_t{9});
  std::fill_n(lengths.begin() + 256, 24, std::uint8_t{7});
  DeflateCode code;
  code.build(lengths, false);
  return code;
}

DeflateCode fixed_distances() {
  std::array<std::uint8_t, 32> lengths{};
  lengths.fill(5);
  DeflateCode code;
  code.build(lengths, false);
  return code;
}

} // namespace

Inflater::Inflater(DeflateBits::Source more, std::string source) : bits_(std::move(more)), source_(std::move(source)) {}

void Inflater::fail(std::string_view reason) const { throw FileError(fmt::format("{}: {}", source_, reason)); }

int Inflater::take(int count) {
  const auto value = static_cast<int>(bits_.peek() & ((1U << count) - 1U));
  if (!bits_.skip(count)) fail("its packed data end early");
  return value;
}

int Inflater::symbol(const DeflateCode& code) {
  const DeflateCode::Symbol found = code.find(bits_.peek());
  if (found.length == 0) fail("its packed data are corrupt: a code that stands for nothing");
  if (!bits_.skip(found.length)) fail("its packed data end early");
  return found.value;
}

std::size_t Inflater::read(std::uint8_t* to, std::size_t bytes) {
  out_ = to;
  size_ = bytes;
  done_ = 0;
  while (done_ < size_ && phase_ != Phase::ended) {
    if (phase_ == Phase::between)
      begin_block();
    else if (phase_ == Phase::stored)
      copy_stored();
    else
      decode();
  }
  keep_history();
  return done_;
}

std::size_t Inflater::read_behind(std::uint8_t* to, std::size_t bytes) {
  bits_.align();
  return bits_.copy(to, bytes);
}

void Inflater::restart() {
  phase_ = Phase::between;
  last_ = false;
  left_ = 0;
  history_.clear();
}

void Inflater::begin_block() {
  if (last_) {
    phase_ = Phase::ended;
    return;
  }
  bits_.fill();
  last_ = take(1) != 0;
  switch (take(2)) {
  case 0:
    return begin_stored();
  case 1: {
    static const DeflateCode literals = fixed_literals(), distances = fixed_distances();
    literals_ = &literals;
    distances_ = &distances;
    break;
  }
  case 2:
    read_codes();
    break;
  default:
    fail("its packed data are corrupt: a block of no kind");
  }
  phase_ = Phase::coded;
}

void Inflater::begin_stored() {
  bits_.align();
  std::array<std::uint8_t, 4> front{};
  if (bits_.copy(front.data(), front.size()) != front.size()) fail("its packed data end early");
  const unsigned length = front[0] | static_cast<unsigned>(front[1]) << 8;
  if (length != (~(front[2] | static_cast<unsigned>(front[3]) << 8) & 0xFFFFU))
    fail("its packed data are corrupt: a block whose length is given in two ways");
  left_ = length;
  phase_ = Phase::stored;
}

void Inflater::copy_stored() {
  const std::size_t part = std::min(left_, size_ - done_);
  if (bits_.copy(out_ + done_, part) != part) fail("its packed data end early");
  done_ += part;
  left_ -= part;
  if (left_ == 0) phase_ = Phase::between;
}

/// The codes of a block that has its own.
void Inflater::read_codes() {
  const auto literals = static_cast<std::size_t>(take(5)) + 257;
  const auto distances = static_cast<std::size_t>(take(5)) + 1;
  if (literals > literal_symbols || distances > distance_symbols) fail(malformed_code);
  std::array<std::uint8_t, literal_symbols + distance_symbols> lengths{};
  const auto used = std::span(lengths).first(literals + distances);
  read_lengths(used);
  if (lengths[end_of_block] == 0 || !own_literals_.build(used.first(literals), true) ||
      !own_distances_.build(used.subspan(literals), true))
    fail(malformed_code);
  literals_ = &own_literals_;
  distances_ = &own_distances_;
}

/// The lengths of the codes of a block, which are packed by a third code.
void Inflater::read_lengths(std::span<std::uint8_t> lengths) {
  static constexpr std::array<std::uint8_t, 19> order{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  const auto count = static_cast<std::size_t>(take(4)) + 4;
  std::array<std::uint8_t, 19> first{};
  for (std::size_t i = 0; i < count; ++i) {
    bits_.fill();
    first[order[i]] = static_cast<std::uint8_t>(take(3));
  }
  if (!own_literals_.build(first, false)) fail(malformed_code);
  for (std::size_t i = 0; i < lengths.size();) {
    bits_.fill();
    const int word = symbol(own_literals_);
    if (word < 16) {
      lengths[i++] = static_cast<std::uint8_t>(word);
      continue;
    }
    const auto times = static_cast<std::size_t>(word == 16 ? 3 + take(2) : word == 17 ? 3 + take(3) : 11 + take(7));
    if ((word == 16 && i == 0) || times > lengths.size() - i) fail(malformed_code);
    std::fill_n(lengths.begin() + static_cast<std::ptrdiff_t>(i), times, word == 16 ? lengths[i - 1] : std::uint8_t{0});
    i += times;
  }
}

void Inflater::decode() {
  if (left_ > 0) copy_match();
  while (done_ < size_) {
    bits_.fill(); // enough for a length, a distance and the bits behind them: 48
    const int word = symbol(*literals_);
    if (word < end_of_block) {
      out_[done_++] = static_cast<std::uint8_t>(word);
    } else if (word == end_of_block) {
      phase_ = Phase::between;
      return;
    } else {
      begin_match(word);
      copy_match();
    }
  }
}

void Inflater::begin_match(int word) {
  constexpr const char* unknown = "its packed data are corrupt: a code that stands for nothing";
  const auto l = static_cast<std::size_t>(word - end_of_block - 1);
  if (l >= length_base.size()) fail(unknown);
  left_ = length_base[l] + static_cast<std::size_t>(take(length_bits[l]));
  const auto d = static_cast<std::size_t>(symbol(*distances_));
  if (d >= distance_base.size()) fail(unknown);
  distance_ = distance_base[d] + static_cast<std::size_t>(take(distance_bits[d]));
  if (distance_ > done_ + history_.size()) fail("its packed data are corrupt: a copy from before their beginning");
}

/// Copies what of the match there is room for: first from what earlier calls have unpacked, then from this one's.
void Inflater::copy_match() {
  std::size_t part = std::min(left_, size_ - done_);
  left_ -= part;
  if (distance_ > done_) {
    const std::size_t back = distance_ - done_;
    const std::size_t old = std::min(part, back);
    std::memcpy(out_ + done_, history_.data() + history_.size() - back, old);
    done_ += old;
    part -= old;
  }
  if (part == 0) return;
  const std::uint8_t* from = out_ + done_ - distance_;
  if (distance_ >= part) {
    std::memcpy(out_ + done_, from, part);
  } else { // the copy repeats what it has just written
    for (std::size_t i = 0; i < part; ++i) out_[done_ + i] = from[i];
  }
  done_ += part;
}

/// Keeps what later copies may refer to.
void Inflater::keep_history() {
  if (done_ >= window) {
    history_.assign(out_ + done_ - window, out_ + done_);
    return;
  }
  history_.insert(history_.end(), out_, out_ + done_);
  if (history_.size() > 4 * window) history_.erase(history_.begin(), history_.end() - window);
}

} // namespace eg::data
