#include "core/ops/dropout/kernels.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/dropout/dropout_simd.cpp"
#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

/// As many Philox blocks side by side as there are 64-bit lanes. A counter word is in the low half of its lane; the
/// high half is left dirty, since MulEven does not read it.
class PhiloxLanes {
public:
  static constexpr std::size_t most_lanes = 8; // of 64 bits, on AVX-512

  explicit PhiloxLanes(RandomKey key) : key_(key) {
    const auto lanes = static_cast<std::size_t>(blocks());
    for (std::size_t i = 0; i < lanes; ++i) offsets_[i] = i / 2 + i % 2 * (lanes / 2);
  }

  static std::int64_t blocks() { return static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint64_t>())); }

  /// The words of blocks first, first + 1, ...: 4 * blocks() words in sequence order. `words` is aligned.
  void Write(std::uint64_t first, std::uint32_t* words) const {
    const hn::ScalableTag<std::uint64_t> d;
    const auto index = hn::Add(hn::Set(d, first), hn::Load(d, offsets_));
    auto c0 = index;
    auto c1 = hn::ShiftRight<32>(index);
    auto c2 = hn::Set(d, key_.stream);
    auto c3 = hn::Set(d, key_.stream >> 32);
    const auto m0 = hn::Set(d, 0xD2511F53U);
    const auto m1 = hn::Set(d, 0xCD9E8D57U);
    auto k0 = static_cast<std::uint32_t>(key_.seed);
    auto k1 = static_cast<std::uint32_t>(key_.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto p0 = Product(d, m0, c0);
      const auto p1 = Product(d, m1, c2);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(d, k0));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(d, k1));
      c1 = p1;
      c3 = p0;
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    Interleave(d, Pair(d, c0, c1), Pair(d, c2, c3), words);
  }

private:
  template <class D, class V> static HWY_INLINE V Product(D d, V a, V b) {
#if HWY_TARGET == HWY_SCALAR // one lane of 32 bits there is half of a 64-bit lane
    return hn::Set(d, (hn::GetLane(a) & 0xFFFFFFFFU) * (hn::GetLane(b) & 0xFFFFFFFFU));
#else
    const hn::Repartition<std::uint32_t, D> d32;
    return hn::BitCast(d, hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, b)));
#endif
  }

  /// Two words in one lane, the first in the low half.
  template <class D, class V> static HWY_INLINE V Pair(D d, V low, V high) {
    return hn::Or(hn::And(low, hn::Set(d, 0xFFFFFFFFU)), hn::ShiftLeft<32>(high));
  }

  /// Interleaving acts within 128 bits: even lanes go to the first half of the output and odd lanes to the second,
  /// which the order of the counters (offsets_) makes up for.
  template <class D, class V> static HWY_INLINE void Interleave(D d, V first, V second, std::uint32_t* words) {
    auto* pairs = reinterpret_cast<std::uint64_t*>(words);
#if HWY_TARGET == HWY_SCALAR
    hn::Store(first, d, pairs);
    hn::Store(second, d, pairs + 1);
#else
    hn::Store(hn::InterleaveLower(d, first, second), d, pairs);
    hn::Store(hn::InterleaveUpper(d, first, second), d, pairs + hn::Lanes(d));
#endif
  }

  HWY_ALIGN std::uint64_t offsets_[most_lanes];
  RandomKey key_;
};

/// y = x * factor where the word is above `last`, else 0, for n <= 4 * most_lanes elements.
template <class T>
HWY_INLINE void Apply(const T* x, T* y, std::int64_t n, const std::uint32_t* words, std::uint32_t last, T factor) {
  std::int64_t i = 0;
  if constexpr (sizeof(T) == 4) {
    const hn::ScalableTag<T> d;
    const hn::RebindToUnsigned<decltype(d)> du;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    for (; i + lanes <= n; i += lanes) {
      const auto kept = hn::RebindMask(d, hn::Gt(hn::LoadU(du, words + i), hn::Set(du, last)));
      hn::StoreU(hn::IfThenElseZero(kept, hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor))), d, y + i);
    }
  }
  for (; i < n; ++i) y[i] = words[i] > last ? x[i] * factor : T{0};
}

template <class T>
void DropoutChunk(const T* x, T* y, std::int64_t n, std::int64_t first, RandomKey key, std::uint32_t last,
                  double scale) {
  const PhiloxLanes philox(key);
  const T factor = static_cast<T>(scale);
  const std::int64_t step = 4 * PhiloxLanes::blocks();
  HWY_ALIGN std::uint32_t words[4 * PhiloxLanes::most_lanes];
  for (std::int64_t i = 0; i < n; i += step) {
    philox.Write(static_cast<std::uint64_t>(first + i) / 4, words);
    Apply(x + i, y + i, std::min(step, n - i), words, last, factor);
  }
}

void DropoutF32(const float* x, float* y, std::int64_t n, std::int64_t first, RandomKey key, std::uint32_t last,
                double scale) {
  DropoutChunk(x, y, n, first, key, last, scale);
}
void DropoutF64(const double* x, double* y, std::int64_t n, std::int64_t first, RandomKey key, std::uint32_t last,
                double scale) {
  DropoutChunk(x, y, n, first, key, last, scale);
}

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(DropoutF32);
HWY_EXPORT(DropoutF64);

template <>
void dropout_chunk(const float* x, float* y, std::int64_t n, std::int64_t first, RandomKey key, std::uint32_t last,
                   double scale) {
  HWY_DYNAMIC_DISPATCH(DropoutF32)(x, y, n, first, key, last, scale);
}
template <>
void dropout_chunk(const double* x, double* y, std::int64_t n, std::int64_t first, RandomKey key, std::uint32_t last,
                   double scale) {
  HWY_DYNAMIC_DISPATCH(DropoutF64)(x, y, n, first, key, last, scale);
}

} // namespace eg
#endif
