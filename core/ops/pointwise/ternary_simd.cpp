// The kernels of ternary.h.

#include "core/ops/pointwise/ternary.h"

#include <algorithm>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/pointwise/ternary_simd.cpp"
#include "core/ops/pointwise/ternary-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

using pointwise::Operand;

/// The lanes of a vector of E as T and back: kernels of floats may compute in double.
template <class D, class T> HWY_INLINE hn::Vec<D> LoadAs(D d, Operand<T> from, std::int64_t i, std::size_t count) {
  if (!from.steps) return hn::Set(d, static_cast<LaneOf<D>>(*from.at));
  const hn::Rebind<T, D> dt;
  const auto v = count == hn::Lanes(d) ? hn::LoadU(dt, from.at + i) : LoadUpTo(dt, from.at + i, count);
  if constexpr (sizeof(T) == sizeof(LaneOf<D>)) {
    return v;
  } else {
    return hn::PromoteTo(d, v);
  }
}

template <class D, class V, class T> HWY_INLINE void StoreAs(D d, V v, T* to, std::size_t count) {
  if constexpr (sizeof(T) == sizeof(LaneOf<D>)) {
    count == hn::Lanes(d) ? hn::StoreU(v, d, to) : StoreUpTo(v, d, to, count);
  } else {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
    LaneOf<D> wide[hn::MaxLanes(d)]; // DemoteTo would make the largest float of infinity here
    hn::StoreU(v, d, wide);
    for (std::size_t lane = 0; lane < count; ++lane) to[lane] = static_cast<T>(wide[lane]);
#else
    const hn::Rebind<T, D> dt;
    const auto narrow = hn::DemoteTo(dt, v);
    count == hn::Lanes(d) ? hn::StoreU(narrow, dt, to) : StoreUpTo(narrow, dt, to, count);
#endif
  }
}

template <class F, class E, Reduction r, class T>
void RunTernary(Operand<T> a, Operand<T> b, Operand<T> c, T* y, std::int64_t n) {
  const TagOf<E, r> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const std::size_t all = hn::Lanes(d);
    StoreAs(d, F::value(d, LoadAs(d, a, i, all), LoadAs(d, b, i, all), LoadAs(d, c, i, all)), y + i, all);
  }
  if (i == n) return;
  const auto rest = static_cast<std::size_t>(n - i);
  StoreAs(d, F::value(d, LoadAs(d, a, i, rest), LoadAs(d, b, i, rest), LoadAs(d, c, i, rest)), y + i, rest);
}

#define EG_TERNARY(NAME, SUFFIX, FUNCTOR, T, E)                                                                        \
  void NAME##SUFFIX(Operand<T> a, Operand<T> b, Operand<T> c, T* y, std::int64_t n) {                                  \
    if (reduction() == Reduction::exact)                                                                               \
      RunTernary<FUNCTOR, E, Reduction::exact>(a, b, c, y, n);                                                         \
    else                                                                                                               \
      RunTernary<FUNCTOR, E, Reduction::fast>(a, b, c, y, n);                                                          \
  }
EG_TERNARY(Lerp, F32, Lerp, float, float)
EG_TERNARY(Lerp, F64, Lerp, double, double)
EG_TERNARY(ScaledExp, F32, ScaledExp, float, double)
EG_TERNARY(ScaledExp, F64, ScaledExp, double, double)
#undef EG_TERNARY

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(LerpF32);
HWY_EXPORT(LerpF64);
HWY_EXPORT(ScaledExpF32);
HWY_EXPORT(ScaledExpF64);

namespace pointwise {

#define EG_TERNARY_ENTRY(NAME, KERNEL, T)                                                                              \
  template <> void Ternary<T>::NAME(Operand<T> a, Operand<T> b, Operand<T> c, T* y, std::int64_t n) {                  \
    HWY_DYNAMIC_DISPATCH(KERNEL)(a, b, c, y, n);                                                                       \
  }
EG_TERNARY_ENTRY(lerp, LerpF32, float)
EG_TERNARY_ENTRY(lerp, LerpF64, double)
EG_TERNARY_ENTRY(scaled_exp, ScaledExpF32, float)
EG_TERNARY_ENTRY(scaled_exp, ScaledExpF64, double)
#undef EG_TERNARY_ENTRY

} // namespace pointwise
} // namespace eg
#endif
