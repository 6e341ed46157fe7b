#include "core/gemm/skinny_gemm.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/gemm/skinny_gemm_simd.cpp"
#include "core/simd/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

using skinny_gemm::Operands;

/// Asks for the lines of R vectors of B from b on, which may be past its end. Narrow rows are so short that R of
/// them begin on one page, and then the processor does not see them coming: 38 MB of 8 bits took 8 ms without this, 2
/// with.
template <int R, class D, class B> HWY_INLINE void Fetch(D, const B* b) {
  constexpr std::size_t bytes = R * hn::MaxLanes(D()) * sizeof(B), line = 64;
#pragma GCC unroll 8
  for (std::size_t at = 0; at < bytes; at += line) hwy::Prefetch(reinterpret_cast<const char*>(b) + at);
}

/// M rows of A times R rows of B, a vector of partial sums each. A vector of B is used M times while it is in a
/// register. Unrolled also where the compiler would rather not: the sums must stay in registers.
template <int M, int R, class T, class B> HWY_INLINE void Block(const Operands<T, B>& p) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sums[M][R];
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) sums[i][r] = hn::Zero(d);
  constexpr bool scaled = hwy::IsSame<B, std::int8_t>();
  V scales[R];
  if constexpr (scaled)
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) scales[r] = hn::Set(d, p.scales[r]);
  const auto add = [&](auto&& left, auto&& right, std::int64_t at) HWY_ATTR {
    V columns[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      columns[r] = right(p.b + r * p.ldb + at);
      if constexpr (scaled) columns[r] = hn::Mul(columns[r], scales[r]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) {
      const V row = left(p.a + i * p.lda + at);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sums[i][r] = hn::MulAdd(row, columns[r], sums[i][r]);
    }
  };
  std::int64_t at = 0;
  for (; at + lanes <= p.k; at += lanes) {
    if constexpr (!hwy::IsSame<B, T>()) Fetch<R>(d, p.b + 2 * R * p.ldb + R * at);
    add([&](const T* x) HWY_ATTR { return hn::LoadU(d, x); }, [&](const B* x) HWY_ATTR { return Widened(d, x); }, at);
  }
  if (at < p.k) {
    const auto count = static_cast<std::size_t>(p.k - at);
    add([&](const T* x) HWY_ATTR { return LoadUpTo(d, x, count); },
        [&](const B* x) HWY_ATTR { return WidenedUpTo(d, x, count); }, at);
  }
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      T& c = p.c[i * p.ldc + r];
      const T sum = p.alpha * hn::GetLane(hn::SumOfLanes(d, sums[i][r]));
      c = p.beta == T(0) ? sum : p.beta * c + sum;
    }
}

/// As many rows of B at a time as leave registers for their sums.
template <int M, class T, class B> void Rows(Operands<T, B> p, std::int64_t n) {
  constexpr int R = M <= 2 ? 4 : M <= 4 ? 2 : 1;
  const auto advance = [&](std::int64_t rows) {
    p.b += rows * p.ldb;
    p.c += rows;
    if constexpr (hwy::IsSame<B, std::int8_t>()) p.scales += rows;
  };
  std::int64_t row = 0;
  for (; row + R <= n; row += R) {
    Block<M, R>(p);
    advance(R);
  }
  for (; row < n; ++row) {
    Block<M, 1>(p);
    advance(1);
  }
}

template <class T, class B> void Product(std::int64_t m, std::int64_t n, const Operands<T, B>& p) {
  switch (m) {
  case 1:
    return Rows<1>(p, n);
  case 2:
    return Rows<2>(p, n);
  case 3:
    return Rows<3>(p, n);
  case 4:
    return Rows<4>(p, n);
  case 5:
    return Rows<5>(p, n);
  case 6:
    return Rows<6>(p, n);
  case 7:
    return Rows<7>(p, n);
  case 8:
    return Rows<8>(p, n);
  default:
    HWY_ABORT("few_rows: %ld rows", static_cast<long>(m));
  }
}

/// Adds M rows of A times `rows` rows of B to `count` columns of sums. A line of B is read once and used M times.
template <int M, int rows, class T>
HWY_INLINE void AddRows(const Operands<T>& p, std::int64_t at, const T* b, T* sums, std::int64_t pitch,
                        std::int64_t count) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V factors[M][rows];
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) factors[i][r] = hn::Set(d, p.a[i * p.lda + at + r]);
  const auto add = [&](auto&& right, std::int64_t j) HWY_ATTR {
    V line[rows];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const T* const from = b + (at + r) * p.ldb + j;
      hwy::Prefetch(from + 2 * rows * p.ldb); // the processor does not see short rows far apart coming
      line[r] = right(from);
    }
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) {
      V sum = hn::LoadU(d, sums + i * pitch + j);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) sum = hn::MulAdd(factors[i][r], line[r], sum);
      hn::StoreU(sum, d, sums + i * pitch + j);
    }
  };
  std::int64_t j = 0;
  for (; j + lanes <= count; j += lanes) add([&](const T* x) HWY_ATTR { return hn::LoadU(d, x); }, j);
  if (const auto rest = static_cast<std::size_t>(count - j); rest != 0)
    add([&](const T* x) HWY_ATTR { return LoadUpTo(d, x, rest); }, j);
}

/// The sums of a block of columns stay in the first cache while B goes by. They are taken over 256 rows of B at a time
/// and then added up: one long chain would lose more to rounding.
template <int M, class T> void RowsOfB(const Operands<T>& p, std::int64_t n) {
  constexpr std::int64_t widest = 8192 / std::int64_t{M * sizeof(T)}; // sums of 8 KiB, and as much for the totals
  constexpr std::int64_t pitch = widest + static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  constexpr std::int64_t chain = 256;
  constexpr int several = M <= 4 ? 4 : 2;
  HWY_ALIGN T sums[M * pitch];
  HWY_ALIGN T totals[M * pitch];
  for (std::int64_t column = 0; column < n; column += widest) {
    const std::int64_t count = std::min(widest, n - column);
    std::fill(std::begin(totals), std::end(totals), T(0));
    for (std::int64_t first = 0; first < p.k; first += chain) {
      const std::int64_t last = std::min(p.k, first + chain);
      std::fill(std::begin(sums), std::end(sums), T(0));
      std::int64_t at = first;
      for (; at + several <= last; at += several) AddRows<M, several>(p, at, p.b + column, sums, pitch, count);
      for (; at < last; ++at) AddRows<M, 1>(p, at, p.b + column, sums, pitch, count);
      for (std::size_t i = 0; i < std::size(sums); ++i) totals[i] += sums[i];
    }
    for (int i = 0; i < M; ++i)
      for (std::int64_t j = 0; j < count; ++j) {
        T& c = p.c[i * p.ldc + column + j];
        const T sum = p.alpha * totals[i * pitch + j];
        c = p.beta == T(0) ? sum : p.beta * c + sum;
      }
  }
}

template <class T> void ProductOfRows(std::int64_t m, std::int64_t n, const Operands<T>& p) {
  switch (m) {
  case 1:
    return RowsOfB<1>(p, n);
  case 2:
    return RowsOfB<2>(p, n);
  case 3:
    return RowsOfB<3>(p, n);
  case 4:
    return RowsOfB<4>(p, n);
  case 5:
    return RowsOfB<5>(p, n);
  case 6:
    return RowsOfB<6>(p, n);
  case 7:
    return RowsOfB<7>(p, n);
  case 8:
    return RowsOfB<8>(p, n);
  default:
    HWY_ABORT("few_rows: %ld rows", static_cast<long>(m));
  }
}

void RowsOfBF32(std::int64_t m, std::int64_t n, const Operands<float>& p) { ProductOfRows(m, n, p); }
void RowsOfBF64(std::int64_t m, std::int64_t n, const Operands<double>& p) { ProductOfRows(m, n, p); }

void FewRowsF32(std::int64_t m, std::int64_t n, const Operands<float>& p) { Product(m, n, p); }
void FewRowsF64(std::int64_t m, std::int64_t n, const Operands<double>& p) { Product(m, n, p); }
void FewRowsInt8(std::int64_t m, std::int64_t n, const Operands<float, std::int8_t>& p) { Product(m, n, p); }
void FewRowsBf16(std::int64_t m, std::int64_t n, const Operands<float, BFloat16>& p) { Product(m, n, p); }

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(RowsOfBF32);
HWY_EXPORT(RowsOfBF64);
HWY_EXPORT(FewRowsF32);
HWY_EXPORT(FewRowsF64);
HWY_EXPORT(FewRowsInt8);
HWY_EXPORT(FewRowsBf16);

namespace skinny_gemm {

template <> void product<float>(std::int64_t m, std::int64_t n, const Operands<float>& operands) {
  HWY_DYNAMIC_DISPATCH(FewRowsF32)(m, n, operands);
}
template <> void product<double>(std::int64_t m, std::int64_t n, const Operands<double>& operands) {
  HWY_DYNAMIC_DISPATCH(FewRowsF64)(m, n, operands);
}
template <> void product<float>(std::int64_t m, std::int64_t n, const Operands<float, std::int8_t>& operands) {
  HWY_DYNAMIC_DISPATCH(FewRowsInt8)(m, n, operands);
}
template <> void product<float>(std::int64_t m, std::int64_t n, const Operands<float, BFloat16>& operands) {
  HWY_DYNAMIC_DISPATCH(FewRowsBf16)(m, n, operands);
}

template <> void product_of_rows(std::int64_t m, std::int64_t n, const Operands<float>& operands) {
  HWY_DYNAMIC_DISPATCH(RowsOfBF32)(m, n, operands);
}
template <> void product_of_rows(std::int64_t m, std::int64_t n, const Operands<double>& operands) {
  HWY_DYNAMIC_DISPATCH(RowsOfBF64)(m, n, operands);
}

} // namespace skinny_gemm
} // namespace eg
#endif
