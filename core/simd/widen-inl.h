// Widens vectors of numbers stored in a narrower type, in registers. Included once per SIMD target.

#include "core/simd/simd-inl.h" // ahead of the guard: it includes the kernel file, and so this one, once per target

#include "core/bf16.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(EQUIGRAD_CORE_WIDEN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EQUIGRAD_CORE_WIDEN_INL_H_
#undef EQUIGRAD_CORE_WIDEN_INL_H_
#else
#define EQUIGRAD_CORE_WIDEN_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {

/// As many numbers as d has lanes, from b on.
template <class D> HWY_INLINE HWY_MAYBE_UNUSED hn::Vec<D> Widened(D d, const LaneOf<D>* b) { return hn::LoadU(d, b); }
template <class D> HWY_INLINE HWY_MAYBE_UNUSED hn::Vec<D> Widened(D d, const std::int8_t* b) {
  const hn::RebindToSigned<D> whole;
  return hn::ConvertTo(d, hn::PromoteTo(whole, hn::LoadU(hn::Rebind<std::int8_t, D>(), b)));
}
template <class D> HWY_INLINE HWY_MAYBE_UNUSED hn::Vec<D> Widened(D d, const BFloat16* b) {
  static_assert(sizeof(BFloat16) == sizeof(std::uint16_t));
  const hn::RebindToUnsigned<D> bits;
  const auto half = hn::LoadU(hn::Rebind<std::uint16_t, D>(), reinterpret_cast<const std::uint16_t*>(b));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, half)));
}

/// The first `count` of them, zeros above; reads no further.
template <class D, class B> HWY_INLINE HWY_MAYBE_UNUSED hn::Vec<D> WidenedUpTo(D d, const B* b, std::size_t count) {
  if constexpr (hwy::IsSame<B, LaneOf<D>>()) {
    return LoadUpTo(d, b, count);
  } else { // masked loads of narrow lanes read whole vectors on AVX2
    B copy[hn::MaxLanes(d)] = {};
    std::memcpy(static_cast<void*>(copy), b, count * sizeof(B));
    return Widened(d, copy);
  }
}

} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif // per-target include guard
