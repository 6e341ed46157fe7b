#include "core/ops/reduce/kernels.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/reduce/reduce_simd.cpp"
#include "core/ops/softmax/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

constexpr std::int64_t block = 1024;

/// In blocks, of four accumulators each, whose sums are added in double.
template <class T> double BlockedSum(const T* x, std::int64_t n, double sum) {
  for (std::int64_t i = 0; i < n; i += block)
    sum += static_cast<double>(RowSum(x + i, static_cast<std::size_t>(std::min(block, n - i))));
  return sum;
}

/// out (+)= x[0] + ... + x[7], as a tree.
template <bool first, class D, class Load, class T>
HWY_INLINE hn::Vec<D> EightRows(D d, Load load, const T* x, std::int64_t stride, hn::Vec<D> sum) {
  const auto a = hn::Add(load(d, x), load(d, x + stride));
  const auto b = hn::Add(load(d, x + 2 * stride), load(d, x + 3 * stride));
  const auto c = hn::Add(load(d, x + 4 * stride), load(d, x + 5 * stride));
  const auto e = hn::Add(load(d, x + 6 * stride), load(d, x + 7 * stride));
  const auto eight = hn::Add(hn::Add(a, b), hn::Add(c, e));
  return first ? eight : hn::Add(sum, eight);
}

/// One pass over `rows` (8, or fewer at the end) for all columns.
template <bool eight, bool first, class T>
void AddRows(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, T* out) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto sum_of = [&](auto load, const T* at, hn::Vec<decltype(d)> sum) HWY_ATTR {
    if constexpr (eight) {
      return EightRows<first>(d, load, at, stride, sum);
    } else {
      auto rest = load(d, at);
      for (std::int64_t r = 1; r < rows; ++r) rest = hn::Add(rest, load(d, at + r * stride));
      return first ? rest : hn::Add(sum, rest);
    }
  };
  const auto load_all = [](auto tag, const T* p) HWY_ATTR { return hn::LoadU(tag, p); };
  std::int64_t j = 0;
  for (; j + lanes <= columns; j += lanes)
    hn::StoreU(sum_of(load_all, x + j, first ? hn::Zero(d) : hn::LoadU(d, out + j)), d, out + j);
  if (j == columns) return;
  const auto rest = static_cast<std::size_t>(columns - j);
  const auto load_rest = [rest](auto tag, const T* p) HWY_ATTR { return LoadUpTo(tag, p, rest); };
  StoreUpTo(sum_of(load_rest, x + j, first ? hn::Zero(d) : LoadUpTo(d, out + j, rest)), d, out + j, rest);
}

template <class T> void ColumnSums(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, T* out) {
  if (rows == 0) {
    std::fill_n(out, columns, T{0});
    return;
  }
  std::int64_t r = 0;
  for (; r + 8 <= rows; r += 8)
    r == 0 ? AddRows<true, true>(x, 8, stride, columns, out)
           : AddRows<true, false>(x + r * stride, 8, stride, columns, out);
  if (r == rows) return;
  r == 0 ? AddRows<false, true>(x, rows, stride, columns, out)
         : AddRows<false, false>(x + r * stride, rows - r, stride, columns, out);
}

double RowSumF32(const float* x, std::int64_t n, double before) { return BlockedSum(x, n, before); }
double RowSumF64(const double* x, std::int64_t n, double before) { return BlockedSum(x, n, before); }
void ColumnSumsF32(const float* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, float* out) {
  ColumnSums(x, rows, stride, columns, out);
}
void ColumnSumsF64(const double* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, double* out) {
  ColumnSums(x, rows, stride, columns, out);
}

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(RowSumF32);
HWY_EXPORT(RowSumF64);
HWY_EXPORT(ColumnSumsF32);
HWY_EXPORT(ColumnSumsF64);

namespace reduce {

template <> double row_sum(const float* x, std::int64_t n, double before) {
  return HWY_DYNAMIC_DISPATCH(RowSumF32)(x, n, before);
}
template <> double row_sum(const double* x, std::int64_t n, double before) {
  return HWY_DYNAMIC_DISPATCH(RowSumF64)(x, n, before);
}
template <> void column_sums(const float* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, float* out) {
  HWY_DYNAMIC_DISPATCH(ColumnSumsF32)(x, rows, stride, columns, out);
}
template <>
void column_sums(const double* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, double* out) {
  HWY_DYNAMIC_DISPATCH(ColumnSumsF64)(x, rows, stride, columns, out);
}

} // namespace reduce
} // namespace eg
#endif
