// The kernels of all pointwise ops, made from the tables in table.h.

#include "core/ops/pointwise/kernels.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/pointwise/pointwise_simd.cpp"
#include "core/simd-inl.h"

#include "core/ops/pointwise/functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

using pointwise::BinaryKernel;
using pointwise::Steps;
using pointwise::UnaryKernel;

/// Attributes as vectors.
template <class D> struct Parameters {
  D d;
  const double* values;
  hn::Vec<D> operator[](std::size_t i) const { return hn::Set(d, static_cast<LaneOf<D>>(values[i])); }
};

/// One functor per op: value(d, x, p) and value(d, a, b).
#define EG_UNARY_FUNCTOR(NAME, MATH, VECTOR, ...)                                                                      \
  struct Unary_##NAME {                                                                                                \
    template <class D, class V, class P> static HWY_INLINE V value([[maybe_unused]] D d, V x, [[maybe_unused]] P p) {  \
      return VECTOR;                                                                                                   \
    }                                                                                                                  \
  };
EG_UNARY_OPS(EG_UNARY_FUNCTOR)
EG_PARAMETRIC_OPS(EG_UNARY_FUNCTOR)

#define EG_BINARY_FUNCTOR(NAME, MATH, A, B, SHAPES, VECTOR, ...)                                                       \
  struct Binary_##NAME {                                                                                               \
    template <class D, class V> static HWY_INLINE V value([[maybe_unused]] D d, V a, V b) { return VECTOR; }           \
  };
EG_BINARY_OPS(EG_BINARY_FUNCTOR)

template <class Op, class T> void RunUnary(const T* x, T* y, std::int64_t n, const double* values) {
  const hn::ScalableTag<T> d;
  const Parameters<decltype(d)> p{d, values};
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(Op::value(d, hn::LoadU(d, x + i), p), d, y + i);
  if (i == n) return;
  const auto rest = static_cast<std::size_t>(n - i); // the same arithmetic, on a vector filled up with zeros
  StoreUpTo(Op::value(d, LoadUpTo(d, x + i, rest), p), d, y + i, rest);
}

template <class Op, bool step_a, bool step_b, class T> void RunStepping(const T* a, const T* b, T* y, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto repeated_a = hn::Set(d, *a);
  const auto repeated_b = hn::Set(d, *b);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(Op::value(d, step_a ? hn::LoadU(d, a + i) : repeated_a, step_b ? hn::LoadU(d, b + i) : repeated_b), d,
               y + i);
  if (i == n) return;
  const auto rest = static_cast<std::size_t>(n - i);
  StoreUpTo(
      Op::value(d, step_a ? LoadUpTo(d, a + i, rest) : repeated_a, step_b ? LoadUpTo(d, b + i, rest) : repeated_b), d,
      y + i, rest);
}

template <class Op, class T> void RunBinary(const T* a, const T* b, T* y, std::int64_t n, Steps steps) {
  if (n == 0) return;
  switch (steps) {
  case Steps::both:
    return RunStepping<Op, true, true>(a, b, y, n);
  case Steps::first:
    return RunStepping<Op, true, false>(a, b, y, n);
  case Steps::second:
    return RunStepping<Op, false, true>(a, b, y, n);
  }
}

/// Kernels in the order of the enumerations.
#define EG_UNARY_ENTRY(NAME, ...) &RunUnary<Unary_##NAME, T>,
template <class T> const UnaryKernel<T>* UnaryKernels() {
  static constexpr UnaryKernel<T> kernels[] = {EG_UNARY_OPS(EG_UNARY_ENTRY) EG_PARAMETRIC_OPS(EG_UNARY_ENTRY)};
  return kernels;
}
#define EG_BINARY_ENTRY(NAME, ...) &RunBinary<Binary_##NAME, T>,
template <class T> const BinaryKernel<T>* BinaryKernels() {
  static constexpr BinaryKernel<T> kernels[] = {EG_BINARY_OPS(EG_BINARY_ENTRY)};
  return kernels;
}
#undef EG_UNARY_FUNCTOR
#undef EG_BINARY_FUNCTOR
#undef EG_UNARY_ENTRY
#undef EG_BINARY_ENTRY

const UnaryKernel<float>* UnaryF32() { return UnaryKernels<float>(); }
const UnaryKernel<double>* UnaryF64() { return UnaryKernels<double>(); }
const BinaryKernel<float>* BinaryF32() { return BinaryKernels<float>(); }
const BinaryKernel<double>* BinaryF64() { return BinaryKernels<double>(); }

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(UnaryF32);
HWY_EXPORT(UnaryF64);
HWY_EXPORT(BinaryF32);
HWY_EXPORT(BinaryF64);

namespace pointwise {

template <> UnaryKernel<float> kernel(Unary op) { return HWY_DYNAMIC_DISPATCH(UnaryF32)()[static_cast<int>(op)]; }
template <> UnaryKernel<double> kernel(Unary op) { return HWY_DYNAMIC_DISPATCH(UnaryF64)()[static_cast<int>(op)]; }
template <> BinaryKernel<float> kernel(Binary op) { return HWY_DYNAMIC_DISPATCH(BinaryF32)()[static_cast<int>(op)]; }
template <> BinaryKernel<double> kernel(Binary op) { return HWY_DYNAMIC_DISPATCH(BinaryF64)()[static_cast<int>(op)]; }

} // namespace pointwise
} // namespace eg
#endif
