#include "core/random.h"

#include "core/base/interrupt.h"
#include "core/device/device.h"
#include "core/device/transfer.h"
#include "core/exact/elementary.h"
#include "core/philox.h"
#include "core/strided.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <numbers>
#include <numeric>

namespace eg {
namespace {

constexpr double two_to_minus_53 = 0x1.0p-53;
constexpr std::int64_t grain = 4096;

std::array<std::uint32_t, 4> block_at(RandomKey key, std::uint64_t block) {
  return philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                     static_cast<std::uint32_t>(key.stream), static_cast<std::uint32_t>(key.stream >> 32)},
                    {static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)});
}

std::uint64_t join(std::uint32_t low, std::uint32_t high) { return low | std::uint64_t{high} << 32; }

double uniform53(std::uint64_t bits) { return static_cast<double>(bits >> 11) * two_to_minus_53; }

/// The largest number of the type that is less than `bound`.
double below(double bound, DType dtype) {
  if (dtype != DType::f32) return std::nextafter(bound, -INFINITY);
  const auto nearest = static_cast<float>(bound);
  return nearest < bound ? nearest : std::nextafter(nearest, -INFINITY);
}

/// Box-Muller: two normals from one block.
std::array<double, 2> normals(const std::array<std::uint32_t, 4>& w) {
  const double u = 1.0 - uniform53(join(w[0], w[1]));
  const double v = uniform53(join(w[2], w[3]));
  const double radius = std::sqrt(-2.0 * elementary::log(u));
  const double angle = 2.0 * std::numbers::pi * v;
  return {radius * elementary::cos(angle), radius * elementary::sin(angle)};
}

/// Fills pairs of elements, two per block: f(words) gives both.
template <class F> Tensor fill_pairs(const Shape& shape, RandomKey key, DType dtype, const char* what, F&& f) {
  if (!is_floating(dtype))
    throw DTypeError(fmt::format("{}: dtype is {}, it must be f32 or f64", what, name_of(dtype)));
  Tensor result = Tensor::empty(shape, dtype, Device::cpu());
  visit_floating(dtype, [&]<class T>() {
    T* out = result.mutable_data<T>(what);
    const std::int64_t count = result.numel();
    const KernelScope stoppable; // the tensor has no other owner yet
    parallel::for_each((count + 1) / 2, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t pair = begin; pair < end; ++pair) {
        const std::array<double, 2> values = f(block_at(key, static_cast<std::uint64_t>(pair)));
        out[2 * pair] = static_cast<T>(values[0]);
        if (2 * pair + 1 < count) out[2 * pair + 1] = static_cast<T>(values[1]);
      }
    });
  });
  return device::on_current_device(result);
}

} // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  philox_rounds(counter.data(), key[0], key[1]);
  return counter;
}

RandomKey RandomKey::fold(std::uint64_t tag) const {
  // Another Philox key than the one that numbers are drawn with: a child is never a block of some sequence of the seed.
  constexpr std::uint32_t for_keys_0 = 0x6B657973; // "keys"
  constexpr std::uint32_t for_keys_1 = 0x666F6C64; // "fold"
  const auto first =
      philox4x32({static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32),
                  static_cast<std::uint32_t>(tag), static_cast<std::uint32_t>(tag >> 32)},
                 {static_cast<std::uint32_t>(seed) ^ for_keys_0, static_cast<std::uint32_t>(seed >> 32) ^ for_keys_1});
  return {join(first[0], first[1]), join(first[2], first[3])};
}

std::uint32_t RandomStream::next_u32() {
  if (used_ == 4) {
    words_ = block_at(key_, block_++);
    used_ = 0;
  }
  return words_[static_cast<std::size_t>(used_++)];
}

std::uint64_t RandomStream::next_u64() {
  const std::uint32_t low = next_u32();
  return join(low, next_u32());
}

double RandomStream::uniform() { return uniform53(next_u64()); }

double RandomStream::normal() {
  const double u = 1.0 - uniform();
  return std::sqrt(-2.0 * exact::log(u)) * exact::cos(2.0 * std::numbers::pi * uniform());
}

std::uint64_t RandomStream::below(std::uint64_t bound) {
  // Numbers below `rejected` would make small results likelier.
  const std::uint64_t rejected = (0 - bound) % bound;
  while (true) {
    const std::uint64_t draw = next_u64();
    if (draw >= rejected) return draw % bound;
  }
}

double uniform_at(RandomKey key, std::uint64_t position) {
  return static_cast<double>(block_at(key, position / 4)[position % 4]) * 0x1.0p-32;
}

Tensor random_uniform(const Shape& shape, RandomKey key, double low, double high, DType dtype) {
  const double top = std::max(low, below(high, dtype)); // rounding may reach `high` itself
  return fill_pairs(shape, key, dtype, "random_uniform", [=](const std::array<std::uint32_t, 4>& w) {
    return std::array{std::min(low + (high - low) * uniform53(join(w[0], w[1])), top),
                      std::min(low + (high - low) * uniform53(join(w[2], w[3])), top)};
  });
}

Tensor random_normal(const Shape& shape, RandomKey key, double mean, double stddev, DType dtype) {
  return fill_pairs(shape, key, dtype, "random_normal", [=](const std::array<std::uint32_t, 4>& w) {
    const std::array<double, 2> z = normals(w);
    return std::array{mean + stddev * z[0], mean + stddev * z[1]};
  });
}

Tensor random_integers(const Shape& shape, RandomKey key, std::int64_t low, std::int64_t high) {
  if (high <= low) throw ValueError(fmt::format("random_integers: [{}, {}) is empty", low, high));
  Tensor result = Tensor::empty(shape, DType::i64, Device::cpu());
  RandomStream stream(key);
  auto* out = result.mutable_data<std::int64_t>("random_integers");
  // Unsigned: the width of a wide range is more than an int64_t holds.
  const auto first = static_cast<std::uint64_t>(low);
  const std::uint64_t width = static_cast<std::uint64_t>(high) - first;
  for (std::int64_t i = 0; i < result.numel(); ++i) out[i] = static_cast<std::int64_t>(first + stream.below(width));
  return device::on_current_device(result);
}

namespace {

Tensor drawn_permutation(std::int64_t count, RandomKey key) {
  const DeviceScope here(Device::cpu());
  Tensor result = Tensor::arange(count);
  RandomStream stream(key);
  auto* p = result.mutable_data<std::int64_t>("random_permutation");
  fisher_yates({p, static_cast<std::size_t>(count)}, [&](std::uint64_t bound) { return stream.below(bound); });
  return result;
}

} // namespace

Tensor random_permutation(std::int64_t count, RandomKey key) {
  return device::on_current_device(drawn_permutation(count, key));
}

Tensor random_nonidentity_permutation(std::int64_t count, RandomKey key) {
  if (count < 2) throw ShapeError(fmt::format("permutation: {} elements have no permutation but the identity", count));
  for (std::uint64_t attempt = 0;; ++attempt) {
    const Tensor drawn = drawn_permutation(count, key.fold(attempt));
    const auto* p = drawn.data<std::int64_t>();
    for (std::int64_t i = 0; i < count; ++i)
      if (p[i] != i) return device::on_current_device(drawn);
  }
}

} // namespace eg
