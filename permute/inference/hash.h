#pragma once
// Mixes the bits of numbers, and finds numbers by hashes. Not for users.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace eg::permute {

/// A number that looks random (the finaliser of splitmix64, Steele et al., OOPSLA 2014).
inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Numbers by hashes, of which two may be equal. Millions are added in less time than to std::unordered_map.
class HashIndex {
public:
  /// For at most so many numbers.
  explicit HashIndex(std::size_t most = 0) {
    std::size_t size = 2;
    while (size < 2 * most) size *= 2;
    slots_.resize(size);
  }

  /// A number of this hash for which is_it(number) holds.
  template <class IsIt> std::optional<std::size_t> find(std::uint64_t hash, const IsIt& is_it) const {
    for (std::size_t i = hash & (slots_.size() - 1); slots_[i].number != none; i = (i + 1) & (slots_.size() - 1))
      if (slots_[i].hash == hash && is_it(slots_[i].number)) return slots_[i].number;
    return {};
  }
  void add(std::uint64_t hash, std::size_t number) {
    std::size_t i = hash & (slots_.size() - 1);
    while (slots_[i].number != none) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = {hash, number};
  }

private:
  static constexpr std::size_t none = ~std::size_t{0};
  struct Slot {
    std::uint64_t hash = 0;
    std::size_t number = none;
  };
  std::vector<Slot> slots_;
};

} // namespace eg::permute
