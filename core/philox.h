#pragma once
// Computes Philox 4x32-10 (core/random.h), for the host and for device kernels.

#include "core/device/qualifiers.h"

#include <cstdint>

namespace eg {

/// Ten rounds on the counter, in place: afterwards it holds the four words of the block. k0, k1: the key.
EG_DEVICE_FUNCTION inline void philox_rounds(std::uint32_t* counter, std::uint32_t k0, std::uint32_t k1) {
  constexpr std::uint64_t m0 = 0xD2511F53;
  constexpr std::uint64_t m1 = 0xCD9E8D57;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = m0 * counter[0];
    const std::uint64_t p1 = m1 * counter[2];
    counter[0] = static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ k0;
    counter[1] = static_cast<std::uint32_t>(p1);
    counter[2] = static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ k1;
    counter[3] = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
}

/// Words 4 block, ... 4 block + 3 of the sequence of a RandomKey.
EG_DEVICE_FUNCTION inline void philox_words(std::uint64_t seed, std::uint64_t stream, std::uint64_t block,
                                            std::uint32_t* words) {
  words[0] = static_cast<std::uint32_t>(block);
  words[1] = static_cast<std::uint32_t>(block >> 32);
  words[2] = static_cast<std::uint32_t>(stream);
  words[3] = static_cast<std::uint32_t>(stream >> 32);
  philox_rounds(words, static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

} // namespace eg
