// The kernel of where_kernels.h.

#include "core/ops/where/where_kernels.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/where/where_simd.cpp"
#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

template <bool a_steps, bool b_steps>
void Choose(const bool* c, const float* a, const float* b, float* y, std::int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> words;
  const hn::Rebind<std::uint8_t, decltype(d)> bytes;
  const auto* truths = reinterpret_cast<const std::uint8_t*>(c);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto fixed_a = hn::Set(d, *a), fixed_b = hn::Set(d, *b);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto chosen = hn::Ne(hn::PromoteTo(words, hn::LoadU(bytes, truths + i)), hn::Zero(words));
    const auto va = a_steps ? hn::LoadU(d, a + i) : fixed_a;
    const auto vb = b_steps ? hn::LoadU(d, b + i) : fixed_b;
    hn::StoreU(hn::IfThenElse(hn::RebindMask(d, chosen), va, vb), d, y + i);
  }
  for (; i < n; ++i) y[i] = c[i] ? a[a_steps ? i : 0] : b[b_steps ? i : 0];
}

void ChooseFloats(const bool* c, const float* a, bool a_steps, const float* b, bool b_steps, float* y, std::int64_t n) {
  if (a_steps)
    (b_steps ? Choose<true, true> : Choose<true, false>)(c, a, b, y, n);
  else
    (b_steps ? Choose<false, true> : Choose<false, false>)(c, a, b, y, n);
}

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(ChooseFloats);

void choose(const bool* c, const float* a, bool a_steps, const float* b, bool b_steps, float* y, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(ChooseFloats)(c, a, a_steps, b, b_steps, y, n);
}

} // namespace eg
#endif
