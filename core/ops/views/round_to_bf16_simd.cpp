#include "core/ops/views/round_to_bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/views/round_to_bf16_simd.cpp"
#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

void RoundToBf16(const float* x, std::int64_t n, BFloat16* y) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint16_t, decltype(d)> narrow;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto value = hn::LoadU(d, x + i);
    const auto bits = hn::BitCast(du, value);
    const auto upper = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(upper, hn::Set(du, 1U));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFU)), odd));
    const auto quiet_nan = hn::Or(upper, hn::Set(du, 0x40U));
    const auto result = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), quiet_nan, rounded);
    hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(di, result)), narrow, reinterpret_cast<std::uint16_t*>(y + i));
  }
  for (; i < n; ++i) y[i] = BFloat16(x[i]);
}

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(RoundToBf16);

void round_to_bf16(const float* x, std::int64_t n, BFloat16* y) { HWY_DYNAMIC_DISPATCH(RoundToBf16)(x, n, y); }

} // namespace eg
#endif
