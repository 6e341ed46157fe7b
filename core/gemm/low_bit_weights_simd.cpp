#include "core/gemm/low_bit_weights.h"

#include "core/threads/parallel.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/gemm/low_bit_weights_simd.cpp"
#include "core/simd/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

template <class B> void Row(std::int64_t k, const B* b, float scale, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  std::int64_t at = 0;
  for (; at + lanes <= k; at += lanes) hn::StoreU(hn::Mul(factor, Widened(d, b + at)), d, out + at);
  if (at == k) return;
  const auto count = static_cast<std::size_t>(k - at);
  StoreUpTo(hn::Mul(factor, WidenedUpTo(d, b + at, count)), d, out + at, count);
}

void RowInt8(std::int64_t k, const std::int8_t* b, float scale, float* out) { Row(k, b, scale, out); }
void RowBf16(std::int64_t k, const BFloat16* b, float scale, float* out) { Row(k, b, scale, out); }

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(RowInt8);
HWY_EXPORT(RowBf16);

namespace low_bit_weights {
namespace {

void widen_row(std::int64_t k, const std::int8_t* b, float scale, float* out) {
  HWY_DYNAMIC_DISPATCH(RowInt8)(k, b, scale, out);
}
void widen_row(std::int64_t k, const BFloat16* b, float scale, float* out) {
  HWY_DYNAMIC_DISPATCH(RowBf16)(k, b, scale, out);
}
template <class B> void widen_row(std::int64_t k, const B* b, double scale, double* out) {
  for (std::int64_t i = 0; i < k; ++i) out[i] = scale * static_cast<double>(b[i]);
}

} // namespace

template <class T, class B>
void widen(std::int64_t rows, std::int64_t k, const B* b, std::int64_t ldb, const T* scales, T* out) {
  const std::int64_t grain = parallel::grain_for_bytes(k * static_cast<std::int64_t>(sizeof(T)), std::int64_t{1} << 18);
  parallel::for_each(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      widen_row(k, b + r * ldb, scales != nullptr ? scales[r] : T(1), out + r * k);
  });
}

template void widen<float, std::int8_t>(std::int64_t, std::int64_t, const std::int8_t*, std::int64_t, const float*,
                                        float*);
template void widen<float, BFloat16>(std::int64_t, std::int64_t, const BFloat16*, std::int64_t, const float*, float*);
template void widen<double, std::int8_t>(std::int64_t, std::int64_t, const std::int8_t*, std::int64_t, const double*,
                                         double*);
template void widen<double, BFloat16>(std::int64_t, std::int64_t, const BFloat16*, std::int64_t, const double*,
                                      double*);

} // namespace low_bit_weights
} // namespace eg
#endif
