#pragma once
// Unpacks deflate data (RFC 1951) piece by piece, and gzip files. Used by archive.cpp, gzip.cpp and zip_member.cpp
// only.

#include "core/base/bytes.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct z_stream_s; // zlib's

namespace eg::data {

/// Unpacks one stream of deflate data.
class Inflater {
public:
  /// Gives the next piece of packed bytes, an empty one at the end. A piece stays valid until the next call.
  using Source = std::function<ByteView()>;
  /// `source`: what errors begin with. Throws MemoryError when there is no memory for it, as read() does.
  Inflater(Source more, std::string source);

  /// Unpacks into `to` and returns how many bytes those are: fewer than `bytes` at the end of the stream alone. Throws
  /// FileError where the data are malformed or end early.
  std::size_t read(std::uint8_t* to, std::size_t bytes);
  /// What follows the stream: copies up to `bytes` bytes, and returns how many there were.
  std::size_t read_behind(std::uint8_t* to, std::size_t bytes);
  /// Another stream begins here.
  void restart();
  /// Packed bytes that were used so far.
  std::uint64_t taken() const;

private:
  struct End {
    void operator()(z_stream_s* stream) const;
  };
  [[noreturn]] void fail(std::string_view reason) const;
  bool feed();

  Source more_;
  std::string source_;
  ByteView piece_;        ///< what zlib was not given yet
  std::uint64_t fed_ = 0; ///< bytes that zlib was given
  bool ended_ = false;
  std::unique_ptr<z_stream_s, End> stream_;
};

/// Unpacks a gzip file (RFC 1952), all its members one behind the other. Throws FileError, beginning with `source`,
/// where one is malformed, ends early, has another checksum or length than it states, or is followed by anything but
/// zero bytes, and as soon as they unpack to more than `limit` bytes.
Bytes unpack_gzip(ByteView packed, const std::string& source, std::uint64_t limit);

} // namespace eg::data
