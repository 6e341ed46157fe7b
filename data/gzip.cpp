// The members of a gzip file (RFC 1952): header, deflate data, checksum and length.

#include "core/base/error.h"
#include "core/base/out_of_memory.h"
#include "core/base/words.h"
#include "data/inflate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace eg::data {
namespace {

class GzipReader {
public:
  GzipReader(ByteView packed, const std::string& source, std::uint64_t limit)
      : packed_(packed), source_(source), limit_(limit),
        in_([rest = packed]() mutable { return std::exchange(rest, {}); }, source) {}

  Bytes read() {
    while (begin_member()) read_member();
    out_.resize(size_);
    return std::move(out_);
  }

private:
  [[noreturn]] void fail(std::string_view reason) const { throw FileError(fmt::format("{}: {}", source_, reason)); }
  [[noreturn]] void fail_truncated() const { fail("truncated gzip file"); }

  std::uint8_t byte() {
    std::uint8_t value = 0;
    if (in_.read_behind(&value, 1) == 0) fail_truncated();
    return value;
  }
  std::uint32_t number() {
    std::uint32_t value = 0;
    for (unsigned i = 0; i < 4; ++i) value |= static_cast<std::uint32_t>(byte()) << (8 * i);
    return value;
  }
  void skip_text() {
    while (byte() != 0) {
    }
  }

  /// Whether nothing but zero bytes follows: writers to tapes and blocks pad files so, and gzip(1) takes them.
  bool only_padding(std::uint64_t at) const {
    const ByteView rest = packed_.subspan(at);
    return at > 0 && std::all_of(rest.begin(), rest.end(), [](std::uint8_t value) { return value == 0; });
  }

  /// Reads a member's header. False at the end of the file.
  bool begin_member() {
    const std::uint64_t at = in_.taken();
    if (at == packed_.size() || only_padding(at)) return false;
    if (at > 0 && (packed_[at] != 0x1F || at + 1 == packed_.size() || packed_[at + 1] != 0x8B))
      fail(fmt::format("corrupt gzip file: {} behind its last member", count_of(packed_.size() - at, "byte")));
    in_.restart();
    byte(), byte();
    if (byte() != 8) fail("corrupt gzip file: packed by a method other than deflate");
    const unsigned flags = byte();
    constexpr unsigned header_check = 2, extra = 4, name = 8, comment = 16, reserved = 0xE0;
    if ((flags & reserved) != 0) fail("corrupt gzip file: its header has unknown flags");
    for (int i = 0; i < 6; ++i) byte(); // time, effort, system
    if ((flags & extra) != 0)
      for (unsigned low = byte(), count = low | static_cast<unsigned>(byte()) << 8; count > 0; --count) byte();
    if ((flags & name) != 0) skip_text();
    if ((flags & comment) != 0) skip_text();
    if ((flags & header_check) != 0) check_header(at);
    return true;
  }

  void check_header(std::uint64_t at) {
    const std::uint32_t wanted = crc32(packed_.subspan(at, in_.taken() - at)) & 0xFFFFU;
    const unsigned low = byte();
    if ((low | static_cast<unsigned>(byte()) << 8) != wanted) fail("corrupt gzip file: checksum of its header");
  }

  void read_member() {
    constexpr std::size_t block = std::size_t{1} << 20;
    std::uint32_t crc = 0;
    std::uint64_t length = 0;
    for (bool more = true; more;) {
      if (out_.size() == size_)
        resize_for(fmt::format("{}: after {} bytes unpacked", source_, size_), out_, size_ + size_ / 2 + block);
      const std::size_t room = std::min(block, out_.size() - size_);
      const std::size_t got = in_.read(out_.data() + size_, room);
      crc = crc32({out_.data() + size_, got}, crc);
      size_ += got;
      length += got;
      more = got == room;
      if (size_ > limit_) fail(fmt::format("unpacks to more than {} bytes", limit_));
    }
    if (number() != crc || number() != static_cast<std::uint32_t>(length))
      fail("gzip checksum does not match: the file is corrupt");
  }

  ByteView packed_;
  const std::string& source_;
  std::uint64_t limit_;
  Inflater in_;
  Bytes out_;
  std::size_t size_ = 0;
};

} // namespace

Bytes unpack_gzip(ByteView packed, const std::string& source, std::uint64_t limit) {
  return GzipReader(packed, source, limit).read();
}

} // namespace eg::data
