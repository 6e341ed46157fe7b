#include "core/ops/reduce/kernels.h"
#include "core/threads/parallel.h"

#include <algorithm>

namespace eg::reduce {
namespace {

constexpr std::int64_t column_rows = 64;   // rows that one task adds up
constexpr std::int64_t column_span = 2048; // columns of one task: its sums stay in the first cache

/// inner == 1: long rows are cut into pieces whose sums are added in order.
template <class T> void sum_rows(const T* x, std::int64_t outer, std::int64_t n, double factor, T* y) {
  const std::int64_t pieces = std::max<std::int64_t>(1, parallel::chunks(n, row_piece));
  const auto sum_piece = [&](std::int64_t row, std::int64_t piece) {
    const std::int64_t start = piece * row_piece;
    return row_sum(x + row * n + start, std::min(row_piece, n - start));
  };
  if (pieces == 1) {
    const std::int64_t grain = std::max<std::int64_t>(1, row_piece / std::max<std::int64_t>(n, 1));
    parallel::for_each(outer, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) y[row] = static_cast<T>(factor * sum_piece(row, 0));
    });
    return;
  }
  std::vector<double> partial(static_cast<std::size_t>(outer * pieces));
  parallel::for_each(outer * pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task)
      partial[static_cast<std::size_t>(task)] = sum_piece(task / pieces, task % pieces);
  });
  for (std::int64_t row = 0; row < outer; ++row)
    y[row] = static_cast<T>(factor * row_sum(partial.data() + row * pieces, pieces));
}

/// y[o, c, i] = sum of the c-th 64 rows: the extent shrinks 64-fold.
template <class T> void sum_column_chunks(const T* x, AxisSplit s, T* y) {
  const std::int64_t chunks = std::max<std::int64_t>(1, parallel::chunks(s.extent, column_rows));
  const std::int64_t spans = parallel::chunks(s.inner, column_span);
  const std::int64_t work = std::min(s.extent, column_rows) * std::min(s.inner, column_span);
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(work, 1));
  parallel::for_each(s.outer * chunks * spans, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t column = task % spans * column_span;
      const std::int64_t chunk = task / spans % chunks;
      const std::int64_t o = task / spans / chunks;
      const std::int64_t row = chunk * column_rows;
      column_sums(x + (o * s.extent + row) * s.inner + column, std::min(column_rows, s.extent - row), s.inner,
                  std::min(column_span, s.inner - column), y + (o * chunks + chunk) * s.inner + column);
    }
  });
}

} // namespace

template <class T> void sum_axis(const T* x, AxisSplit s, double factor, T* y) {
  if (s.outer * s.inner == 0) return;
  if (s.inner == 1) return sum_rows(x, s.outer, s.extent, factor, y);
  Tensor held; // partial sums of the level below
  while (s.extent > column_rows) {
    const std::int64_t chunks = parallel::chunks(s.extent, column_rows);
    Tensor partial = Tensor::empty({s.outer, chunks, s.inner}, dtype_of<T>);
    sum_column_chunks(x, s, partial.mutable_data<T>());
    held = partial;
    x = held.data<T>();
    s.extent = chunks;
  }
  sum_column_chunks(x, s, y);
  if (factor == 1.0) return;
  for (std::int64_t i = 0; i < s.outer * s.inner; ++i) y[i] = static_cast<T>(factor * static_cast<double>(y[i]));
}

template void sum_axis(const float*, AxisSplit, double, float*);
template void sum_axis(const double*, AxisSplit, double, double*);

} // namespace eg::reduce
