#pragma once
// Draws counter-based random numbers with Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011). A number depends on (seed, stream, position) alone, never on a thread or on what was drawn
// before.

#include "core/tensor.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace eg {

/// One Philox 4x32-10 block: four 32-bit words from a 128-bit counter and a 64-bit key.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// Names a sequence of random numbers.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;

  /// A key for a part of the work; different tags give sequences unrelated to each other and to this key's own.
  RandomKey fold(std::uint64_t tag) const;
};

/// A reader of one sequence, for code that wants numbers one after another (shuffles, augmentation).
class RandomStream {
public:
  explicit RandomStream(RandomKey key) : key_(key) {}
  std::uint32_t next_u32();
  std::uint64_t next_u64();
  /// Uniform in [0, 1) with 53 bits.
  double uniform();
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Standard normal (Box-Muller).
  double normal();
  /// Uniform in [0, bound), without bias. bound > 0.
  std::uint64_t below(std::uint64_t bound);

private:
  RandomKey key_;
  std::uint64_t block_ = 0;
  int used_ = 4;
  std::array<std::uint32_t, 4> words_{};
};

/// Uniform in [0, 1) at one position of a sequence, with 32 bits.
double uniform_at(RandomKey key, std::uint64_t position);

/// Uniform in [low, high), never `high` after rounding; element i from position i. f32 or f64.
Tensor random_uniform(const Shape& shape, RandomKey key, double low = 0.0, double high = 1.0, DType dtype = DType::f32);
/// Normal(mean, stddev), element i from position i. The f32 numbers are the f64 ones rounded.
Tensor random_normal(const Shape& shape, RandomKey key, double mean = 0.0, double stddev = 1.0,
                     DType dtype = DType::f32);
/// Uniform integers in [low, high), i64.
Tensor random_integers(const Shape& shape, RandomKey key, std::int64_t low, std::int64_t high);
/// A uniformly drawn permutation of 0..count-1 (Fisher-Yates without bias), i64.
Tensor random_permutation(std::int64_t count, RandomKey key);
/// The same, uniform among all but the identity. Throws ShapeError when count < 2.
Tensor random_nonidentity_permutation(std::int64_t count, RandomKey key);

/// Shuffles a list (Fisher-Yates): every order is equally likely when below(n) is uniform in [0, n).
template <class Below> void fisher_yates(std::span<std::int64_t> list, Below&& below) {
  for (std::size_t i = list.size(); i > 1; --i)
    std::swap(list[i - 1], list[static_cast<std::size_t>(below(static_cast<std::uint64_t>(i)))]);
}

} // namespace eg
