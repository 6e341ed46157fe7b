#pragma once
// Mixes the bits of a number. Not for users.

#include <cstdint>

namespace eg::permute {

/// A number that looks random (the finaliser of splitmix64, Steele et al., OOPSLA 2014).
inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

} // namespace eg::permute
