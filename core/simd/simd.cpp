#include "core/simd/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/simd/simd.cpp"
#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

std::string DescribeTarget() {
  return std::string(hwy::TargetName(HWY_TARGET)) + ", " +
         std::to_string(8 * sizeof(float) * hn::Lanes(hn::ScalableTag<float>())) + " bits";
}

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {
HWY_EXPORT(DescribeTarget);

void simd::limit_to_avx2() {
#if HWY_ARCH_X86
  hwy::DisableTargets(HWY_AVX2 - 1); // better targets are lower bits
  hwy::GetChosenTarget().DeInit();
#endif
}

std::string simd::target() { return HWY_DYNAMIC_DISPATCH(DescribeTarget)(); }

} // namespace eg
#endif
