#include "core/device/axes.h"
#include "core/memory/scratch_pool.h"
#include "core/ops/reduce/kernels.h"
#include "core/simd/every_other.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <array>

namespace eg::reduce {
namespace {

using Axes = device::Axes<1>;

constexpr std::int64_t column_rows = 64;   // rows that one task adds up
constexpr std::int64_t column_span = 2048; // columns of one task: its sums stay in the first cache
constexpr std::int64_t copied_span = 128;  // the same where the columns are copied first
constexpr std::int64_t turned_span = 8;    // and where they lie along memory: so many streams are read ahead
constexpr std::int64_t turned_chunks = 32; // and so many times column_rows of each

/// The axes [begin, end) of x.
Axes axes_of(const Tensor& x, int begin, int end) {
  Shape shape, strides;
  for (int axis = begin; axis < end; ++axis) {
    shape.push_back(x.shape()[axis]);
    strides.push_back(x.strides()[axis]);
  }
  return device::merged_axes<1>(shape, {strides});
}

std::int64_t offset_at(const Axes& axes, std::int64_t flat) {
  std::int64_t offset = 0;
  for (int axis = axes.rank - 1; axis >= 0; --axis) {
    offset += flat % axes.extent[axis] * axes.stride[0][axis];
    flat /= axes.extent[axis];
  }
  return offset;
}

bool is_dense(const Axes& axes, int axis) { return axes.stride[0][axis] == 1; }
/// The axis along which elements are neighbours in memory, or -1.
int dense_axis(const Axes& axes) {
  int axis = axes.rank - 1;
  while (axis >= 0 && !is_dense(axes, axis)) --axis;
  return axis;
}

/// Adds the axes [begin, end) of `more` behind those of `axes`.
void append(Axes& axes, const Axes& more, int begin, int end) {
  for (int axis = begin; axis < end; ++axis) {
    axes.extent[axes.rank] = more.extent[axis];
    axes.stride[0][axes.rank++] = more.stride[0][axis];
  }
}

/// f(i, its element, m) for the elements i, ..., i + m - 1 of [0, n), which lie evenly: those from `flat` on of x.
template <class T, class F> void for_each_run(const T* x, const Axes& axes, std::int64_t flat, std::int64_t n, F f) {
  const std::int64_t extent = axes.rank > 0 ? axes.extent[axes.rank - 1] : 1;
  for (std::int64_t i = 0; i < n;) {
    const std::int64_t m = std::min(n - i, extent - (flat + i) % extent);
    f(i, x + offset_at(axes, flat + i), m);
    i += m;
  }
}

/// y[row] = factor * the sum of n elements; sum_of(i, m): that of the elements i, ..., i + m - 1 of all rows. Long rows
/// are cut into pieces whose sums are added in order.
template <class T, class Sum>
void sum_rows(std::int64_t outer, std::int64_t n, double factor, T* y, const Sum& sum_of) {
  const std::int64_t pieces = std::max<std::int64_t>(1, parallel::chunks(n, row_piece));
  const auto sum_piece = [&](std::int64_t row, std::int64_t piece) {
    const std::int64_t start = piece * row_piece;
    return sum_of(row * n + start, std::min(row_piece, n - start));
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

/// row_sum of the elements from `flat` on. A block whose elements are not neighbours is copied; of up to eight
/// that an expanded axis repeats, the sums are known.
template <class T> double sum_of_runs(const T* x, const Axes& axes, std::int64_t flat, std::int64_t n) {
  struct Known {
    const T* block = nullptr;
    std::int64_t size = 0;
    double sum = 0;
  };
  const std::int64_t step = axes.stride[0][axes.rank - 1];
  T held[row_block];
  std::array<Known, 8> known;
  double sum = 0;
  for (std::int64_t begin = 0; begin < n; begin += row_block) {
    const std::int64_t size = std::min(row_block, n - begin);
    const T* block = held;
    for_each_run(x, axes, flat + begin, size, [&](std::int64_t i, const T* from, std::int64_t m) {
      if (m == size && step == 1)
        block = from;
      else if (step == 2)
        simd::every_other(from, m, held + i);
      else
        for (std::int64_t k = 0; k < m; ++k) held[i + k] = from[k * step];
    });
    if (block == held) {
      sum += row_sum(block, size);
      continue;
    }
    Known& place = known[static_cast<std::size_t>((block - x) / row_block) % known.size()];
    if (block != place.block || size != place.size) place = {block, size, row_sum(block, size)};
    sum += place.sum;
  }
  return sum;
}

/// Rows of n elements in memory side by side along the axis `dense`, no block of which goes beyond the last axis.
template <class T>
void sum_rows_across(const T* x, const Axes& axes, int dense, std::int64_t outer, std::int64_t n, double factor, T* y) {
  Axes before = axes, between;
  before.rank = dense;
  const int last = axes.rank - 1;
  append(between, axes, dense + 1, last);
  const std::int64_t rows = axes.extent[dense], length = axes.extent[last], stride = axes.stride[0][last];
  const std::int64_t blocks = parallel::chunks(length, row_block);
  const std::int64_t inner = between.count(), step = inner * blocks;
  std::int64_t width = 2048; // rows of one task: the longer their streams the better, but every thread needs tasks
  while (width > 512 && before.count() * parallel::chunks(rows, width) * step < 2 * parallel::threads()) width /= 2;
  const std::int64_t spans = parallel::chunks(rows, width);
  Tensor sums = Tensor::empty({before.count() * rows * step}, DType::f64);
  double* const to = sums.mutable_data<double>();
  const std::int64_t bytes = std::min(width, rows) * std::min(row_block, length) * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t tasks = before.count() * spans * step, grain = parallel::grain_for_bytes(bytes);
  ScratchPool pool(parallel::chunks(tasks, grain), block_sums_room);
  parallel::for_each(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
    const ScratchPool::Buffer room = pool.take();
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t in_row = task % step, outside = task / step / spans;
      const std::int64_t row = task / step % spans * width, k = in_row % blocks * row_block;
      const T* const from = x + offset_at(before, outside) + row + offset_at(between, in_row / blocks) + k * stride;
      block_sums(from, std::min(row_block, length - k), stride, std::min(width, rows - row),
                 reinterpret_cast<T*>(room.data()), to + (outside * rows + row) * step + in_row, step);
    }
  });
  const std::int64_t of_row = n / length * blocks;
  sum_rows(outer, n, factor, y, [&](std::int64_t flat, std::int64_t m) {
    const double* const at = to + flat / n * of_row + flat % n / row_block;
    double sum = 0;
    for (std::int64_t i = 0; i < parallel::chunks(m, row_block); ++i) sum += at[i];
    return sum;
  });
}

/// The same as sum_column_chunks where columns lie along memory. There are columns, and they have numbers.
template <class T> void sum_turned_chunks(const T* x, const Axes& outer, const Axes& extent, const Axes& inner, T* y) {
  const std::int64_t step = inner.stride[0][inner.rank - 1], n = extent.count(), width = inner.count();
  const std::int64_t chunks = parallel::chunks(n, column_rows), parts = parallel::chunks(chunks, turned_chunks);
  const std::int64_t spans = parallel::chunks(width, turned_span),
                     work = std::min(width, turned_span) * std::min(n, turned_chunks * column_rows);
  parallel::for_each(
      outer.count() * spans * parts, std::max<std::int64_t>(1, 16384 / work),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t task = begin; task < end; ++task) {
          const std::int64_t o = task / parts / spans, column = task / parts % spans * turned_span;
          const std::int64_t first = task % parts * turned_chunks, last = std::min(chunks, first + turned_chunks);
          const T* const from = x + offset_at(outer, o);
          for_each_run(from, inner, column, std::min(turned_span, width - column),
                       [&](std::int64_t i, const T* at, std::int64_t m) {
                         for (std::int64_t chunk = first; chunk < last; ++chunk)
                           column_sums_along(at + chunk * column_rows, std::min(column_rows, n - chunk * column_rows),
                                             step, m, y + (o * chunks + chunk) * width + column + i);
                       });
        }
      });
}

/// y[o, c, i] = sum of the c-th 64 rows: the extent shrinks 64-fold. Columns that are not neighbours are copied first.
template <class T> void sum_column_chunks(const T* x, const Axes& outer, const Axes& extent, const Axes& inner, T* y) {
  if (extent.rank == 1 && is_dense(extent, 0) && extent.count() > 0 && inner.count() > 0)
    return sum_turned_chunks(x, outer, extent, inner, y);
  const bool in_place = inner.rank == 1 && is_dense(inner, 0) && extent.rank <= 1;
  const std::int64_t step = inner.stride[0][inner.rank - 1];
  const std::int64_t n = extent.count(), width = inner.count();
  const std::int64_t span = in_place ? column_span : copied_span;
  const std::int64_t chunks = std::max<std::int64_t>(1, parallel::chunks(n, column_rows));
  const std::int64_t spans = parallel::chunks(width, span), tasks = outer.count() * chunks * spans;
  const std::int64_t work = std::min(n, column_rows) * std::min(width, span);
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(work, 1));
  ScratchPool pool(parallel::chunks(tasks, grain),
                   in_place ? 0 : static_cast<std::size_t>(column_rows * span) * sizeof(T));
  parallel::for_each(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
    const ScratchPool::Buffer buffer = pool.take();
    T* const held = reinterpret_cast<T*>(buffer.data());
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t o = task / spans / chunks;
      const std::int64_t chunk = task / spans % chunks, column = task % spans * span;
      const std::int64_t columns = std::min(span, width - column);
      const std::int64_t row = chunk * column_rows, rows = std::min(column_rows, n - row);
      const T* const first = x + offset_at(outer, o);
      T* const to = y + (o * chunks + chunk) * width + column;
      if (in_place) {
        column_sums(first + row * extent.stride[0][0] + column, rows, extent.stride[0][0], columns, to);
        continue;
      }
      for_each_run(first, inner, column, columns, [&](std::int64_t i, const T* from, std::int64_t m) {
        for (std::int64_t r = 0; r < rows; ++r) {
          const T* const at = from + offset_at(extent, row + r);
          for (std::int64_t k = 0; k < m; ++k) held[r * columns + i + k] = at[k * step];
        }
      });
      column_sums(held, rows, columns, columns, to);
    }
  });
}

} // namespace

template <class T> void sum_axes(const Tensor& x, int begin, int end, double factor, T* y) {
  const Axes outer = axes_of(x, 0, begin), extent = axes_of(x, begin, end), inner = axes_of(x, end, x.rank());
  Axes all = outer;
  append(all, extent, 0, extent.rank);
  append(all, inner, 0, inner.rank);
  const int dense = dense_axis(all), last = all.rank - 1;
  const std::int64_t count = outer.count(), n = extent.count();
  const T* const from = x.data<T>();
  // Where the neighbours in memory belong to tasks far apart, or a block to several runs of rows side by side.
  const auto copied = [&] { sum_axes(packed(x), begin, end, factor, y); };
  if (inner.rank == 0) {
    if (x.is_contiguous() || n == 0)
      return sum_rows(count, n, factor, y, [from](std::int64_t i, std::int64_t m) { return row_sum(from + i, m); });
    if (dense < 0 || dense == last)
      return sum_rows(count, n, factor, y,
                      [&](std::int64_t i, std::int64_t m) { return sum_of_runs(from, all, i, m); });
    if (all.extent[last] != n && all.extent[last] % row_block != 0) return copied();
    return sum_rows_across(from, all, dense, count, n, factor, y);
  }
  if (dense >= 0 && dense < last && !(extent.rank == 1 && is_dense(extent, 0))) return copied();
  if (n > column_rows) {
    Tensor partial = Tensor::empty({count, parallel::chunks(n, column_rows), inner.count()}, dtype_of<T>);
    sum_column_chunks(from, outer, extent, inner, partial.mutable_data<T>());
    return sum_axes(partial, 1, 2, factor, y);
  }
  sum_column_chunks(from, outer, extent, inner, y);
  if (factor == 1.0) return;
  for (std::int64_t i = 0; i < count * inner.count(); ++i) y[i] = static_cast<T>(factor * static_cast<double>(y[i]));
}

template void sum_axes(const Tensor&, int, int, double, float*);
template void sum_axes(const Tensor&, int, int, double, double*);

} // namespace eg::reduce
