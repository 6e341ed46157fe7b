// Finds the largest and smallest lane of a vector. Included once per SIMD target.

#include "core/simd/simd-inl.h" // ahead of the guard: it includes the kernel file, and so this one, once per target

#include <algorithm>

#if defined(EQUIGRAD_CORE_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EQUIGRAD_CORE_LANES_INL_H_
#undef EQUIGRAD_CORE_LANES_INL_H_
#else
#define EQUIGRAD_CORE_LANES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {

#if HWY_TARGET == HWY_EMU128 // Highway 1.0.3 compares with the lowest finite number, which is above -infinity
template <class D> HWY_INLINE HWY_MAYBE_UNUSED LaneOf<D> LaneMax(D d, hn::Vec<D> v) {
  LaneOf<D> lanes[hn::MaxLanes(d)];
  hn::StoreU(v, d, lanes);
  return *std::max_element(lanes, lanes + hn::Lanes(d));
}
template <class D> HWY_INLINE HWY_MAYBE_UNUSED LaneOf<D> LaneMin(D d, hn::Vec<D> v) {
  LaneOf<D> lanes[hn::MaxLanes(d)];
  hn::StoreU(v, d, lanes);
  return *std::min_element(lanes, lanes + hn::Lanes(d));
}
#else
template <class D> HWY_INLINE HWY_MAYBE_UNUSED LaneOf<D> LaneMax(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::MaxOfLanes(d, v));
}
template <class D> HWY_INLINE HWY_MAYBE_UNUSED LaneOf<D> LaneMin(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::MinOfLanes(d, v));
}
#endif

} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif // per-target include guard
