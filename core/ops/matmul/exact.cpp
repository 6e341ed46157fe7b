#include "core/ops/matmul/exact.h"

#include "core/tensor.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

namespace eg {
namespace {

constexpr int most_slices = 4;
template <class T> constexpr int slices_of = sizeof(T) == sizeof(float) ? 3 : 4;

/// for_each, or a plain loop where the caller is a thread of one already.
void rows_loop(bool parallel, std::int64_t rows, std::int64_t columns,
               FunctionRef<void(std::int64_t begin, std::int64_t end)> body) {
  if (!parallel) {
    if (rows > 0) body(0, rows);
    return;
  }
  parallel::for_each(rows, std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(columns, 1)), body);
}

/// Bits of a slice: sums of 4 K products of two slices stay below 2^53 of their grid.
int slice_bits(std::int64_t k) {
  int log_terms = 2;
  while ((std::int64_t{4} << (log_terms - 2)) < 4 * k) ++log_terms;
  return (53 - log_terms) / 2;
}

/// x * 2^power without rounding on the way where the result needs none.
double scaled(double x, int power) {
  return power > -1000 && power < 1000 ? x * std::ldexp(1.0, power) : std::ldexp(x, power);
}

/// The rows of one operand, cut into slices: slice s at data + s * rows * k, entries in (-1, 1) before scaling back.
struct Sliced {
  Tensor values;              // [slices, rows, k] f64
  std::vector<int> exponents; // row i was divided by 2^exponents[i]
  std::vector<char> odd;      // row i has entries that are not finite (taken as 0)
  int slices = 0;
  bool any_odd = false;
  std::int64_t rows = 0;
  std::int64_t k = 0;

  const double* slice(int s) const { return values.data<double>() + s * rows * k; }
};

/// Entry j of row i of op(X) is at data[i * row_step + j * step].
template <class T> struct Rows {
  const T* data;
  std::int64_t row_step;
  std::int64_t step;
};

/// Cuts row i. Returns the number of slices that hold anything.
template <class T> int cut_row(Rows<T> x, std::int64_t i, int bits, Sliced& out, double* first) {
  const T* row = x.data + i * x.row_step;
  double largest = 0.0;
  bool odd = false;
  for (std::int64_t j = 0; j < out.k; ++j) {
    const double magnitude = std::abs(static_cast<double>(row[j * x.step]));
    if (!std::isfinite(magnitude))
      odd = true;
    else
      largest = std::max(largest, magnitude);
  }
  int exponent = 0;
  std::frexp(largest, &exponent);
  out.exponents[static_cast<std::size_t>(i)] = exponent;
  out.odd[static_cast<std::size_t>(i)] = odd ? 1 : 0;
  double rounder[most_slices];
  for (int s = 0; s < slices_of<T>; ++s) rounder[s] = std::ldexp(1.5, 52 - (s + 1) * bits);
  const bool plain = exponent > -1000 && exponent < 1000;
  const double factor = plain ? std::ldexp(1.0, -exponent) : 1.0;
  const std::int64_t slice_size = out.rows * out.k;
  int used = 0;
  for (std::int64_t j = 0; j < out.k; ++j) {
    auto rest = static_cast<double>(row[j * x.step]);
    if (odd && !std::isfinite(rest)) rest = 0.0;
    rest = plain ? rest * factor : std::ldexp(rest, -exponent);
    double* to = first + i * out.k + j;
    for (int s = 0; s < slices_of<T>; ++s, to += slice_size) {
      const double part = (rest + rounder[s]) - rounder[s];
      *to = part;
      rest -= part;
      if (part != 0.0) used = std::max(used, s + 1);
    }
  }
  return used;
}

template <class T> Sliced cut(Rows<T> x, std::int64_t rows, std::int64_t k, bool parallel) {
  Sliced out;
  out.rows = rows;
  out.k = k;
  out.values = Tensor::empty({slices_of<T>, rows, k}, DType::f64);
  out.exponents.resize(static_cast<std::size_t>(rows));
  out.odd.resize(static_cast<std::size_t>(rows));
  std::vector<int> used(static_cast<std::size_t>(rows));
  double* first = out.values.mutable_data<double>();
  const int bits = slice_bits(k);
  rows_loop(parallel, rows, k, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) used[static_cast<std::size_t>(i)] = cut_row(x, i, bits, out, first);
  });
  out.slices = std::max(1, *std::max_element(used.begin(), used.end()));
  out.any_odd = std::find(out.odd.begin(), out.odd.end(), 1) != out.odd.end();
  return out;
}

/// What IEEE arithmetic gives for row i times column j when one has entries that are not finite.
template <class T> double odd_entry(Rows<T> a, std::int64_t i, Rows<T> b, std::int64_t j, std::int64_t k) {
  double total = 0.0;
  for (std::int64_t l = 0; l < k; ++l) {
    const double product = static_cast<double>(a.data[i * a.row_step + l * a.step]) *
                           static_cast<double>(b.data[j * b.row_step + l * b.step]);
    if (!std::isfinite(product)) total += product;
  }
  return std::isnan(total) ? std::numeric_limits<double>::quiet_NaN() : total;
}

/// total (+)= sum of the products of slices (s, order - s), all exact: one grid holds them.
void add_order(int order, const Sliced& a, const Sliced& b, double* sum, bool parallel) {
  double beta = 0.0;
  for (int s = 0; s < a.slices; ++s) {
    const int t = order - s;
    if (t < 0 || t >= b.slices) continue;
    const blas::Matrix<double> left{a.slice(s), a.k, false};
    const blas::Matrix<double> right{b.slice(t), b.k, true};
    if (parallel)
      blas::gemm_tiled<double>(a.rows, b.rows, a.k, 1.0, left, right, beta, sum, b.rows);
    else
      blas::gemm<double>(a.rows, b.rows, a.k, 1.0, left, right, beta, sum, b.rows);
    beta = 1.0;
  }
}

} // namespace

template <class T>
void exact_gemm(std::int64_t m, std::int64_t n, std::int64_t k, blas::Matrix<T> a, blas::Matrix<T> b, T* c,
                bool parallel) {
  if (m * n == 0) return;
  if (k == 0) {
    std::fill_n(c, m * n, T(0));
    return;
  }
  const Rows<T> rows{a.data, a.transposed ? 1 : a.ld, a.transposed ? a.ld : 1};
  const Rows<T> columns{b.data, b.transposed ? b.ld : 1, b.transposed ? 1 : b.ld};
  const Sliced left = cut(rows, m, k, parallel);
  const Sliced right = cut(columns, n, k, parallel);
  Tensor held = Tensor::empty({2, m, n}, DType::f64);
  double* total = held.mutable_data<double>();
  double* sum = total + m * n;
  // Orders from the finest grid to the coarsest; what is beyond the last slice of either is dropped.
  const int finest = std::min(left.slices + right.slices - 2, slices_of<T> - 1);
  add_order(finest, left, right, total, parallel);
  for (int order = finest - 1; order >= 0; --order) {
    add_order(order, left, right, sum, parallel);
    rows_loop(parallel, m, n, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin * n; i < end * n; ++i) total[i] += sum[i];
    });
  }
  rows_loop(parallel, m, n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const auto row = static_cast<std::size_t>(i);
        const auto column = static_cast<std::size_t>(j);
        const bool odd = left.odd[row] != 0 || right.odd[column] != 0;
        const double special = odd ? odd_entry(rows, i, columns, j, k) : 0.0;
        c[i * n + j] = special != 0.0 // NaN too
                           ? static_cast<T>(special)
                           : static_cast<T>(scaled(total[i * n + j], left.exponents[row] + right.exponents[column]));
      }
  });
}

template void exact_gemm(std::int64_t, std::int64_t, std::int64_t, blas::Matrix<float>, blas::Matrix<float>, float*,
                         bool);
template void exact_gemm(std::int64_t, std::int64_t, std::int64_t, blas::Matrix<double>, blas::Matrix<double>, double*,
                         bool);

} // namespace eg
