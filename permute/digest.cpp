#include "permute/digest.h"

#include "core/base/error.h"

#include <fmt/format.h>
#include <sodium.h>

namespace eg::permute {

struct Digest::State {
  crypto_generichash_state hash{};
};

void start_sodium(const char* who) {
  if (sodium_init() < 0) throw Error(fmt::format("{}: libsodium cannot start", who));
}

Digest::Digest(const char* who) : state_(std::make_unique<State>()) {
  start_sodium(who);
  crypto_generichash_init(&state_->hash, nullptr, 0, DigestBytes().size());
}

Digest::~Digest() = default;

void Digest::add(ByteView bytes) { crypto_generichash_update(&state_->hash, bytes.data(), bytes.size()); }

DigestBytes Digest::finish() {
  DigestBytes bytes{};
  crypto_generichash_final(&state_->hash, bytes.data(), bytes.size());
  return bytes;
}

DigestBytes digest_of(ByteView bytes, const char* who) {
  Digest digest(who);
  digest.add(bytes);
  return digest.finish();
}

std::string hexadecimal(ByteView bytes) {
  std::string digits;
  for (const std::uint8_t byte : bytes) digits += fmt::format("{:02x}", byte);
  return digits;
}

std::string fresh_name(const char* who) {
  start_sodium(who);
  std::array<std::uint8_t, 16> bytes{};
  randombytes_buf(bytes.data(), bytes.size());
  return hexadecimal(bytes);
}

} // namespace eg::permute
