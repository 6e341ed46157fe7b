#include "core/simd/every_other.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/simd/every_other_simd.cpp"
#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

template <class T> void EveryOther(const T* HWY_RESTRICT from, std::int64_t n, T* HWY_RESTRICT to) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes < n; i += lanes) // the second vector ends one number behind the last that counts
    hn::StoreU(hn::ConcatEven(d, hn::LoadU(d, from + 2 * i + lanes), hn::LoadU(d, from + 2 * i)), d, to + i);
#endif
  for (; i < n; ++i) to[i] = from[2 * i];
}

void EveryOtherF32(const float* from, std::int64_t n, float* to) { EveryOther(from, n, to); }
void EveryOtherF64(const double* from, std::int64_t n, double* to) { EveryOther(from, n, to); }

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(EveryOtherF32);
HWY_EXPORT(EveryOtherF64);

namespace simd {

template <> void every_other(const float* from, std::int64_t n, float* to) {
  HWY_DYNAMIC_DISPATCH(EveryOtherF32)(from, n, to);
}
template <> void every_other(const double* from, std::int64_t n, double* to) {
  HWY_DYNAMIC_DISPATCH(EveryOtherF64)(from, n, to);
}

} // namespace simd
} // namespace eg
#endif
