// Rounds rows to 8 bits, each with a scale of its own.

#include "core/gemm/int8_product.h"
#include "core/ops/quantize/scale.h"
#include "core/threads/parallel.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/gemm/int8_rows_simd.cpp"
#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

/// The largest magnitude: bits of magnitudes are ordered as the magnitudes are, NaN last.
float LargestMagnitude(std::int64_t k, const float* x) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto magnitude = hn::Set(di, 0x7FFFFFFF);
  auto most = hn::Zero(di);
  std::int64_t at = 0;
  for (; at + lanes <= k; at += lanes) most = hn::Max(most, hn::And(hn::BitCast(di, hn::LoadU(d, x + at)), magnitude));
  if (at < k)
    most = hn::Max(most, hn::And(hn::BitCast(di, LoadUpTo(d, x + at, static_cast<std::size_t>(k - at))), magnitude));
  return std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(di, most)));
}

/// x * inverse to the nearest whole number, ties to even, within 127.
void Codes(std::int64_t k, const float* x, float inverse, std::int8_t* codes) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<std::int8_t, decltype(d)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, inverse), most = hn::Set(d, 127.0F), least = hn::Set(d, -127.0F);
  const hn::RebindToSigned<decltype(d)> di;
  const auto rounder = hn::Set(d, 12582912.0F); // 1.5 2^23: its sum has no bits behind the point
  const auto code = [&](auto v) HWY_ATTR {
    const auto y = hn::Max(hn::Min(hn::Mul(v, factor), most), least);
    return hn::DemoteTo(d8, hn::ConvertTo(di, hn::Sub(hn::Add(y, rounder), rounder)));
  };
  std::int64_t at = 0;
  for (; at + lanes <= k; at += lanes) hn::StoreU(code(hn::LoadU(d, x + at)), d8, codes + at);
  if (at == k) return;
  const auto rest = static_cast<std::size_t>(k - at);
  std::int8_t last[hn::MaxLanes(d)];
  hn::StoreU(code(LoadUpTo(d, x + at, rest)), d8, last);
  for (std::size_t i = 0; i < rest && i < hn::MaxLanes(d); ++i) codes[at + static_cast<std::int64_t>(i)] = last[i];
}

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(LargestMagnitude);
HWY_EXPORT(Codes);

void int8_product::quantize_rows(std::int64_t rows, std::int64_t k, const float* x, std::int64_t ldx,
                                 std::int8_t* codes, float* scales) {
  parallel::for_each(rows, parallel::grain_for_bytes(k * std::int64_t{sizeof(float)}),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t r = begin; r < end; ++r) {
                         const float* const row = x + r * ldx;
                         const float most = HWY_DYNAMIC_DISPATCH(LargestMagnitude)(k, row);
                         if (!std::isfinite(most)) {
                           scales[r] = std::numeric_limits<float>::quiet_NaN();
                           std::memset(codes + r * k, 0, static_cast<std::size_t>(k));
                           continue;
                         }
                         scales[r] = static_cast<float>(quantize::scale_of(static_cast<double>(most)));
                         HWY_DYNAMIC_DISPATCH(Codes)(k, row, 1.0F / scales[r], codes + r * k);
                       }
                     });
}

} // namespace eg
#endif
