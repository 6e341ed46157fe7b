#include "core/ops/reduce/products.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/ops/reduce/products_simd.cpp"
#include "core/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::HWY_NAMESPACE {
namespace {

/// As many elements as a vector of doubles has lanes, as doubles.
template <class D, class T> HWY_INLINE hn::Vec<D> LoadWide(D d, const T* x) {
  if constexpr (sizeof(T) == 8) {
    return hn::LoadU(d, x);
  } else {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>{}, x));
  }
}
/// The first `count` of them, zeros above.
template <class D, class T> HWY_INLINE hn::Vec<D> LoadWideUpTo(D d, const T* x, std::size_t count) {
  if constexpr (sizeof(T) == 8) {
    return LoadUpTo(d, x, count);
  } else {
    return hn::PromoteTo(d, LoadUpTo(hn::Rebind<float, D>{}, x, count));
  }
}

constexpr std::uint64_t exponent_bits = 0x7FF0000000000000;
constexpr std::uint64_t exponent_of_one = 0x3FF0000000000000;

/// Takes the powers of two out of v, which is then in [1, 2) with its sign, and adds them to `exponent`. What it took:
/// 0 of zeros and subnormal numbers, infinity of infinities and NaN.
template <class D, class V, class U> HWY_INLINE V TakePowers(D d, V& v, U& exponent) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto field = hn::And(bits, hn::Set(du, exponent_bits));
  exponent = hn::Add(exponent, hn::Sub(hn::ShiftRight<52>(field), hn::Set(du, std::uint64_t{1023})));
  v = hn::BitCast(d, hn::Or(hn::Xor(bits, field), hn::Set(du, exponent_of_one)));
  return hn::BitCast(d, field);
}

/// Product of the lanes.
template <class D, class V, class U> reduce::RowProduct JoinLanes(D d, V mantissa, U exponent) {
  const hn::RebindToUnsigned<D> du;
  double m[hn::MaxLanes(d)];
  std::uint64_t e[hn::MaxLanes(d)];
  hn::StoreU(mantissa, d, m);
  hn::StoreU(exponent, du, e);
  reduce::RowProduct product;
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) {
    int shift = 0;
    product.mantissa = 2.0 * std::frexp(product.mantissa * m[lane], &shift);
    product.exponent += static_cast<std::int64_t>(e[lane]) + shift - 1;
  }
  return product;
}

/// How many factors can be multiplied as doubles before the product must be brought back near 1: six floats, which lie
/// between 2^-149 and 2^128, and a number near 1.
template <class T> constexpr int factors_at_once = sizeof(T) == 4 ? 6 : 1;

/// A vector of products, each mantissa * 2^exponent, and whether all factors were normal numbers so far.
template <class T> struct Products {
  using D = hn::ScalableTag<double>;
  using DU = hn::RebindToUnsigned<D>;
  hn::Vec<D> mantissa;
  hn::Vec<DU> exponent;
  hn::Vec<D> least, most; // powers of two that were taken out of factors

  HWY_INLINE Products() // written out, so that it is compiled for the target
      : mantissa(hn::Set(D(), 1.0)), exponent(hn::Zero(DU())), least(mantissa), most(mantissa) {}

  HWY_INLINE bool all_normal() const {
    const D d;
    return hn::AllTrue(
        d, hn::And(hn::Gt(least, hn::Zero(d)), hn::Lt(most, hn::Set(d, std::numeric_limits<double>::infinity()))));
  }

  /// odd[lane] = true for those of the first `count` lanes whose factors were not all normal.
  HWY_INLINE void mark_odd(bool* odd, std::size_t count) const {
    const D d;
    double lowest[hn::MaxLanes(D())], highest[hn::MaxLanes(D())];
    hn::StoreU(least, d, lowest);
    hn::StoreU(most, d, highest);
    for (std::size_t lane = 0; lane < count; ++lane)
      if (!(lowest[lane] > 0 && highest[lane] < std::numeric_limits<double>::infinity())) odd[lane] = true;
  }

  /// Multiplies by the product of at most factors_at_once factors, in [2^-1022, 2^1024) unless one was 0, infinite or
  /// NaN (or, among doubles, subnormal).
  HWY_INLINE void times(hn::Vec<D> v) { multiply(mantissa, v); }
  /// The same of `chain`, a mantissa of these products whose powers of two go to `exponent` too.
  HWY_INLINE void multiply(hn::Vec<D>& chain, hn::Vec<D> v) {
    const D d;
    if constexpr (factors_at_once<T> == 1) note(TakePowers(d, v, exponent));
    chain = hn::Mul(chain, v);
    const auto power = TakePowers(d, chain, exponent);
    if constexpr (factors_at_once<T> != 1) note(power); // 1 <= |chain| < 2: that of the factors, or twice
  }
  HWY_INLINE void note(hn::Vec<D> power) {
    least = hn::Min(least, power);
    most = hn::Max(most, power);
  }
  HWY_INLINE void join(hn::Vec<D>& chain, hn::Vec<D> other) {
    chain = hn::Mul(chain, other);
    TakePowers(D(), chain, exponent);
  }
};

/// `count` lanes of x as doubles, ones above.
template <class D, class T> HWY_INLINE hn::Vec<D> LoadFactors(D d, const T* x, std::size_t count) {
  if (count == hn::Lanes(d)) return LoadWide(d, x);
  return hn::IfThenElse(hn::FirstN(d, count), LoadWideUpTo(d, x, count), hn::Set(d, 1.0));
}

template <class T> reduce::RowProduct RowProductOf(const T* x, std::int64_t n) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr std::int64_t several = factors_at_once<T>;
  const auto product_from = [&](std::int64_t from) HWY_ATTR {
    const auto pair = [&](std::int64_t k) HWY_ATTR {
      return hn::Mul(LoadWide(d, x + from + k * lanes), LoadWide(d, x + from + (k + 1) * lanes));
    };
    if constexpr (several == 6) {
      return hn::Mul(hn::Mul(pair(0), pair(2)), pair(4));
    } else {
      return LoadWide(d, x + from);
    }
  };
  Products<T> products;
  auto second = hn::Set(d, 1.0), third = second, fourth = second; // each waits for its own last factor alone
  std::int64_t i = 0;
  for (const std::int64_t step = several * lanes; i + 4 * step <= n; i += 4 * step) {
    for (std::int64_t ahead = 0; ahead < 4 * step; ahead += 64 / static_cast<std::int64_t>(sizeof(T)))
      hwy::Prefetch(x + i + ahead + 2048 / static_cast<std::int64_t>(sizeof(T)));
    products.times(product_from(i));
    products.multiply(second, product_from(i + step));
    products.multiply(third, product_from(i + 2 * step));
    products.multiply(fourth, product_from(i + 3 * step));
  }
  if (i > 0) {
    products.join(products.mantissa, second);
    products.join(third, fourth);
    products.join(products.mantissa, third);
  }
  for (; i + several * lanes <= n; i += several * lanes) products.times(product_from(i));
  for (; i < n; i += lanes) products.times(LoadFactors(d, x + i, static_cast<std::size_t>(std::min(lanes, n - i))));
  reduce::RowProduct joined = JoinLanes(d, products.mantissa, products.exponent);
  joined.normal = products.all_normal();
  return joined;
}

template <class T>
void ColumnProducts(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, double* mantissa,
                    std::int64_t* exponent, bool* odd) {
  const hn::ScalableTag<double> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr std::int64_t several = factors_at_once<T>;
  auto* const powers = reinterpret_cast<std::uint64_t*>(exponent);
  std::fill_n(odd, columns, false);
  std::fill_n(mantissa, columns, 1.0);
  std::fill_n(exponent, columns, std::int64_t{0});
  for (std::int64_t first = 0; first < rows; first += several) {
    const std::int64_t count = std::min(several, rows - first);
    const T* const from = x + first * stride;
    for (std::int64_t c = 0; c < columns; c += lanes) {
      const auto rest = static_cast<std::size_t>(std::min(lanes, columns - c));
      const bool whole = rest == hn::Lanes(d);
      auto v = LoadFactors(d, from + c, rest);
      for (std::int64_t r = 1; r < count; ++r) v = hn::Mul(v, LoadFactors(d, from + r * stride + c, rest));
      Products<T> products;
      products.mantissa = LoadFactors(d, mantissa + c, rest);
      products.exponent = whole ? hn::LoadU(du, powers + c) : LoadUpTo(du, powers + c, rest);
      products.times(v);
      if (!products.all_normal()) products.mark_odd(odd + c, rest);
      if (whole) {
        hn::StoreU(products.mantissa, d, mantissa + c);
        hn::StoreU(products.exponent, du, powers + c);
      } else {
        StoreUpTo(products.mantissa, d, mantissa + c, rest);
        StoreUpTo(products.exponent, du, powers + c, rest);
      }
    }
  }
}

/// 2^n for n in [-1000, 1000].
template <class D, class V> HWY_INLINE hn::Vec<D> PowerOf(D d, V n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<52>(hn::Add(n, hn::Set(di, std::int64_t{1023}))));
}

/// v * 2^exponent: beyond the largest and below the least number in steps.
template <class D, class V, class U> HWY_INLINE V Scaled(D d, V v, U exponent) {
  const hn::RebindToSigned<D> di;
  const auto most = hn::Set(di, std::int64_t{1000}), least = hn::Set(di, std::int64_t{-1000});
  auto left = hn::BitCast(di, exponent);
  if (hn::AllFalse(di, hn::Or(hn::Gt(left, most), hn::Gt(least, left)))) return hn::Mul(v, PowerOf(d, left));
  for (int step = 0; step < 3; ++step) {
    const auto low = hn::IfThenElse(hn::Gt(left, most), most, left);
    const auto n = hn::IfThenElse(hn::Gt(least, low), least, low);
    v = hn::Mul(v, PowerOf(d, n));
    left = hn::Sub(left, n);
  }
  return v;
}

template <class D, class V, class T> HWY_INLINE void StoreNarrow(D d, V v, T* to, std::size_t count) {
  if constexpr (sizeof(T) == 8) {
    count == hn::Lanes(d) ? hn::StoreU(v, d, to) : StoreUpTo(v, d, to, count);
  } else {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
    double wide[hn::MaxLanes(d)]; // DemoteTo would make the largest float of infinity here
    hn::StoreU(v, d, wide);
    for (std::size_t lane = 0; lane < count; ++lane) to[lane] = static_cast<T>(wide[lane]);
#else
    const auto narrow = hn::DemoteTo(hn::Rebind<T, D>{}, v);
    count == hn::Lanes(d) ? hn::StoreU(narrow, hn::Rebind<T, D>{}, to)
                          : StoreUpTo(narrow, hn::Rebind<T, D>{}, to, count);
#endif
  }
}

/// How many products of others are joined from one mantissa ahead, one behind and the factors between them, in doubles.
template <class T> constexpr std::int64_t group = factors_at_once<T>;

/// Lines side by side, one in each lane: element k of them at x + k * step, count(k) of the lanes.
template <class T, class Count> struct Lines {
  using D = hn::ScalableTag<double>;
  using DU = hn::RebindToUnsigned<D>;
  const T* x;
  std::int64_t n;
  std::int64_t step;
  Count count;

  std::int64_t groups() const { return parallel::chunks(n, group<T>); }
  HWY_INLINE hn::Vec<D> factors(std::int64_t k) const { return LoadFactors(D(), x + k * step, count(k)); }

  /// Writes the product ahead of group g, then multiplies it by those of the group.
  HWY_INLINE void ahead(std::int64_t g, Products<T>& product, double* mantissa, std::uint64_t* exponent) const {
    hn::StoreU(product.mantissa, D(), mantissa);
    hn::StoreU(product.exponent, DU(), exponent);
    const std::int64_t first = g * group<T>;
    auto v = factors(first);
    for (std::int64_t k = first + 1; k < std::min(first + group<T>, n); ++k) v = hn::Mul(v, factors(k));
    product.times(v);
  }

  /// y = what is ahead of each element of group g times what is behind it; `behind`: what is behind the last one.
  HWY_INLINE void join(std::int64_t g, Products<T>& behind, const double* mantissa, const std::uint64_t* exponent,
                       T* y) const {
    const D d;
    const auto width = static_cast<std::int64_t>(hn::Lanes(d));
    const auto powers = hn::Add(hn::LoadU(DU(), exponent), behind.exponent);
    if constexpr (group<T> == 1) {
      const auto factor = factors(g);
      StoreNarrow(d, Scaled(d, hn::Mul(hn::LoadU(d, mantissa), behind.mantissa), powers), y + g * step, count(g));
      behind.times(factor);
    } else {
      double of_group[static_cast<std::size_t>(group<T>) * hn::MaxLanes(d)], ahead_of[std::size(of_group)];
      const std::int64_t first = g * group<T>, last = std::min(first + group<T>, n) - 1;
      auto v = hn::LoadU(d, mantissa);
      for (std::int64_t k = first; k <= last; ++k) {
        const auto factor = factors(k);
        hn::StoreU(factor, d, of_group + (k - first) * width);
        hn::StoreU(v, d, ahead_of + (k - first) * width);
        v = hn::Mul(v, factor);
      }
      auto group_behind = hn::Set(d, 1.0);
      v = behind.mantissa;
      for (std::int64_t k = last; k >= first; --k) {
        const auto product = hn::Mul(hn::LoadU(d, ahead_of + (k - first) * width), v);
        StoreNarrow(d, Scaled(d, product, powers), y + k * step, count(k));
        const auto factor = hn::LoadU(d, of_group + (k - first) * width);
        v = hn::Mul(v, factor);
        group_behind = hn::Mul(group_behind, factor);
      }
      behind.times(group_behind);
    }
  }
};
template <class T, class Count> Lines(const T*, std::int64_t, std::int64_t, Count) -> Lines<T, Count>;

template <class T> bool OthersOfRow(const T* x, std::int64_t n, T* y, double* mantissa, std::int64_t* exponent) {
  const hn::ScalableTag<double> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  constexpr std::size_t most = hn::MaxLanes(d);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto* const powers = reinterpret_cast<std::uint64_t*>(exponent);
  const std::int64_t steps = (n + lanes - 1) / lanes;
  const auto count = [&](std::int64_t k) HWY_ATTR { return static_cast<std::size_t>(std::min(lanes, n - k * lanes)); };
  const Lines line{x, steps, lanes, count};
  Products<T> all;
  for (std::int64_t g = 0; g < line.groups(); ++g) line.ahead(g, all, mantissa + g * lanes, powers + g * lanes);
  if (!all.all_normal()) return false;
  double m[most], others[most];
  std::uint64_t e[most], powers_of_others[most];
  hn::StoreU(all.mantissa, d, m);
  hn::StoreU(all.exponent, du, e);
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    reduce::RowProduct rest;
    for (std::int64_t other = 0; other < lanes; ++other) {
      if (other == lane) continue;
      int shift = 0;
      rest.mantissa = 2.0 * std::frexp(rest.mantissa * m[other], &shift);
      rest.exponent += static_cast<std::int64_t>(e[other]) + shift - 1;
    }
    others[lane] = rest.mantissa;
    powers_of_others[lane] = static_cast<std::uint64_t>(rest.exponent);
  }
  Products<T> behind;
  behind.mantissa = hn::LoadU(d, others);
  behind.exponent = hn::LoadU(du, powers_of_others);
  for (std::int64_t g = line.groups() - 1; g >= 0; --g)
    line.join(g, behind, mantissa + g * lanes, powers + g * lanes, y);
  return true;
}

/// The same of `vectors` times as many columns as there are lanes, group after group of rows, each of `some` lanes.
/// Marks those that have an element of the odd kinds.
template <std::int64_t vectors, class T>
HWY_INLINE void OthersOfVectors(const T* x, std::int64_t rows, std::int64_t stride, std::size_t some, T* y,
                                double* mantissa, std::uint64_t* exponent, bool* odd) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto count = [some](std::int64_t) HWY_ATTR { return some; };
  const auto lines = [&](std::int64_t v) HWY_ATTR { return Lines{x + v * lanes, rows, stride, count}; };
  const auto at = [&](std::int64_t g, std::int64_t v) HWY_ATTR { return (g * vectors + v) * lanes; };
  const std::int64_t groups = lines(0).groups();
  Products<T> all[vectors], behind[vectors];
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t v = 0; v < vectors; ++v) lines(v).ahead(g, all[v], mantissa + at(g, v), exponent + at(g, v));
  for (std::int64_t v = 0; v < vectors; ++v)
    if (!all[v].all_normal()) all[v].mark_odd(odd + v * lanes, some);
  for (std::int64_t g = groups - 1; g >= 0; --g)
    for (std::int64_t v = 0; v < vectors; ++v)
      lines(v).join(g, behind[v], mantissa + at(g, v), exponent + at(g, v), y + v * lanes);
}

template <class T>
void OthersOfColumns(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, T* y, double* mantissa,
                     std::int64_t* exponent, bool* odd) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto* const powers = reinterpret_cast<std::uint64_t*>(exponent);
  std::fill_n(odd, columns, false);
  // Rows far apart are on pages of their own: as many columns of each at a time as there is scratch for. A group of six
  // rows takes that of one; four times the columns also fit where the last group is short, but for a few rows.
  constexpr std::int64_t few = reduce::scratch_columns, many = few * (group<T> == 1 ? 1 : 4);
  constexpr auto most = static_cast<std::int64_t>(hn::MaxLanes(d));
  std::int64_t c = 0;
  const auto run = [&]<std::int64_t vectors>(std::integral_constant<std::int64_t, vectors>) HWY_ATTR {
    const std::int64_t width = vectors * lanes;
    if (parallel::chunks(rows, group<T>) * width > rows * reduce::scratch_columns) return;
    for (; c + width <= columns; c += width)
      OthersOfVectors<vectors>(x + c, rows, stride, hn::Lanes(d), y + c, mantissa, powers, odd + c);
  };
  run(std::integral_constant<std::int64_t, std::max<std::int64_t>(many / most, 1)>());
  run(std::integral_constant<std::int64_t, std::max<std::int64_t>(few / most, 1)>());
  for (; c < columns; c += lanes)
    OthersOfVectors<1>(x + c, rows, stride, static_cast<std::size_t>(std::min(lanes, columns - c)), y + c, mantissa,
                       powers, odd + c);
}

#define EG_PRODUCT_KERNELS(SUFFIX, T)                                                                                  \
  reduce::RowProduct RowProduct##SUFFIX(const T* x, std::int64_t n) { return RowProductOf(x, n); }                     \
  void ColumnProducts##SUFFIX(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns,                \
                              double* mantissa, std::int64_t* exponent, bool* odd) {                                   \
    ColumnProducts(x, rows, stride, columns, mantissa, exponent, odd);                                                 \
  }                                                                                                                    \
  bool OthersOfRow##SUFFIX(const T* x, std::int64_t n, T* y, double* mantissa, std::int64_t* exponent) {               \
    return OthersOfRow(x, n, y, mantissa, exponent);                                                                   \
  }                                                                                                                    \
  void OthersOfColumns##SUFFIX(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, T* y,         \
                               double* mantissa, std::int64_t* exponent, bool* odd) {                                  \
    OthersOfColumns(x, rows, stride, columns, y, mantissa, exponent, odd);                                             \
  }
EG_PRODUCT_KERNELS(F32, float)
EG_PRODUCT_KERNELS(F64, double)
#undef EG_PRODUCT_KERNELS

} // namespace
} // namespace eg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg {

HWY_EXPORT(RowProductF32);
HWY_EXPORT(RowProductF64);
HWY_EXPORT(ColumnProductsF32);
HWY_EXPORT(ColumnProductsF64);
HWY_EXPORT(OthersOfRowF32);
HWY_EXPORT(OthersOfRowF64);
HWY_EXPORT(OthersOfColumnsF32);
HWY_EXPORT(OthersOfColumnsF64);

namespace reduce {

#define EG_PRODUCT_ENTRIES(SUFFIX, T)                                                                                  \
  template <> RowProduct row_product(const T* x, std::int64_t n) {                                                     \
    return HWY_DYNAMIC_DISPATCH(RowProduct##SUFFIX)(x, n);                                                             \
  }                                                                                                                    \
  template <>                                                                                                          \
  void column_products(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, double* mantissa,     \
                       std::int64_t* exponent, bool* odd) {                                                            \
    HWY_DYNAMIC_DISPATCH(ColumnProducts##SUFFIX)(x, rows, stride, columns, mantissa, exponent, odd);                   \
  }                                                                                                                    \
  template <> bool others_of_row(const T* x, std::int64_t n, T* y, double* mantissa, std::int64_t* exponent) {         \
    return HWY_DYNAMIC_DISPATCH(OthersOfRow##SUFFIX)(x, n, y, mantissa, exponent);                                     \
  }                                                                                                                    \
  template <>                                                                                                          \
  void others_of_columns(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns, T* y,               \
                         double* mantissa, std::int64_t* exponent, bool* odd) {                                        \
    HWY_DYNAMIC_DISPATCH(OthersOfColumns##SUFFIX)(x, rows, stride, columns, y, mantissa, exponent, odd);               \
  }
EG_PRODUCT_ENTRIES(F32, float)
EG_PRODUCT_ENTRIES(F64, double)
#undef EG_PRODUCT_ENTRIES

} // namespace reduce
} // namespace eg
#endif
