#include "core/ops/reduce/kernels.h"

#include "core/simd/transpose.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/reduce/reduce_simd.cpp"
#include "core/ops/softmax/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

using reduce::row_block;

/// In blocks, of four accumulators each, whose sums are added in double.
template <class T> double BlockedSum(const T* x, std::int64_t n, double sum) {
  for (std::int64_t i = 0; i < n; i += row_block)
    sum += static_cast<double>(RowSum(x + i, static_cast<std::size_t>(std::min(row_block, n - i))));
  return sum;
}

/// to[r] = to[r] + x[r] + x[r + stride] + ... of `terms` terms, in order.
template <int terms, class T> HWY_INLINE void AddInOrder(const T* x, std::int64_t stride, std::int64_t rows, T* to) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t r = 0;
  for (; r + lanes <= rows; r += lanes) {
    auto sum = hn::LoadU(d, to + r);
    for (int term = 0; term < terms; ++term) sum = hn::Add(sum, hn::LoadU(d, x + term * stride + r));
    hn::StoreU(sum, d, to + r);
  }
  for (; r < rows; ++r)
    for (int term = 0; term < terms; ++term) to[r] += x[term * stride + r];
}

/// held[lane * wide + r]: what the lane of RowSum's four accumulators holds for row r. Few long streams through memory,
/// each along the rows, are what the processor reads ahead best.
template <class T>
void BlockSums(const T* x, std::int64_t n, std::int64_t stride, std::int64_t rows, T* held, double* sums,
               std::int64_t step) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t most = 4 * static_cast<std::int64_t>(hn::MaxLanes(d)), turned = 16;
  constexpr int terms = 8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t all = 4 * lanes, width = reduce::block_sums_room / (all * static_cast<std::int64_t>(sizeof(T)));
  const std::int64_t in_fours = n / all * all, in_ones = n / lanes * lanes;
  HWY_ALIGN T row[most * turned];
  for (std::int64_t first = 0; first < rows; first += width) {
    const std::int64_t wide = std::min(width, rows - first);
    const T* const from = x + first;
    std::fill_n(held, all * wide, T{0});
    std::int64_t k = 0;
    for (; k + terms * all <= in_fours; k += terms * all)
      for (std::int64_t lane = 0; lane < all; ++lane)
        AddInOrder<terms>(from + (k + lane) * stride, all * stride, wide, held + lane * wide);
    for (; k < n; ++k) {
      const std::int64_t lane = k < in_fours ? k % all : k < in_ones ? k % lanes : lanes + k % lanes;
      AddInOrder<1>(from + k * stride, 0, wide, held + lane * wide);
    }
    for (std::int64_t r = 0; r < wide; ++r) {
      if (r % turned == 0) simd::transpose<T>(held + r, wide, row, all, all, std::min(turned, wide - r));
      sums[(first + r) * step] = static_cast<double>(RowSum(row + r % turned * all, static_cast<std::size_t>(all)));
    }
  }
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

/// The sum of x[0] ... x[7] as the tree of EightRows.
template <class T> T EightAlong(const T* x) {
  return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
template <class T> constexpr std::int64_t columns_at_once = 1;
#else
/// Columns whose sums are the lanes of one vector.
template <class T> constexpr std::int64_t columns_at_once = hn::MaxLanes(hn::CappedTag<T, 32 / sizeof(T)>());

/// Sums of four neighbours: in lane j of each block of 16 bytes those of the block's numbers at x[j * step].
template <class D> HWY_INLINE hn::Vec<D> FoursOfColumns(D d, const float* x, std::int64_t step) {
  const hn::RepartitionToWide<D> wide;
  const auto pairs = [d](const float* at, const float* next) HWY_ATTR { // a0 + a1, b0 + b1, a2 + a3, b2 + b3
    const auto a = hn::LoadU(d, at), b = hn::LoadU(d, next);
    return hn::Add(hn::OddEven(b, a), hn::Shuffle2301(hn::OddEven(a, b)));
  };
  const auto low = hn::BitCast(wide, pairs(x, x + step)), high = hn::BitCast(wide, pairs(x + 2 * step, x + 3 * step));
  return hn::Add(hn::BitCast(d, hn::InterleaveLower(wide, low, high)),
                 hn::BitCast(d, hn::InterleaveUpper(wide, low, high)));
}

/// In lane j the sum of x[j * step] ... x[j * step + 7].
template <class D> HWY_INLINE hn::Vec<D> EightOfColumns(D d, const float* x, std::int64_t step) {
  const auto first = FoursOfColumns(d, x, step);
  if constexpr (hn::MaxLanes(D()) == 8) {
    const auto second = FoursOfColumns(d, x + 4 * step, step);
    return hn::Add(hn::ConcatLowerLower(d, second, first), hn::ConcatUpperUpper(d, second, first));
  } else {
    return hn::Add(first, FoursOfColumns(d, x + 4, step));
  }
}
template <class D> HWY_INLINE hn::Vec<D> EightOfColumns(D d, const double* x, std::int64_t step) {
  const auto pairs = [d](const double* at, const double* next) HWY_ATTR { // a0 + a1, b0 + b1
    const auto a = hn::LoadU(d, at), b = hn::LoadU(d, next);
    return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  };
  const auto fours = [&](const double* at) HWY_ATTR {
    const auto first = pairs(at, at + step);
    if constexpr (hn::MaxLanes(D()) == 4) {
      const auto second = pairs(at + 2 * step, at + 3 * step);
      return hn::Add(hn::ConcatLowerLower(d, second, first), hn::ConcatUpperUpper(d, second, first));
    } else {
      return hn::Add(first, pairs(at + 2, at + 2 + step));
    }
  };
  return hn::Add(fours(x), fours(x + 4));
}
#endif

/// The sum of one column that lies along memory, as ColumnSums adds: `sum`, that of its first r numbers, and the rest.
template <class T> T SumAlong(const T* x, std::int64_t rows, std::int64_t r, T sum) {
  for (; r + 8 <= rows; r += 8) sum = r == 0 ? EightAlong(x) : sum + EightAlong(x + r);
  if (r == rows) return sum;
  T rest = x[r];
  for (std::int64_t i = r + 1; i < rows; ++i) rest += x[i];
  return r == 0 ? rest : sum + rest;
}

template <class T>
void ColumnSumsAlong(const T* x, std::int64_t rows, std::int64_t step, std::int64_t columns, T* out) {
  std::int64_t j = 0;
  constexpr std::int64_t several = columns_at_once<T>;
  if constexpr (several > 1) {
    const hn::CappedTag<T, static_cast<std::size_t>(several)> d;
    for (; rows >= 8 && j + several <= columns; j += several) {
      const T* const at = x + j * step;
      auto sum = EightOfColumns(d, at, step);
      std::int64_t r = 8;
      for (; r + 8 <= rows; r += 8) sum = hn::Add(sum, EightOfColumns(d, at + r, step));
      hn::StoreU(sum, d, out + j);
      for (std::int64_t k = 0; r < rows && k < several; ++k) out[j + k] = SumAlong(at + k * step, rows, r, out[j + k]);
    }
  }
  for (; j < columns; ++j) out[j] = SumAlong(x + j * step, rows, 0, T{0});
}

double RowSumF32(const float* x, std::int64_t n, double before) { return BlockedSum(x, n, before); }
double RowSumF64(const double* x, std::int64_t n, double before) { return BlockedSum(x, n, before); }
void BlockSumsF32(const float* x, std::int64_t n, std::int64_t stride, std::int64_t rows, float* held, double* sums,
                  std::int64_t step) {
  BlockSums(x, n, stride, rows, held, sums, step);
}
void BlockSumsF64(const double* x, std::int64_t n, std::int64_t stride, std::int64_t rows, double* held, double* sums,
                  std::int64_t step) {
  BlockSums(x, n, stride, rows, held, sums, step);
}
void ColumnSumsAlongF32(const float* x, std::int64_t rows, std::int64_t step, std::int64_t columns, float* out) {
  ColumnSumsAlong(x, rows, step, columns, out);
}
void ColumnSumsAlongF64(const double* x, std::int64_t rows, std::int64_t step, std::int64_t columns, double* out) {
  ColumnSumsAlong(x, rows, step, columns, out);
}
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
HWY_EXPORT(BlockSumsF32);
HWY_EXPORT(BlockSumsF64);
HWY_EXPORT(ColumnSumsAlongF32);
HWY_EXPORT(ColumnSumsAlongF64);
HWY_EXPORT(ColumnSumsF32);
HWY_EXPORT(ColumnSumsF64);

namespace reduce {

template <> double row_sum(const float* x, std::int64_t n, double before) {
  return HWY_DYNAMIC_DISPATCH(RowSumF32)(x, n, before);
}
template <> double row_sum(const double* x, std::int64_t n, double before) {
  return HWY_DYNAMIC_DISPATCH(RowSumF64)(x, n, before);
}
template <>
void block_sums(const float* x, std::int64_t n, std::int64_t stride, std::int64_t rows, float* held, double* sums,
                std::int64_t step) {
  HWY_DYNAMIC_DISPATCH(BlockSumsF32)(x, n, stride, rows, held, sums, step);
}
template <>
void block_sums(const double* x, std::int64_t n, std::int64_t stride, std::int64_t rows, double* held, double* sums,
                std::int64_t step) {
  HWY_DYNAMIC_DISPATCH(BlockSumsF64)(x, n, stride, rows, held, sums, step);
}
template <>
void column_sums_along(const float* x, std::int64_t rows, std::int64_t step, std::int64_t columns, float* out) {
  HWY_DYNAMIC_DISPATCH(ColumnSumsAlongF32)(x, rows, step, columns, out);
}
template <>
void column_sums_along(const double* x, std::int64_t rows, std::int64_t step, std::int64_t columns, double* out) {
  HWY_DYNAMIC_DISPATCH(ColumnSumsAlongF64)(x, rows, step, columns, out);
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
