#include "core/ops/matmul/rounding_bounds.h"

#include <cstddef>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/matmul/rounding_bounds_simd.cpp"
#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

using rounding_bounds::Magnitude;
using rounding_bounds::Row;

using Doubles = hn::ScalableTag<double>;
using Floats = hn::Rebind<float, Doubles>;

/// f(j, load, store) for n numbers, a vector at a time; load(d, p) reads and store(d, v, p) writes as many as are left.
template <class F> HWY_INLINE void EachVector(std::int64_t n, const F& f) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Doubles()));
  std::int64_t j = 0;
  for (; j + lanes <= n; j += lanes)
    f(
        j, [](auto d, const auto* p) HWY_ATTR { return hn::LoadU(d, p); },
        [](auto d, auto v, auto* p) HWY_ATTR { hn::StoreU(v, d, p); });
  const auto left = static_cast<std::size_t>(n - j);
  if (left > 0)
    f(
        j, [=](auto d, const auto* p) HWY_ATTR { return LoadUpTo(d, p, left); },
        [=](auto d, auto v, auto* p) HWY_ATTR { StoreUpTo(v, d, p, left); });
}

Magnitude WidenLine(std::int64_t n, const float* x, double* to) {
  const Doubles d;
  auto largest = hn::Zero(d), squares = hn::Zero(d);
  EachVector(n, [&](std::int64_t j, const auto& load, const auto& store) HWY_ATTR {
    const auto v = hn::PromoteTo(d, load(Floats(), x + j));
    store(d, v, to + j);
    largest = hn::Max(largest, hn::Abs(v));
    squares = hn::MulAdd(v, v, squares);
  });
  return {hn::GetLane(hn::MaxOfLanes(d, largest)), hn::GetLane(hn::SumOfLanes(d, squares))};
}

void WidenAcross(std::int64_t n, const float* x, double* to, double* largest, double* squares) {
  const Doubles d;
  EachVector(n, [&](std::int64_t j, const auto& load, const auto& store) HWY_ATTR {
    const auto v = hn::PromoteTo(d, load(Floats(), x + j));
    store(d, v, to + j);
    store(d, hn::Max(load(d, largest + j), hn::Abs(v)), largest + j);
    store(d, hn::MulAdd(v, v, load(d, squares + j)), squares + j);
  });
}

bool RoundRow(const Row& row, float* to) {
  const Doubles d;
  const Floats narrow;
  const auto norm = hn::Set(d, row.norm), largest = hn::Set(d, row.largest);
  const auto undecided = hn::Set(narrow, std::numeric_limits<float>::quiet_NaN());
  auto any = hn::Zero(narrow);
  EachVector(row.n, [&](std::int64_t j, const auto& load, const auto& store) HWY_ATTR {
    const auto sum = load(d, row.sums + j);
    const auto error = hn::MulAdd(norm, load(d, row.norms + j), hn::Mul(largest, load(d, row.most + j)));
    const auto low = hn::DemoteTo(narrow, hn::Sub(sum, error)), high = hn::DemoteTo(narrow, hn::Add(sum, error));
    const auto inexact = hn::DemoteTo(narrow, hn::IfThenElseZero(hn::Gt(error, hn::Zero(d)), hn::Set(d, 1.0)));
    const auto zero = hn::And(hn::Eq(high, hn::Zero(narrow)), hn::Gt(inexact, hn::Zero(narrow)));
    // Where a sum may be no float, DemoteTo gives infinity on some targets and the largest float on others.
    const auto bound = hn::Add(hn::Abs(sum), error), largest_float = hn::Set(d, std::numeric_limits<float>::max());
    const auto inside = hn::DemoteTo(narrow, hn::IfThenElseZero(hn::Lt(bound, largest_float), hn::Set(d, 1.0)));
    const auto open = hn::Or(hn::Or(hn::Ne(low, high), zero), hn::Eq(inside, hn::Zero(narrow)));
    any = hn::IfThenElse(open, hn::Set(narrow, 1.0F), any);
    store(narrow, hn::IfThenElse(open, undecided, high), to + j);
  });
  return hn::GetLane(hn::MaxOfLanes(narrow, any)) != 0.0F;
}

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg::rounding_bounds {

HWY_EXPORT(WidenLine);
HWY_EXPORT(WidenAcross);
HWY_EXPORT(RoundRow);

Magnitude widen_line(std::int64_t n, const float* x, double* to) { return HWY_DYNAMIC_DISPATCH(WidenLine)(n, x, to); }
void widen_across(std::int64_t n, const float* x, double* to, double* largest, double* squares) {
  return HWY_DYNAMIC_DISPATCH(WidenAcross)(n, x, to, largest, squares);
}
bool round_row(const Row& row, float* to) { return HWY_DYNAMIC_DISPATCH(RoundRow)(row, to); }

} // namespace eg::rounding_bounds
#endif
