#pragma once
// Unpacks deflate data (RFC 1951) piece by piece, and gzip files. Used by archive.cpp and zip_member.cpp only.

#include "data/bytes.h"
#include "data/deflate.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace eg::data {

/// Unpacks one stream of deflate data.
class Inflater {
public:
  /// `source`: what errors begin with.
  Inflater(DeflateBits::Source more, std::string source);

  /// Unpacks into `to` and returns how many bytes those are: fewer than `bytes` at the end of the stream alone. Throws
  /// FileError where the data are malformed or end early.
  std::size_t read(std::uint8_t* to, std::size_t bytes);
  /// What follows the stream: copies up to `bytes` bytes, and returns how many there were.
  std::size_t read_behind(std::uint8_t* to, std::size_t bytes);
  /// Another stream begins here.
  void restart();
  /// Packed bytes that were used so far.
  std::uint64_t taken() const { return bits_.taken(); }

private:
  enum class Phase : std::uint8_t { between, stored, coded, ended };

  [[noreturn]] void fail(std::string_view reason) const;
  int take(int count);
  int symbol(const DeflateCode& code);
  void begin_block();
  void begin_stored();
  void read_codes();
  void read_lengths(std::span<std::uint8_t> lengths);
  void copy_stored();
  void decode();
  void begin_match(int symbol);
  void copy_match();
  void keep_history();

  DeflateBits bits_;
  std::string source_;
  Phase phase_ = Phase::between;
  bool last_ = false;    ///< the block is the last one
  std::size_t left_ = 0; ///< bytes of the stored block, or of the match, that are still to be copied
  std::size_t distance_ = 0;
  DeflateCode own_literals_, own_distances_;
  const DeflateCode* literals_ = nullptr;
  const DeflateCode* distances_ = nullptr;
  Bytes history_; ///< the end of what earlier calls have unpacked
  std::uint8_t* out_ = nullptr;
  std::size_t size_ = 0, done_ = 0;
};

/// Unpacks a gzip file (RFC 1952), all its members one behind the other. Throws FileError, beginning with `source`,
/// where one is malformed, ends early, has another checksum or length than it says, or is followed by something else,
/// and as soon as they unpack to more than `limit` bytes.
Bytes unpack_gzip(ByteView packed, const std::string& source, std::uint64_t limit);

} // namespace eg::data
