#pragma once
// Stands in for libsodium, which builds for WebAssembly do without: what is called of it where no key is involved.

#include <cstddef>

/// Overwrites memory with zeros, in a way that the compiler must not leave out.
inline void sodium_memzero(void* memory, std::size_t bytes) {
  for (auto* at = static_cast<volatile unsigned char*>(memory); bytes > 0; --bytes, ++at) *at = 0;
}
