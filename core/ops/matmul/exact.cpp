#include "core/ops/matmul/exact.h"

#include "core/ops/matmul/exact_slices.h"
#include "core/ops/matmul/rounding_bounds.h"
#include "core/tensor.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <mutex>
#include <vector>

namespace eg {
namespace {

using exact_slices::Lines;
using rounding_bounds::Magnitude;

/// Terms that one product in double adds up at most; what follows is added to its sums. So a sum of k terms is rounded
/// depth + k / depth times, not k times.
constexpr std::int64_t depth = 512;

/// One operand in double, laid out as its floats are, and the magnitudes of its lines.
struct Wide {
  Tensor values;
  std::int64_t ld = 0;
  bool along = true;                  ///< lines are rows of `values`
  std::vector<double> largest, norms; ///< norms: Euclidean, bounds from above
  bool finite = true;

  /// Entry p of a line.
  const double* at(std::int64_t line, std::int64_t p) const {
    return values.data<double>() + (along ? line * ld + p : p * ld + line);
  }
};

Wide widened(const Lines<float>& x, bool parallel) {
  Wide wide;
  wide.along = x.step == 1;
  const std::int64_t outer = wide.along ? x.count : x.k, inner = wide.along ? x.k : x.count;
  wide.ld = inner % 512 == 0 ? inner + 8 : inner; // lines 4096 bytes apart would displace each other from the cache
  wide.values = Tensor::empty({outer, wide.ld}, DType::f64);
  wide.largest.resize(static_cast<std::size_t>(x.count));
  wide.norms.resize(wide.largest.size());
  auto* const to = wide.values.mutable_data<double>();
  constexpr std::int64_t across = 256; // columns of one task
  const std::int64_t grain = !parallel ? x.count : wide.along ? parallel::grain_for_bytes(8 * x.k) : across;
  parallel::for_each(x.count, grain, [&](std::int64_t begin, std::int64_t end) {
    if (wide.along) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Magnitude line = rounding_bounds::widen_line(x.k, x.data + i * x.line, to + i * wide.ld);
        wide.largest[static_cast<std::size_t>(i)] = line.largest;
        wide.norms[static_cast<std::size_t>(i)] = line.squares;
      }
    } else {
      for (std::int64_t p = 0; p < x.k; ++p)
        rounding_bounds::widen_across(end - begin, x.data + p * x.step + begin, to + p * wide.ld + begin,
                                      wide.largest.data() + begin, wide.norms.data() + begin);
    }
  });
  for (double& norm : wide.norms) {
    wide.finite = wide.finite && std::isfinite(norm); // squares of finite floats are far from overflow
    norm = std::sqrt(norm) * (1.0 + 1e-9);            // whatever the order of the squares
  }
  return wide;
}

/// Line i in double, below 1 by a power of two that is returned.
double scaled_line(const Lines<float>& x, std::int64_t i, double largest, std::vector<double>& to) {
  int exponent = 0;
  std::frexp(largest, &exponent);
  const double factor = std::ldexp(1.0, -exponent);
  for (std::int64_t p = 0; p < x.k; ++p)
    to[static_cast<std::size_t>(p)] = static_cast<double>(x.data[i * x.line + p * x.step]) * factor;
  return std::ldexp(1.0, exponent);
}

struct Place {
  std::int64_t row, column;
};

/// A product of finite floats: the elements that one product in double decides, and a list of the others.
class DoubleProduct {
public:
  DoubleProduct(const Lines<float>& rows, const Lines<float>& columns, float* c, bool parallel)
      : rows_(rows), columns_(columns), c_(c), parallel_(parallel), left_(widened(rows, parallel)),
        right_(widened(columns, parallel)) {}

  bool finite() const { return left_.finite && right_.finite; }

  /// Writes every element of C that is decided. Returns the others.
  std::vector<Place> run() {
    // Sums of a part of C at a time, which stay in a near cache and take little memory.
    constexpr std::int64_t most = std::int64_t{1} << 21, fewest = 512;
    const std::int64_t m = rows_.count, n = columns_.count;
    const std::int64_t rows = m > n ? std::max(fewest, most / n) : m, columns = m > n ? n : std::max(fewest, most / m);
    Tensor sums = Tensor::empty({std::min(m, rows), std::min(n, columns)}, DType::f64);
    for (std::int64_t i = 0; i < m; i += rows)
      for (std::int64_t j = 0; j < n; j += columns)
        part({i, std::min(rows, m - i), j, std::min(columns, n - j)}, sums.mutable_data<double>());
    return std::move(open_);
  }

  /// Writes one element from the slices of its row and column, for which x and y have room.
  void settle(const Place& at, std::vector<double>& x, std::vector<double>& y) const {
    const double row = scaled_line(rows_, at.row, left_.largest[static_cast<std::size_t>(at.row)], x);
    const double column = scaled_line(columns_, at.column, right_.largest[static_cast<std::size_t>(at.column)], y);
    const double sum = exact_slices::sum_by_slices(rows_.k, exact_slices::bits_for(rows_.k), x.data(), y.data());
    c_[at.row * columns_.count + at.column] = static_cast<float>(sum * row * column);
  }

private:
  /// A part of C, with room for its sums.
  void part(const blas::Tile& tile, double* sums) {
    for (std::int64_t p = 0; p < rows_.k; p += depth) {
      const blas::Matrix<double> a{left_.at(tile.row, p), left_.ld, !left_.along};
      const blas::Matrix<double> b{right_.at(tile.col, p), right_.ld, right_.along};
      const std::int64_t terms = std::min(depth, rows_.k - p);
      const double beta = p > 0 ? 1.0 : 0.0;
      if (parallel_)
        blas::gemm_tiled<double>(tile.rows, tile.cols, terms, 1.0, a, b, beta, sums, tile.cols);
      else
        blas::gemm<double>(tile.rows, tile.cols, terms, 1.0, a, b, beta, sums, tile.cols);
    }
    parallel::for_each(tile.rows, parallel_ ? parallel::grain_for_bytes(8 * tile.cols) : tile.rows,
                       [&](std::int64_t begin, std::int64_t end) {
                         round(sums + begin * tile.cols, {tile.row + begin, end - begin, tile.col, tile.cols});
                       });
  }

  /// Writes the elements of a tile of C, of which the sums are known.
  void round(const double* sums, const blas::Tile& tile) {
    const auto k = static_cast<double>(rows_.k);
    const auto additions =
        1.001 * 0x1p-53 * static_cast<double>(std::min(rows_.k, depth + parallel::chunks(rows_.k, depth)) + 8);
    const double dropped = 1.001 * 5 * k * std::ldexp(1.0, -3 * exact_slices::bits_for(rows_.k));
    std::vector<Place> open;
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      float* const to = c_ + (tile.row + i) * columns_.count + tile.col;
      const auto line = static_cast<std::size_t>(tile.row + i);
      const bool undecided = rounding_bounds::round_row({tile.cols, sums + i * tile.cols, additions * left_.norms[line],
                                                         dropped * left_.largest[line], right_.norms.data() + tile.col,
                                                         right_.largest.data() + tile.col},
                                                        to);
      for (std::int64_t j = 0; undecided && j < tile.cols; ++j)
        if (std::isnan(to[j])) open.push_back({tile.row + i, tile.col + j});
    }
    if (open.empty()) return;
    const std::lock_guard lock(mutex_);
    open_.insert(open_.end(), open.begin(), open.end());
  }

  const Lines<float> rows_, columns_;
  float* const c_;
  const bool parallel_;
  const Wide left_, right_;
  std::mutex mutex_;
  std::vector<Place> open_;
};

/// C, or false where slices take less time: C is not complete then.
bool product_in_double(const Lines<float>& rows, const Lines<float>& columns, float* c, bool parallel) {
  DoubleProduct product(rows, columns, c, parallel);
  if (!product.finite()) return false;
  const std::vector<Place> open = product.run();
  constexpr std::int64_t few = 64; // an element alone takes as long as so many in a product
  if (std::ssize(open) * few > rows.count * columns.count + few * few) return false;
  const std::int64_t grain =
      parallel ? parallel::grain_for_bytes(16 * rows.k) : std::max<std::int64_t>(std::ssize(open), 1);
  parallel::for_each(std::ssize(open), grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> x(static_cast<std::size_t>(rows.k)), y(x.size());
    for (std::int64_t i = begin; i < end; ++i) product.settle(open[static_cast<std::size_t>(i)], x, y);
  });
  return true;
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
  const Lines<T> rows = exact_slices::rows_of(a, m, k), columns = exact_slices::columns_of(b, n, k);
  if constexpr (sizeof(T) == sizeof(float))
    if (product_in_double(rows, columns, c, parallel)) return;
  exact_slices::product(rows, columns, c, parallel);
}

template void exact_gemm(std::int64_t, std::int64_t, std::int64_t, blas::Matrix<float>, blas::Matrix<float>, float*,
                         bool);
template void exact_gemm(std::int64_t, std::int64_t, std::int64_t, blas::Matrix<double>, blas::Matrix<double>, double*,
                         bool);

} // namespace eg
