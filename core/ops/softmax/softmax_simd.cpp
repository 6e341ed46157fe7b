#include "core/ops/softmax/kernels.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/softmax/softmax_simd.cpp"
#include "core/ops/softmax/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg {
namespace HWY_NAMESPACE {
namespace {

template <class T> void SoftmaxRows(const T* x, T* y, std::int64_t rows, std::size_t n) {
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const T total = RowExpSum<true, Next::fetched>(x, y, n, RowMax(x, n));
    RowScale(y, y, n, T{1} / total);
  }
}

template <class T> void SoftmaxBackwardRows(const T* y, const T* g, T* gx, std::int64_t rows, std::size_t n) {
  for (std::int64_t r = 0; r < rows; ++r, y += n, g += n, gx += n)
    RowWeighShifted<Next::fetched>(y, g, gx, n, RowDot(y, g, n));
}

template <class T> void LogSoftmaxRows(const T* x, T* y, std::int64_t rows, std::size_t n) {
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const T largest = RowMax(x, n);
    RowShift(x, y, n, largest, std::log(RowExpSum<false, Next::fetched>(x, y, n, largest)));
  }
}

template <class T> void LogSoftmaxBackwardRows(const T* y, const T* g, T* gx, std::int64_t rows, std::size_t n) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::int64_t r = 0; r < rows; ++r, y += n, g += n, gx += n) {
    const auto total = hn::Set(d, RowSum(g, n));
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      hwy::Prefetch(y + n + i);
      hwy::Prefetch(g + n + i);
      hn::StoreU(hn::NegMulAdd(Exp(d, hn::LoadU(d, y + i)), total, hn::LoadU(d, g + i)), d, gx + i);
    }
    if (i < n) {
      const auto p = Exp(d, LoadUpTo(d, y + i, n - i));
      StoreUpTo(hn::NegMulAdd(p, total, LoadUpTo(d, g + i, n - i)), d, gx + i, n - i);
    }
  }
}

#define EG_ROWS_KERNELS(SUFFIX, T)                                                                                     \
  void Softmax##SUFFIX(const T* x, T* y, std::int64_t rows, std::size_t n) { SoftmaxRows(x, y, rows, n); }             \
  void SoftmaxBackward##SUFFIX(const T* y, const T* g, T* gx, std::int64_t rows, std::size_t n) {                      \
    SoftmaxBackwardRows(y, g, gx, rows, n);                                                                            \
  }                                                                                                                    \
  void LogSoftmax##SUFFIX(const T* x, T* y, std::int64_t rows, std::size_t n) { LogSoftmaxRows(x, y, rows, n); }       \
  void LogSoftmaxBackward##SUFFIX(const T* y, const T* g, T* gx, std::int64_t rows, std::size_t n) {                   \
    LogSoftmaxBackwardRows(y, g, gx, rows, n);                                                                         \
  }
EG_ROWS_KERNELS(F32, float)
EG_ROWS_KERNELS(F64, double)
#undef EG_ROWS_KERNELS

} // namespace
} // namespace HWY_NAMESPACE
} // namespace eg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(SoftmaxF32);
HWY_EXPORT(SoftmaxF64);
HWY_EXPORT(SoftmaxBackwardF32);
HWY_EXPORT(SoftmaxBackwardF64);
HWY_EXPORT(LogSoftmaxF32);
HWY_EXPORT(LogSoftmaxF64);
HWY_EXPORT(LogSoftmaxBackwardF32);
HWY_EXPORT(LogSoftmaxBackwardF64);

namespace softmax_kernels {

#define EG_ROWS_ENTRIES(SUFFIX, T)                                                                                     \
  template <> void Kernels<T>::softmax(const T* x, const T*, T* y, std::int64_t rows, std::int64_t n) {                \
    HWY_DYNAMIC_DISPATCH(Softmax##SUFFIX)(x, y, rows, static_cast<std::size_t>(n));                                    \
  }                                                                                                                    \
  template <> void Kernels<T>::softmax_backward(const T* y, const T* g, T* gx, std::int64_t rows, std::int64_t n) {    \
    HWY_DYNAMIC_DISPATCH(SoftmaxBackward##SUFFIX)(y, g, gx, rows, static_cast<std::size_t>(n));                        \
  }                                                                                                                    \
  template <> void Kernels<T>::log_softmax(const T* x, const T*, T* y, std::int64_t rows, std::int64_t n) {            \
    HWY_DYNAMIC_DISPATCH(LogSoftmax##SUFFIX)(x, y, rows, static_cast<std::size_t>(n));                                 \
  }                                                                                                                    \
  template <>                                                                                                          \
  void Kernels<T>::log_softmax_backward(const T* y, const T* g, T* gx, std::int64_t rows, std::int64_t n) {            \
    HWY_DYNAMIC_DISPATCH(LogSoftmaxBackward##SUFFIX)(y, g, gx, rows, static_cast<std::size_t>(n));                     \
  }
EG_ROWS_ENTRIES(F32, float)
EG_ROWS_ENTRIES(F64, double)
#undef EG_ROWS_ENTRIES

} // namespace softmax_kernels
} // namespace eg
#endif
