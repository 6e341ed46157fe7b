#include "core/ops/index/row_moves.h"

#include "core/base/function_ref.h"
#include "core/exact/exact.h"
#include "core/ops/views/strided_copy.h"
#include "core/strided.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace eg {
namespace {

template <class T> constexpr std::int64_t bytes_of = sizeof(T);

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
/// Two blocks for each thread where there are columns enough: a wider block reads longer runs of memory.
template <class F> void for_each_column_block(const RowMove& m, std::int64_t column_bytes, F&& f) {
  constexpr std::int64_t least = 64, most = 512;
  const std::int64_t wanted = std::clamp(parallel::chunks(std::int64_t{2} * parallel::threads(), m.outer),
                                         parallel::chunks(m.inner, most), parallel::chunks(m.inner, least));
  const std::int64_t width = parallel::chunks(m.inner, wanted), blocks = parallel::chunks(m.inner, width);
  const std::int64_t bytes = std::max<std::int64_t>(1, column_bytes * std::min(m.inner, width));
  parallel::for_each(m.outer * blocks, parallel::grain_for_bytes(bytes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t first = task % blocks * width;
      f(task / blocks, first, std::min(m.inner, first + width));
    }
  });
}

/// The numbers k of an index that all slices share, by target: those of target t are order[begins[t]] to
/// order[begins[t + 1] - 1], in their own order.
struct ByTarget {
  std::vector<std::int64_t> begins, order;

  explicit ByTarget(const RowMove& m)
      : begins(static_cast<std::size_t>(m.extent) + 1), order(static_cast<std::size_t>(m.count)) {
    for (std::int64_t k = 0; k < m.count; ++k) ++begins[static_cast<std::size_t>(m.index[k]) + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    std::vector<std::int64_t> next(begins.begin(), begins.end() - 1);
    for (std::int64_t k = 0; k < m.count; ++k)
      order[static_cast<std::size_t>(next[static_cast<std::size_t>(m.index[k])]++)] = k;
  }
  std::span<const std::int64_t> of(std::int64_t target) const {
    const auto* begin = begins.data() + target;
    return std::span(order).subspan(static_cast<std::size_t>(begin[0]), static_cast<std::size_t>(begin[1] - begin[0]));
  }
};

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
    for_each_column_block(m, m.count * bytes_of<T>, [&](std::int64_t o, std::int64_t first, std::int64_t last) {
      const std::int64_t* index = m.index_of(o);
      for (std::int64_t k = 0; k < m.count; ++k) {
        const T* from = typed<T>(source) + (o * m.count + k) * m.inner;
        T* to = typed<T>(y) + (o * m.extent + index[k]) * m.inner;
        for (std::int64_t j = first; j < last; ++j) to[j] += from[j];
      }
    });
  });
}

void sum_rows(DType dtype, const RowMove& m, const std::byte* source, std::byte* y) {
  constexpr std::int64_t narrow = 16; // columns that are sooner added where they belong
  if (m.outer * m.extent * m.inner == 0) return;
  if (m.inner < narrow) {
    alignas(8) const std::byte zero[8] = {};
    strided_fill(dtype, {m.outer * m.extent * m.inner}, y, {1}, zero);
    return add_rows(dtype, m, source, y);
  }
  const ByTarget by(m);
  const auto is_frequent = [&](std::int64_t target) { return std::ssize(by.of(target)) > 64 + m.count / 16; };
  std::vector<std::int64_t> frequent; // targets of so many rows that threads share their columns
  for (std::int64_t target = 0; target < m.extent; ++target)
    if (is_frequent(target)) frequent.push_back(target);
  visit_addable(dtype, [&]<class T>() {
    const auto sum = [&](std::int64_t o, std::int64_t target, std::int64_t first, std::int64_t last) {
      const std::span<const std::int64_t> all = by.of(target);
      T* const to = typed<T>(y) + (o * m.extent + target) * m.inner;
      const T* const slice = typed<T>(source) + o * m.count * m.inner;
      if (all.empty()) return void(std::fill(to + first, to + last, T(0)));
      for (std::int64_t j = first; j < last; ++j) to[j] = T(0) + slice[all[0] * m.inner + j]; // never -0
      for (const std::int64_t k : all.subspan(1))
        for (std::int64_t j = first; j < last; ++j) to[j] += slice[k * m.inner + j];
    };
    const std::int64_t rows = 1 + m.count / m.extent; // written and, on average, read for each target
    const std::int64_t grain = parallel::grain_for_bytes(rows * m.inner * bytes_of<T>);
    parallel::for_each(m.outer * m.extent, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        if (!is_frequent(row % m.extent)) sum(row / m.extent, row % m.extent, 0, m.inner);
    });
    const std::int64_t width = std::max<std::int64_t>(64, parallel::chunks(m.inner, parallel::threads()));
    const std::int64_t blocks = parallel::chunks(m.inner, width), targets = std::ssize(frequent);
    parallel::for_each(m.outer * targets * blocks, 1, [&](std::int64_t task, std::int64_t) {
      const std::int64_t first = task % blocks * width, place = task / blocks;
      sum(place / targets, frequent[static_cast<std::size_t>(place % targets)], first,
          std::min(m.inner, first + width));
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

void add_elements(DType dtype, const RowMove& m, Start start, const std::byte* source, std::byte* y) {
  if (m.outer * m.extent * m.inner == 0) return;
  visit_addable(dtype, [&]<class T>() {
    const auto bytes = (2 * m.extent + m.count) * bytes_of<T> + m.count * bytes_of<std::int64_t>;
    for_each_column_block(m, bytes, [&](std::int64_t o, std::int64_t first, std::int64_t last) {
      T* to = typed<T>(y) + o * m.extent * m.inner;
      const T* const from = typed<T>(start.x) + (start.repeated ? 0 : o * m.extent * m.inner);
      for (std::int64_t row = 0; row < (m.inner == 1 ? 1 : m.extent); ++row) {
        const std::int64_t begin = row * m.inner + first, n = m.inner == 1 ? m.extent : last - first;
        if (start.repeated)
          std::fill_n(to + begin, n, *from);
        else
          std::copy_n(from + begin, n, to + begin);
      }
      for (std::int64_t k = 0; k < m.count; ++k) {
        const std::int64_t row = (o * m.count + k) * m.inner;
        for (std::int64_t j = first; j < last; ++j) to[m.index[row + j] * m.inner + j] += typed<T>(source)[row + j];
      }
    });
  });
}

namespace {

/// The exact sums of columns of rows that lie apart: add() copies one of them, sums() empties it.
template <class T> class GatheredSums {
public:
  explicit GatheredSums(std::int64_t columns) : columns_(columns), sums_(static_cast<std::size_t>(columns)) {}
  void add(const T* row) { terms_.insert(terms_.end(), row, row + columns_); }
  /// y[j] = the sum of column j of the rows that were added, and of y[j].
  void sums(T* y) {
    const bool single = std::ssize(terms_) == columns_;
    if (single && std::all_of(y, y + columns_, [](T t) { return t == T(0); }) &&
        std::all_of(terms_.begin(), terms_.end(), [](T t) { return std::isfinite(t); })) {
      for (std::size_t j = 0; j < terms_.size(); ++j) y[j] = terms_[j] + T(0); // the sum of t and 0; never -0
    } else {
      add(y);
      exact::column_sums(terms_.data(), std::ssize(terms_) / columns_, columns_, columns_, sums_.data());
      for (std::size_t j = 0; j < sums_.size(); ++j) y[j] = static_cast<T>(sums_[j]);
    }
    terms_.clear();
  }

private:
  std::int64_t columns_;
  std::vector<T> terms_;
  std::vector<double> sums_;
};

/// y[o, index[k], j] += source[o, k, j] for columns [first, last) of one slice, by exact sums.
template <class T>
void add_columns_exactly(const RowMove& m, std::int64_t o, std::int64_t first, std::int64_t last, const ByTarget& by,
                         const T* source, T* y) {
  GatheredSums<T> sums(last - first);
  for (std::int64_t target = 0; target < m.extent; ++target) {
    const std::span<const std::int64_t> all = by.of(target);
    if (all.empty()) continue;
    for (const std::int64_t k : all) sums.add(source + (o * m.count + k) * m.inner + first);
    sums.sums(y + (o * m.extent + target) * m.inner + first);
  }
}

} // namespace

void add_rows_exact(DType dtype, const RowMove& m, const std::byte* source, std::byte* y) {
  if (!is_floating(dtype)) return add_rows(dtype, m, source, y); // integers add up exactly as they are
  if (m.outer * m.count * m.inner == 0) return;
  const ByTarget by(m);
  visit_floating(dtype, [&]<class T>() {
    for_each_column_block(m, m.count * bytes_of<T>, [&](std::int64_t o, std::int64_t first, std::int64_t last) {
      add_columns_exactly(m, o, first, last, by, typed<T>(source), typed<T>(y));
    });
  });
}

void add_elements_exact(DType dtype, const RowMove& m, const std::byte* source, std::byte* y) {
  visit_floating(dtype, [&]<class T>() {
    const std::int64_t bytes = m.count * (bytes_of<T> + bytes_of<std::int64_t>);
    for_each_column_block(m, bytes, [&](std::int64_t o, std::int64_t first, std::int64_t last) {
      std::vector<std::pair<std::int64_t, T>> terms(static_cast<std::size_t>(m.count)); // of a column, by target
      for (std::int64_t j = first; j < last; ++j) {
        for (std::int64_t k = 0; k < m.count; ++k) {
          const std::int64_t place = (o * m.count + k) * m.inner + j;
          terms[static_cast<std::size_t>(k)] = {m.index[place], typed<T>(source)[place]};
        }
        std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        GatheredSums<T> sums(1);
        for (std::size_t k = 0; k < terms.size(); ++k) {
          sums.add(&terms[k].second);
          const bool last_of_run = k + 1 == terms.size() || terms[k + 1].first != terms[k].first;
          if (last_of_run) sums.sums(typed<T>(y) + (o * m.extent + terms[k].first) * m.inner + j);
        }
      }
    });
  });
}

void check_indices(std::string_view op, const Tensor& packed_index, std::int64_t extent) {
  const std::int64_t count = packed_index.numel();
  if (count == 0) return;
  const std::int64_t* index = packed_index.data<std::int64_t>();
  const auto last = static_cast<std::uint64_t>(extent - 1);
  std::atomic<bool> all = true;
  parallel::for_each(count, block, [&](std::int64_t begin, std::int64_t end) {
    std::uint64_t signs = 0; // the highest bit: an index, or what is left to the last one, was negative
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::uint64_t>(index[i]);
      signs |= at | (last - at);
    }
    if (signs >> 63 != 0) all = false;
  });
  if (all) return;
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
