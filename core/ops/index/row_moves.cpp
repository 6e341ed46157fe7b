#include "core/ops/index/row_moves.h"

#include "core/base/function_ref.h"
#include "core/exact/exact.h"
#include "core/strided.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <numeric>
#include <vector>

namespace eg {
namespace {

constexpr std::int64_t block = 16384; // elements that a task takes at most, in loops over elements

template <class T> const T* typed(const std::byte* bytes) { return reinterpret_cast<const T*>(bytes); }
template <class T> T* typed(std::byte* bytes) { return reinterpret_cast<T*>(bytes); }

/// f<T>() with a type of the dtype's size and alignment that is safe to copy for every dtype.
template <class F> void visit_copyable(DType dtype, F&& f) {
  if (dtype == DType::boolean) return f.template operator()<std::uint8_t>();
  visit_dtype(dtype, std::forward<F>(f));
}

/// f<T>() for the types that add.
template <class F> void visit_addable(DType dtype, F&& f) {
  if (dtype == DType::f32) return f.template operator()<float>();
  if (dtype == DType::f64) return f.template operator()<double>();
  f.template operator()<std::int64_t>();
}

/// Four rows at a time share one reading of the index.
template <class T>
void take_columns(const std::int32_t* index, std::int64_t count, std::int64_t extent, std::int64_t rows, const T* x,
                  T* y) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T* x0 = x + r * extent;
    const T* x1 = x0 + extent;
    const T* x2 = x1 + extent;
    const T* x3 = x2 + extent;
    T* y0 = y + r * count;
    T* y1 = y0 + count;
    T* y2 = y1 + count;
    T* y3 = y2 + count;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int32_t from = index[k];
      y0[k] = x0[from];
      y1[k] = x1[from];
      y2[k] = x2[from];
      y3[k] = x3[from];
    }
  }
  for (; r < rows; ++r)
    for (std::int64_t k = 0; k < count; ++k) y[r * count + k] = x[r * extent + index[k]];
}

template <class T> void take_shared_columns(const RowMove& m, const T* x, T* y) {
  const std::vector<std::int32_t> index(m.index, m.index + m.count);
  const auto bytes = m.count * static_cast<std::int64_t>(sizeof(T));
  parallel::for_each(
      m.outer, std::max<std::int64_t>(4, parallel::grain_for_bytes(bytes)), [&](std::int64_t begin, std::int64_t end) {
        take_columns(index.data(), m.count, m.extent, end - begin, x + begin * m.extent, y + begin * m.count);
      });
}

/// Single elements, any index: tasks are pieces of one outer slice.
template <class T> void take_single(const RowMove& m, const T* x, T* y) {
  const std::int64_t pieces = parallel::chunks(m.count, block);
  parallel::for_each(m.outer * pieces, parallel::grain_for_bytes(std::min(m.count, block) * 8),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t task = begin; task < end; ++task) {
                         const std::int64_t o = task / pieces;
                         const std::int64_t first = task % pieces * block;
                         const std::int64_t last = std::min(m.count, first + block);
                         const std::int64_t* index = m.index_of(o);
                         for (std::int64_t k = first; k < last; ++k) y[o * m.count + k] = x[o * m.extent + index[k]];
                       }
                     });
}

void take_wide_rows(const RowMove& m, std::size_t row_bytes, const std::byte* x, std::byte* y) {
  const auto step = static_cast<std::int64_t>(row_bytes);
  parallel::for_each(m.outer * m.count, parallel::grain_for_bytes(step), [&](std::int64_t begin, std::int64_t end) {
    std::int64_t o = begin / m.count;
    std::int64_t k = begin % m.count;
    for (std::int64_t row = begin; row < end; ++row) {
      std::memcpy(y + row * step, x + (o * m.extent + m.index_of(o)[k]) * step, row_bytes);
      if (++k == m.count) {
        k = 0;
        ++o;
      }
    }
  });
}

/// f(o, first column, last column) over slices and blocks of columns, in parallel: whoever gets a block owns its sums.
template <class F> void for_each_column_block(const RowMove& m, std::int64_t element_bytes, F&& f) {
  constexpr std::int64_t width = 64;
  const std::int64_t blocks = parallel::chunks(m.inner, width);
  const std::int64_t bytes = std::max<std::int64_t>(1, m.count) * std::min(m.inner, width) * element_bytes;
  parallel::for_each(m.outer * blocks, parallel::grain_for_bytes(bytes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t first = task % blocks * width;
      f(task / blocks, first, std::min(m.inner, first + width));
    }
  });
}

} // namespace

void take_rows(DType dtype, const RowMove& m, const std::byte* x, std::byte* y) {
  if (m.outer * m.count * m.inner == 0) return;
  if (m.inner > 1) return take_wide_rows(m, static_cast<std::size_t>(m.inner) * size_of(dtype), x, y);
  const bool narrow_index = m.extent <= (std::int64_t{1} << 31);
  visit_copyable(dtype, [&]<class T>() {
    if (m.shared && narrow_index && m.outer > 1)
      take_shared_columns(m, typed<T>(x), typed<T>(y));
    else
      take_single(m, typed<T>(x), typed<T>(y));
  });
}

void add_rows(DType dtype, const RowMove& m, const std::byte* source, std::byte* y) {
  if (m.outer * m.count * m.inner == 0) return;
  visit_addable(dtype, [&]<class T>() {
    for_each_column_block(m, sizeof(T), [&](std::int64_t o, std::int64_t first, std::int64_t last) {
      const std::int64_t* index = m.index_of(o);
      for (std::int64_t k = 0; k < m.count; ++k) {
        const T* from = typed<T>(source) + (o * m.count + k) * m.inner;
        T* to = typed<T>(y) + (o * m.extent + index[k]) * m.inner;
        for (std::int64_t j = first; j < last; ++j) to[j] += from[j];
      }
    });
  });
}

void take_elements(DType dtype, const RowMove& m, const std::byte* x, std::byte* y) {
  if (m.outer * m.count * m.inner == 0) return;
  visit_copyable(dtype, [&]<class T>() {
    if (m.inner == 1) return take_single(m, typed<T>(x), typed<T>(y));
    parallel::for_each(m.outer * m.count, parallel::grain_for_bytes(m.inner * 16),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t row = begin; row < end; ++row) {
                           const T* from = typed<T>(x) + row / m.count * m.extent * m.inner;
                           const std::int64_t* index = m.index + row * m.inner;
                           T* to = typed<T>(y) + row * m.inner;
                           for (std::int64_t j = 0; j < m.inner; ++j) to[j] = from[index[j] * m.inner + j];
                         }
                       });
  });
}

void add_elements(DType dtype, const RowMove& m, const std::byte* source, std::byte* y) {
  if (m.outer * m.count * m.inner == 0) return;
  visit_addable(dtype, [&]<class T>() {
    for_each_column_block(m, sizeof(T) + 8, [&](std::int64_t o, std::int64_t first, std::int64_t last) {
      T* to = typed<T>(y) + o * m.extent * m.inner;
      for (std::int64_t k = 0; k < m.count; ++k) {
        const std::int64_t row = (o * m.count + k) * m.inner;
        for (std::int64_t j = first; j < last; ++j) to[m.index[row + j] * m.inner + j] += typed<T>(source)[row + j];
      }
    });
  });
}

namespace {

/// y += the terms of one target, by an exact sum; terms is scratch and is emptied.
template <class T> void add_exactly(std::vector<double>& terms, T& y) {
  if (terms.empty()) return;
  terms.push_back(static_cast<double>(y));
  y = static_cast<T>(exact::sum(terms));
  terms.clear();
}

/// order: the numbers k sorted by their target, those of one target together.
void sort_by_target(std::vector<std::int64_t>& order, FunctionRef<std::int64_t(std::int64_t)> target) {
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return target(a) < target(b); });
}

/// The sums of column j of slice o: target(k) is the row of y that k adds to; order lists the k sorted by it.
template <class T>
void add_column_exactly(const RowMove& m, std::int64_t o, std::int64_t j, const std::vector<std::int64_t>& order,
                        FunctionRef<std::int64_t(std::int64_t)> target, const T* source, T* y) {
  std::vector<double> terms;
  for (std::size_t i = 0; i < order.size(); ++i) {
    terms.push_back(static_cast<double>(source[(o * m.count + order[i]) * m.inner + j]));
    const bool last = i + 1 == order.size() || target(order[i + 1]) != target(order[i]);
    if (last) add_exactly(terms, y[(o * m.extent + target(order[i])) * m.inner + j]);
  }
}

} // namespace

void add_rows_exact(DType dtype, const RowMove& m, const std::byte* source, std::byte* y) {
  if (!is_floating(dtype)) return add_rows(dtype, m, source, y); // integers add up exactly as they are
  visit_floating(dtype, [&]<class T>() {
    for_each_column_block(m, sizeof(T), [&](std::int64_t o, std::int64_t first, std::int64_t last) {
      const auto target = [index = m.index_of(o)](std::int64_t k) { return index[k]; };
      std::vector<std::int64_t> order(static_cast<std::size_t>(m.count));
      sort_by_target(order, target);
      for (std::int64_t j = first; j < last; ++j)
        add_column_exactly(m, o, j, order, target, typed<T>(source), typed<T>(y));
    });
  });
}

void add_elements_exact(DType dtype, const RowMove& m, const std::byte* source, std::byte* y) {
  if (!is_floating(dtype)) return add_elements(dtype, m, source, y);
  visit_floating(dtype, [&]<class T>() {
    for_each_column_block(m, sizeof(T) + 8, [&](std::int64_t o, std::int64_t first, std::int64_t last) {
      std::vector<std::int64_t> order(static_cast<std::size_t>(m.count));
      for (std::int64_t j = first; j < last; ++j) {
        const auto target = [&](std::int64_t k) { return m.index[(o * m.count + k) * m.inner + j]; };
        sort_by_target(order, target);
        add_column_exactly(m, o, j, order, target, typed<T>(source), typed<T>(y));
      }
    });
  });
}

void check_indices(std::string_view op, const Tensor& packed_index, std::int64_t extent) {
  const std::int64_t count = packed_index.numel();
  if (count == 0) return;
  const std::int64_t* index = packed_index.data<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i)
    if (index[i] < 0 || index[i] >= extent)
      throw IndexError(fmt::format("{}: index {} at position {} is outside [0, {})", op, index[i], i, extent));
}

void check_permutations(std::string_view op, const Tensor& packed_rows) {
  check_indices(op, packed_rows, packed_rows.shape()[-1]);
  if (packed_rows.numel() == 0) return;
  const std::int64_t n = packed_rows.shape()[-1];
  const std::int64_t rows = packed_rows.numel() / n;
  std::vector<std::int64_t> place(static_cast<std::size_t>(n));
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t* row = packed_rows.data<std::int64_t>() + r * n;
    std::fill(place.begin(), place.end(), -1);
    for (std::int64_t i = 0; i < n; ++i) {
      std::int64_t& first = place[static_cast<std::size_t>(row[i])];
      if (first >= 0)
        throw ValueError(fmt::format("{}: not a permutation of 0..{}: {} occurs at positions {} and {}", op, n - 1,
                                     row[i], first, i));
      first = i;
    }
  }
}

} // namespace eg
