#pragma once
// Computes BLAKE2b digests of bytes, and draws names that nothing else has, by libsodium.

#include "core/base/bytes.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace eg::permute {

/// Starts libsodium, which may be started any number of times. Throws Error "WHO: libsodium cannot start".
void start_sodium(const char* who);

/// BLAKE2b with 32 bytes and without a key (RFC 7693).
using DigestBytes = std::array<std::uint8_t, 32>;

/// The digest of bytes that arrive in pieces.
class Digest {
public:
  explicit Digest(const char* who);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  void add(ByteView bytes);
  /// Of all that was added; nothing can be added after it.
  DigestBytes finish();

private:
  struct State;
  std::unique_ptr<State> state_;
};

DigestBytes digest_of(ByteView bytes, const char* who);

/// Two lower-case hexadecimal digits a byte.
std::string hexadecimal(ByteView bytes);

/// 32 hexadecimal digits of 16 random bytes.
std::string fresh_name(const char* who);

} // namespace eg::permute
