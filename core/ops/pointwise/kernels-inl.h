// Makes vector kernels from the tables of pointwise ops. Included by kernel files after core/simd/simd-inl.h, once per
// target: EG_UNARY_OPS(EG_UNARY_FUNCTOR) makes the functors, EG_UNARY_OPS(EG_UNARY_ENTRY) a list of kernels for
// reduction r and element type T.

#if defined(EQUIGRAD_POINTWISE_KERNELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef EQUIGRAD_POINTWISE_KERNELS_INL_H
#undef EQUIGRAD_POINTWISE_KERNELS_INL_H
#else
#define EQUIGRAD_POINTWISE_KERNELS_INL_H
#endif

#include "core/simd/simd-inl.h"

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
  HWY_INLINE hn::Vec<D> operator[](std::size_t i) const { return hn::Set(d, static_cast<LaneOf<D>>(values[i])); }
  template <class Other> HWY_INLINE Parameters<Other> in(Other other) const { return {other, values}; }
};

/// One functor per op: value(d, x, p) and value(d, a, b).
#define EG_UNARY_FUNCTOR(NAME, MATH, VECTOR, ...)                                                                      \
  struct Unary_##NAME {                                                                                                \
    template <class D, class V, class P> static HWY_INLINE V value([[maybe_unused]] D d, V x, [[maybe_unused]] P p) {  \
      return VECTOR;                                                                                                   \
    }                                                                                                                  \
  };
#define EG_BINARY_FUNCTOR(NAME, MATH, A, B, SHAPES, VECTOR, ...)                                                       \
  struct Binary_##NAME {                                                                                               \
    template <class D, class V> static HWY_INLINE V value([[maybe_unused]] D d, V a, V b) { return VECTOR; }           \
  };
#define EG_UNARY_ENTRY(NAME, ...) &RunUnary<Unary_##NAME, r, T>,
#define EG_BINARY_ENTRY(NAME, ...) &RunBinary<Binary_##NAME, r, T>,

template <class Op, Reduction r, class T>
HWY_MAYBE_UNUSED void RunUnary(const T* x, T* y, std::int64_t n, const double* values) {
  const TagOf<T, r> d;
  const Parameters<decltype(d)> p{d, values};
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(Op::value(d, hn::LoadU(d, x + i), p), d, y + i);
  if (i == n) return;
  const auto rest = static_cast<std::size_t>(n - i); // the same arithmetic, on a vector filled up with zeros
  StoreUpTo(Op::value(d, LoadUpTo(d, x + i, rest), p), d, y + i, rest);
}

template <class Op, Reduction r, bool step_a, bool step_b, class T>
void RunStepping(const T* a, const T* b, T* y, std::int64_t n) {
  const TagOf<T, r> d;
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

template <class Op, Reduction r, class T>
HWY_MAYBE_UNUSED void RunBinary(const T* a, const T* b, T* y, std::int64_t n, Steps steps) {
  if (n == 0) return;
  switch (steps) {
  case Steps::both:
    return RunStepping<Op, r, true, true>(a, b, y, n);
  case Steps::first:
    return RunStepping<Op, r, true, false>(a, b, y, n);
  case Steps::second:
    return RunStepping<Op, r, false, true>(a, b, y, n);
  }
}

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
