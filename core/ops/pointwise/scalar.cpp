// The kernels of the scalar tables: a double function, element by element. For float the result is rounded from the
// double one, so it is the nearest float in all but the closest of cases.

#include "core/ops/pointwise/scalar.h"

#include "core/ops/pointwise/kernels.h"

namespace eg::pointwise {
namespace {

#define EG_SCALAR_FUNCTOR(NAME, MATH, VALUE, ...)                                                                      \
  template <class Math> struct Unary_##NAME {                                                                          \
    static double value(double x, [[maybe_unused]] const double* p) { return VALUE; }                                  \
  };
EG_SCALAR_OPS(EG_SCALAR_FUNCTOR)
EG_SCALAR_PARAMETRIC_OPS(EG_SCALAR_FUNCTOR)

#define EG_SCALAR_BINARY_FUNCTOR(NAME, MATH, A, B, SHAPES, VALUE, ...)                                                 \
  template <class Math> struct Binary_##NAME {                                                                         \
    static double value(double a, double b) { return VALUE; }                                                          \
  };
EG_SCALAR_BINARY_OPS(EG_SCALAR_BINARY_FUNCTOR)

template <class Op, class T> void run_unary(const T* x, T* y, std::int64_t n, const double* p) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(Op::value(static_cast<double>(x[i]), p));
}

template <class Op, class T> void run_binary(const T* a, const T* b, T* y, std::int64_t n, Steps steps) {
  const std::int64_t step_a = steps == Steps::second ? 0 : 1;
  const std::int64_t step_b = steps == Steps::first ? 0 : 1;
  for (std::int64_t i = 0; i < n; ++i)
    y[i] = static_cast<T>(Op::value(static_cast<double>(a[i * step_a]), static_cast<double>(b[i * step_b])));
}

#define EG_UNARY_ENTRY(NAME, ...) &run_unary<Unary_##NAME<Math>, T>,
#define EG_BINARY_ENTRY(NAME, ...) &run_binary<Binary_##NAME<Math>, T>,
template <class Math, class T> Kernels<T> kernels_of() {
  static constexpr UnaryKernel<T> unary[] = {EG_SCALAR_OPS(EG_UNARY_ENTRY) EG_SCALAR_PARAMETRIC_OPS(EG_UNARY_ENTRY)};
  static constexpr BinaryKernel<T> binary[] = {EG_SCALAR_BINARY_OPS(EG_BINARY_ENTRY)};
  return {unary, binary};
}

template <class T> Kernels<T> kernels(Reduction r) {
  return r == Reduction::exact ? kernels_of<scalar::Portable, T>() : kernels_of<scalar::Library, T>();
}

} // namespace

template <> Kernels<float> scalar_kernels(Reduction r) { return kernels<float>(r); }
template <> Kernels<double> scalar_kernels(Reduction r) { return kernels<double>(r); }

} // namespace eg::pointwise
