// The kernels of the scalar tables: a double function, element by element. For float the result is rounded from the
// double one, so it is the nearest float in all but the closest of cases. Outside exact mode most rows have a vector
// kernel for floats (scalar_simd.cpp), which is used in its place.

#include "core/ops/pointwise/scalar.h"

#include "core/ops/pointwise/scalar_kernels.h"

#include <array>
#include <iterator>

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
EG_SCALAR_BINARY_STEP_OPS(EG_SCALAR_BINARY_FUNCTOR)

template <class Op, class T> void run_unary(const T* x, T* y, std::int64_t n, const double* p) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(Op::value(static_cast<double>(x[i]), p));
}

template <class Op, class T> void run_binary(const T* a, const T* b, T* y, std::int64_t n, Steps steps) {
  const std::int64_t step_a = steps == Steps::second ? 0 : 1;
  const std::int64_t step_b = steps == Steps::first ? 0 : 1;
  for (std::int64_t i = 0; i < n; ++i)
    y[i] = static_cast<T>(Op::value(static_cast<double>(a[i * step_a]), static_cast<double>(b[i * step_b])));
}

#define EG_NAME(NAME, ...) Unary::NAME,
constexpr std::array unary_rows = {EG_SCALAR_OPS(EG_NAME) EG_SCALAR_PARAMETRIC_OPS(EG_NAME)};
#undef EG_NAME
#define EG_NAME(NAME, ...) Binary::NAME,
constexpr std::array binary_rows = {EG_SCALAR_BINARY_OPS(EG_NAME) EG_SCALAR_BINARY_STEP_OPS(EG_NAME)};
#undef EG_NAME

#define EG_UNARY_ENTRY(NAME, ...) &run_unary<Unary_##NAME<Math>, T>,
#define EG_BINARY_ENTRY(NAME, ...) &run_binary<Binary_##NAME<Math>, T>,
template <class Math, class T> Kernels<T> kernels_of() {
  static constexpr UnaryKernel<T> unary[] = {EG_SCALAR_OPS(EG_UNARY_ENTRY) EG_SCALAR_PARAMETRIC_OPS(EG_UNARY_ENTRY)};
  static constexpr BinaryKernel<T> binary[] = {EG_SCALAR_BINARY_OPS(EG_BINARY_ENTRY)
                                                   EG_SCALAR_BINARY_STEP_OPS(EG_BINARY_ENTRY)};
  static_assert(std::size(unary) == unary_rows.size() && std::size(binary) == binary_rows.size());
  return {unary, binary};
}

/// For each row its vector kernel, else that of the C library.
template <class Kernel, class Op, std::size_t n> std::array<Kernel, n> fastest(const std::array<Op, n>& rows) {
  std::array<Kernel, n> kernels{};
  for (std::size_t i = 0; i < n; ++i) {
    kernels[i] = vector_kernel(rows[i]);
    if (kernels[i] == nullptr) kernels[i] = library_kernel(rows[i]);
  }
  return kernels;
}

} // namespace

UnaryKernel<float> library_kernel(Unary op) {
  return kernels_of<scalar::Library, float>().unary[static_cast<int>(op) - static_cast<int>(unary_rows.front())];
}

BinaryKernel<float> library_kernel(Binary op) {
  return kernels_of<scalar::Library, float>().binary[static_cast<int>(op) - static_cast<int>(binary_rows.front())];
}

template <> Kernels<float> scalar_kernels(Reduction r) {
  if (r == Reduction::exact) return kernels_of<scalar::Portable, float>();
  static const std::array unary = fastest<UnaryKernel<float>>(unary_rows);
  static const std::array binary = fastest<BinaryKernel<float>>(binary_rows);
  return {unary.data(), binary.data()};
}

template <> Kernels<double> scalar_kernels(Reduction r) {
  return r == Reduction::exact ? kernels_of<scalar::Portable, double>() : kernels_of<scalar::Library, double>();
}

} // namespace eg::pointwise
