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
using pointwise::Ternary;
using pointwise::TernaryKernel;

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

/// F::value of three vectors, and of the parameter p where F has one.
template <class F, class D, class V> HWY_INLINE V ValueOf(D d, V a, V b, V c, [[maybe_unused]] V p) {
  if constexpr (requires { F::value(d, a, b, c, p); }) {
    return F::value(d, a, b, c, p);
  } else {
    return F::value(d, a, b, c);
  }
}

template <class F, class E, Reduction r, class T>
void RunTernary(Operand<T> a, Operand<T> b, Operand<T> c, T* y, std::int64_t n, double p) {
  const TagOf<E, r> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto parameter = hn::Set(d, static_cast<E>(p));
  const auto at = [&](std::int64_t i, std::size_t count) HWY_ATTR {
    const auto value = ValueOf<F>(d, LoadAs(d, a, i, count), LoadAs(d, b, i, count), LoadAs(d, c, i, count), parameter);
    StoreAs(d, value, y + i, count);
  };
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) at(i, hn::Lanes(d));
  if (i < n) at(i, static_cast<std::size_t>(n - i));
}

/// F on vectors of E, T itself or double.
template <class F, class E, class T> TernaryKernel<T> KernelFor(Reduction r) {
  return r == Reduction::exact ? &RunTernary<F, E, Reduction::exact, T> : &RunTernary<F, E, Reduction::fast, T>;
}

template <class T> TernaryKernel<T> KernelOf(Ternary op) {
  const Reduction r = reduction();
  switch (op) {
  case Ternary::lerp:
    return KernelFor<Lerp, T, T>(r);
  case Ternary::scaled_exp:
    return KernelFor<ScaledExp, double, T>(r);
  case Ternary::add_product:
    return KernelFor<AddProduct, T, T>(r);
  case Ternary::add_scaled_product:
    return KernelFor<AddScaledProduct, T, T>(r);
  case Ternary::add_quotient:
    return KernelFor<AddQuotient, T, T>(r);
  case Ternary::add_scaled_quotient:
    return KernelFor<AddScaledQuotient, T, T>(r);
  case Ternary::normalise:
    return KernelFor<Normalise, T, T>(r);
  case Ternary::normalise_shift:
    return KernelFor<NormaliseShift, T, T>(r);
  case Ternary::leaky_relu_gradient:
    return KernelFor<LeakyReluGradient, T, T>(r);
  case Ternary::cube_gradient:
    return KernelFor<CubeGradient, T, T>(r);
  case Ternary::logit_loss_gradient:
    return KernelFor<LogitLossGradient, T, T>(r);
  }
  return nullptr;
}

TernaryKernel<float> TernaryF32(Ternary op) { return KernelOf<float>(op); }
TernaryKernel<double> TernaryF64(Ternary op) { return KernelOf<double>(op); }

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(TernaryF32);
HWY_EXPORT(TernaryF64);

template <> pointwise::TernaryKernel<float> pointwise::kernel(Ternary op) {
  return HWY_DYNAMIC_DISPATCH(TernaryF32)(op);
}
template <> pointwise::TernaryKernel<double> pointwise::kernel(Ternary op) {
  return HWY_DYNAMIC_DISPATCH(TernaryF64)(op);
}

} // namespace eg
#endif
