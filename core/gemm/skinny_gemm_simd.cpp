#include "core/gemm/skinny_gemm.h"

#include <cstddef>

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

void FewRowsF32(std::int64_t m, std::int64_t n, const Operands<float>& p) { Product(m, n, p); }
void FewRowsF64(std::int64_t m, std::int64_t n, const Operands<double>& p) { Product(m, n, p); }
void FewRowsInt8(std::int64_t m, std::int64_t n, const Operands<float, std::int8_t>& p) { Product(m, n, p); }
void FewRowsBf16(std::int64_t m, std::int64_t n, const Operands<float, BFloat16>& p) { Product(m, n, p); }

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

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

} // namespace skinny_gemm
} // namespace eg
#endif
