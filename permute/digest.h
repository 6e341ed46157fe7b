#pragma once
// Computes BLAKE2b digests of bytes, and draws random names, by libsodium.

#include "core/base/bytes.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace eg::permute {

/// Starts libsodium, again and again if need be. Throws Error "WHO: libsodium cannot start", as every
/// function below does; `who` is the room that asks.
void start_sodium(const char* who);

/// A BLAKE2b digest of 32 bytes, without a key (RFC 7693).
using DigestBytes = std::array<std::uint8_t, 32>;

/// The digest of bytes that arrive in pieces.
class Digest {
public:
  explicit Digest(const char* who);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  void add(ByteView bytes);
  /// The digest of all that was added. Comes last.
  DigestBytes finish();

private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The digest of bytes that lie together.
DigestBytes digest_of(ByteView bytes, const char* who);

/// Two lower-case hexadecimal digits a byte.
std::string hexadecimal(ByteView bytes);

/// 32 hexadecimal digits of 16 random bytes: two are alike with a probability of 2^-128.
std::string fresh_name(const char* who);

} // namespace eg::permute
