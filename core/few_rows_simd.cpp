#include "core/few_rows.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/few_rows_simd.cpp"
#include "core/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

using few_rows::Operands;

/// M rows of A times R rows of B, a vector of partial sums each. A vector of B is used M times while it is in a
/// register.
template <int M, int R, class T> HWY_INLINE void Block(const Operands<T>& p) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sums[M][R];
  for (int i = 0; i < M; ++i)
    for (int r = 0; r < R; ++r) sums[i][r] = hn::Zero(d);
  const auto add = [&](auto&& load, std::int64_t at) HWY_ATTR {
    V right[R];
    for (int r = 0; r < R; ++r) right[r] = load(p.b + r * p.ldb + at);
    for (int i = 0; i < M; ++i) {
      const V left = load(p.a + i * p.lda + at);
      for (int r = 0; r < R; ++r) sums[i][r] = hn::MulAdd(left, right[r], sums[i][r]);
    }
  };
  std::int64_t at = 0;
  for (; at + lanes <= p.k; at += lanes) add([&](const T* x) HWY_ATTR { return hn::LoadU(d, x); }, at);
  if (at < p.k) {
    const auto count = static_cast<std::size_t>(p.k - at);
    add([&](const T* x) HWY_ATTR { return LoadUpTo(d, x, count); }, at);
  }
  for (int i = 0; i < M; ++i)
    for (int r = 0; r < R; ++r) {
      T& c = p.c[i * p.ldc + r];
      const T sum = p.alpha * hn::GetLane(hn::SumOfLanes(d, sums[i][r]));
      c = p.beta == T(0) ? sum : p.beta * c + sum;
    }
}

/// As many rows of B at a time as leave registers for their sums.
template <int M, class T> void Rows(Operands<T> p, std::int64_t n) {
  constexpr int R = M <= 2 ? 4 : M <= 4 ? 2 : 1;
  const auto advance = [&](std::int64_t rows) {
    p.b += rows * p.ldb;
    p.c += rows;
    n -= rows;
  };
  while (n >= R) {
    Block<M, R>(p);
    advance(R);
  }
  while (n > 0) {
    Block<M, 1>(p);
    advance(1);
  }
}

template <class T> void Product(std::int64_t m, std::int64_t n, const Operands<T>& p) {
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

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(FewRowsF32);
HWY_EXPORT(FewRowsF64);

namespace few_rows {

template <> void product<float>(std::int64_t m, std::int64_t n, const Operands<float>& operands) {
  HWY_DYNAMIC_DISPATCH(FewRowsF32)(m, n, operands);
}
template <> void product<double>(std::int64_t m, std::int64_t n, const Operands<double>& operands) {
  HWY_DYNAMIC_DISPATCH(FewRowsF64)(m, n, operands);
}

} // namespace few_rows
} // namespace eg
#endif
