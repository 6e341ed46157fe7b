// The pointwise tables on a device: their vector column, compiled with one lane (core/cuda/lanes), and the scalar one.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

#include "core/ops/pointwise/kernels.h"
#include "core/ops/pointwise/scalar.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/pointwise/pointwise.cu"
#include "core/simd/simd-inl.h"

#include "core/ops/pointwise/functions-inl.h"
#include "core/ops/pointwise/kernels-inl.h"
#include "core/ops/pointwise/math-inl.h"

namespace eg::HWY_NAMESPACE {
namespace {

EG_UNARY_OPS(EG_UNARY_FUNCTOR)
EG_PARAMETRIC_OPS(EG_UNARY_FUNCTOR)
EG_MATH_OPS(EG_UNARY_FUNCTOR)
EG_STEP_OPS(EG_UNARY_FUNCTOR)
EG_ACTIVATION_OPS(EG_UNARY_FUNCTOR)
EG_PARAMETRIC_ACTIVATION_OPS(EG_UNARY_FUNCTOR)
EG_BINARY_OPS(EG_BINARY_FUNCTOR)
EG_MATH_BINARY_OPS(EG_BINARY_FUNCTOR)

} // namespace
} // namespace eg::HWY_NAMESPACE

namespace eg::cuda {
namespace {

using pointwise::Binary;
using pointwise::Unary;

/// A row's real attributes, by value.
struct Numbers {
  double values[4];
};

/// A functor of the vector column, for one element.
template <class Functor> struct Lanes {
  template <class T> __device__ static T value(T x, const double* p) {
    const hwy::HWY_NAMESPACE::ScalableTag<T> d;
    return Functor::value(d, x, HWY_NAMESPACE::Parameters<hwy::HWY_NAMESPACE::ScalableTag<T>>{d, p});
  }
};
template <class Functor> struct BinaryLanes {
  template <class T> __device__ static T value(T a, T b) {
    const hwy::HWY_NAMESPACE::ScalableTag<T> d;
    return Functor::value(d, a, b);
  }
};

/// The scalar column: computed in double.
using Math = scalar::Library;
#define EG_SCALAR_FUNCTOR(NAME, MATH, VALUE, ...)                                                                      \
  struct Scalar_##NAME {                                                                                               \
    template <class T> __device__ static T value(T element, [[maybe_unused]] const double* p) {                        \
      const double x = element;                                                                                        \
      return static_cast<T>(VALUE);                                                                                    \
    }                                                                                                                  \
  };
EG_SCALAR_OPS(EG_SCALAR_FUNCTOR)
EG_SCALAR_PARAMETRIC_OPS(EG_SCALAR_FUNCTOR)
#undef EG_SCALAR_FUNCTOR
#define EG_SCALAR_FUNCTOR(NAME, MATH, A, B, SHAPES, VALUE, ...)                                                        \
  struct Scalar_##NAME {                                                                                               \
    template <class T> __device__ static T value(T first, T second) {                                                  \
      const double a = first, b = second;                                                                              \
      return static_cast<T>(VALUE);                                                                                    \
    }                                                                                                                  \
  };
EG_SCALAR_BINARY_OPS(EG_SCALAR_FUNCTOR)
EG_SCALAR_BINARY_STEP_OPS(EG_SCALAR_FUNCTOR)
#undef EG_SCALAR_FUNCTOR

template <class Row, class T> __global__ void unary_kernel(const T* x, T* y, std::int64_t count, Numbers p) {
  for (std::int64_t i = first_element(); i < count; i += element_step()) y[i] = Row::value(x[i], p.values);
}

template <class Row, class T>
__global__ void binary_kernel(T* y, const T* a, const T* b, std::int64_t count, Axes<3> axes) {
  for (std::int64_t i = first_element(); i < count; i += element_step()) {
    const Offsets<3> o = offsets_at(axes, i);
    y[o.at[0]] = Row::value(a[o.at[1]], b[o.at[2]]);
  }
}

template <class Row> Failure start_unary(Queue queue, const device::UnaryJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    Numbers p{};
    for (int i = 0; i < 4; ++i) p.values[i] = job.parameters[i];
    GPU_LAUNCH((unary_kernel<Row, T>), elements_grid(job.count), elements_block, 0, queue.stream,
               static_cast<const T*>(job.x), static_cast<T*>(job.y), job.count, p);
    return nullptr;
  });
}

template <class Row> Failure start_binary(Queue queue, const device::BinaryJob& job) {
  return visit_floating_type(job.type, [&]<class T>() -> Failure {
    const std::int64_t count = job.axes.count();
    GPU_LAUNCH((binary_kernel<Row, T>), elements_grid(count), elements_block, 0, queue.stream, static_cast<T*>(job.y),
               static_cast<const T*>(job.a), static_cast<const T*>(job.b), count, job.axes);
    return nullptr;
  });
}

} // namespace

Failure unary(Queue queue, const device::UnaryJob& job) {
  switch (static_cast<Unary>(job.op)) {
#define EG_CASE(NAME, ...)                                                                                             \
  case Unary::NAME:                                                                                                    \
    return start_unary<Lanes<HWY_NAMESPACE::Unary_##NAME>>(queue, job);
    EG_UNARY_OPS(EG_CASE)
    EG_PARAMETRIC_OPS(EG_CASE)
    EG_MATH_OPS(EG_CASE)
    EG_STEP_OPS(EG_CASE)
    EG_ACTIVATION_OPS(EG_CASE)
    EG_PARAMETRIC_ACTIVATION_OPS(EG_CASE)
#undef EG_CASE
#define EG_CASE(NAME, ...)                                                                                             \
  case Unary::NAME:                                                                                                    \
    return start_unary<Scalar_##NAME>(queue, job);
    EG_SCALAR_OPS(EG_CASE)
    EG_SCALAR_PARAMETRIC_OPS(EG_CASE)
#undef EG_CASE
  case Unary::count:
    break;
  }
  return "there is no such row of one input";
}

Failure binary(Queue queue, const device::BinaryJob& job) {
  switch (static_cast<Binary>(job.op)) {
#define EG_CASE(NAME, ...)                                                                                             \
  case Binary::NAME:                                                                                                   \
    return start_binary<BinaryLanes<HWY_NAMESPACE::Binary_##NAME>>(queue, job);
    EG_BINARY_OPS(EG_CASE)
    EG_MATH_BINARY_OPS(EG_CASE)
#undef EG_CASE
#define EG_CASE(NAME, ...)                                                                                             \
  case Binary::NAME:                                                                                                   \
    return start_binary<Scalar_##NAME>(queue, job);
    EG_SCALAR_BINARY_OPS(EG_CASE)
    EG_SCALAR_BINARY_STEP_OPS(EG_CASE)
#undef EG_CASE
  case Binary::count:
    break;
  }
  return "there is no such row of two inputs";
}

} // namespace eg::cuda
