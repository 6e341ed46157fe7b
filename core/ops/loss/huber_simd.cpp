// Huber's function and its slope on vectors of doubles: the bits of huber.h, element by element.

#include "core/ops/loss/huber_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/loss/huber_simd.cpp"
#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

/// Division by beta; by a power of two it is a product with the same bits.
struct Quotient {
  template <class V> static HWY_INLINE V of(V x, V beta, V) { return hn::Div(x, beta); }
};
struct Product {
  template <class V> static HWY_INLINE V of(V x, V, V inverse) { return hn::Mul(x, inverse); }
};

struct Value {
  template <class Divided, class D, class V> static HWY_INLINE V of(D d, V x, V beta, V inverse) {
    const V half = detail::Constant(d, 0.5);
    const V size = hn::Abs(x);
    const V parabola = hn::Mul(hn::Mul(half, size), Divided::of(size, beta, inverse));
    return hn::IfThenElse(hn::Lt(size, beta), parabola, hn::Sub(size, hn::Mul(half, beta)));
  }
  static double of(double x, double beta) { return huber_of(x, beta); }
};

struct Slope {
  template <class Divided, class D, class V> static HWY_INLINE V of(D d, V x, V beta, V inverse) {
    const V zero = hn::Zero(d);
    const V sign =
        hn::IfThenElse(hn::Or(hn::Gt(x, zero), hn::Lt(x, zero)), hn::CopySign(detail::Constant(d, 1.0), x), x);
    return hn::IfThenElse(hn::Lt(hn::Abs(x), beta), Divided::of(x, beta, inverse), sign);
  }
  static double of(double x, double beta) { return huber_slope_of(x, beta); }
};

/// On vectors of E, the type of x or double.
template <class Function, class Divided, class E, class T> void RunBy(const T* x, T* y, std::int64_t n, double beta) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128 // whose DemoteTo makes the largest float of infinity
  const hn::ScalableTag<E> d;
  const hn::Rebind<T, decltype(d)> narrow;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto betas = hn::Set(d, static_cast<E>(beta)), inverse = hn::Set(d, static_cast<E>(1.0 / beta));
  for (; i + lanes <= n; i += lanes) {
    if constexpr (sizeof(T) == sizeof(E))
      hn::StoreU(Function::template of<Divided>(d, hn::LoadU(d, x + i), betas, inverse), d, y + i);
    else
      hn::StoreU(hn::DemoteTo(narrow, Function::template of<Divided>(d, hn::PromoteTo(d, hn::LoadU(narrow, x + i)),
                                                                     betas, inverse)),
                 narrow, y + i);
  }
#endif
  for (; i < n; ++i) y[i] = static_cast<T>(Function::of(static_cast<double>(x[i]), beta));
}

/// Where beta is 0 or a power of two, floats give the bits of doubles rounded once: products by it are exact, and one
/// sum or product of floats in double is not rounded wrongly by the second rounding (Figueroa, "When is double rounding
/// innocuous?", 1995). Within 2^+-60 nothing that counts leaves their range on the way.
template <class Function, class T> void Run(const T* x, T* y, std::int64_t n, double beta) {
  int exponent = 0;
  const bool power_of_two = beta == 0.0 || (std::frexp(beta, &exponent) == 0.5 && std::abs(exponent) <= 60);
  power_of_two ? RunBy<Function, Product, T>(x, y, n, beta) : RunBy<Function, Quotient, double>(x, y, n, beta);
}

void HuberF32(const float* x, float* y, std::int64_t n, double beta) { Run<Value>(x, y, n, beta); }
void HuberF64(const double* x, double* y, std::int64_t n, double beta) { Run<Value>(x, y, n, beta); }
void SlopeF32(const float* x, float* y, std::int64_t n, double beta) { Run<Slope>(x, y, n, beta); }
void SlopeF64(const double* x, double* y, std::int64_t n, double beta) { Run<Slope>(x, y, n, beta); }

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {
HWY_EXPORT(HuberF32);
HWY_EXPORT(HuberF64);
HWY_EXPORT(SlopeF32);
HWY_EXPORT(SlopeF64);

void huber_of(const float* x, float* y, std::int64_t n, double beta) { HWY_DYNAMIC_DISPATCH(HuberF32)(x, y, n, beta); }
void huber_of(const double* x, double* y, std::int64_t n, double beta) {
  HWY_DYNAMIC_DISPATCH(HuberF64)(x, y, n, beta);
}
void huber_slope_of(const float* x, float* y, std::int64_t n, double beta) {
  HWY_DYNAMIC_DISPATCH(SlopeF32)(x, y, n, beta);
}
void huber_slope_of(const double* x, double* y, std::int64_t n, double beta) {
  HWY_DYNAMIC_DISPATCH(SlopeF64)(x, y, n, beta);
}
} // namespace eg
#endif
