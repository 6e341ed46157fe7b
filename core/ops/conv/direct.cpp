// Convolutions whose groups have few channels. Planes are copied with their padding, so that each tap of a row of
// windows reads neighbouring numbers; a stride along columns puts every stride-th column into a plane of its own.

#include "core/ops/conv/direct.h"
#include "core/memory/scratch_pool.h"
#include "core/ops/conv/kernels.h"
#include "core/threads/parallel.h"

#include <algorithm>

namespace eg::conv {
namespace {

using windows::Axis;

/// Places of one axis as a padded copy has them: place i of the copy is place i + first of the plane.
struct Span {
  std::int64_t first = 0, count = 0, extent = 0; ///< extent of the plane, beyond which are zeros
};

/// Copies of planes whose columns are dealt to `phases` sub-planes, the i-th to sub-plane i % phases.
struct Layout {
  Span rows, columns;
  std::int64_t phases = 1;

  std::int64_t width() const { return (columns.count + phases - 1) / phases; }
  std::int64_t plane() const { return phases * rows.count * width(); }
  /// Of the copy's place (row, column).
  std::int64_t offset(std::int64_t row, std::int64_t column) const {
    return (column % phases * rows.count + row) * width() + column / phases;
  }
};

/// The i of [0, n) with 0 <= first + i * step < extent, as [begin, end).
Axis::Range inside(std::int64_t first, std::int64_t step, std::int64_t n, std::int64_t extent) {
  const std::int64_t begin = std::clamp<std::int64_t>((-first + step - 1) / step, 0, n);
  const std::int64_t end = first >= extent ? 0 : (extent - 1 - first) / step + 1;
  return {begin, std::max(begin, std::min(n, end))};
}

template <class T> void copy_padded(const Layout& l, std::int64_t planes, const T* from, T* to) {
  const std::int64_t width = l.width();
  for (std::int64_t p = 0; p < planes; ++p, from += l.rows.extent * l.columns.extent)
    for (std::int64_t phase = 0; phase < l.phases; ++phase) {
      const std::int64_t first = l.columns.first + phase;
      const Axis::Range range = inside(first, l.phases, width, l.columns.extent);
      for (std::int64_t r = 0; r < l.rows.count; ++r, to += width) {
        const std::int64_t row = l.rows.first + r;
        if (row < 0 || row >= l.rows.extent) {
          std::fill_n(to, width, T(0));
          continue;
        }
        const T* source = from + row * l.columns.extent + first;
        std::fill(to, to + range.begin, T(0));
        if (l.phases == 1)
          std::copy(source + range.begin, source + range.end, to + range.begin);
        else
          for (std::int64_t i = range.begin; i < range.end; ++i) to[i] = source[i * l.phases];
        std::fill(to + range.end, to + width, T(0));
      }
    }
  std::fill_n(to, slack, T(0));
}

template <class T> std::size_t bytes_of(const Layout& l, std::int64_t planes) {
  return static_cast<std::size_t>(planes * l.plane() + slack) * sizeof(T);
}

/// All that the windows of a band of rows cover.
Layout input_layout(const windows::Axes& a, windows::Band band) {
  const auto span = [](const Axis& axis, std::int64_t first, std::int64_t count) {
    return Span{axis.first(first), (count - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1, axis.extent};
  };
  return {span(a.rows, band.begin, band.rows()), span(a.columns, 0, a.columns.count), a.columns.stride};
}
/// The same for all rows.
Layout input_layout(const windows::Axes& a) { return input_layout(a, {0, a.rows.count}); }

/// Where the taps of the first window are, for `channels` planes.
std::vector<std::int64_t> tap_offsets(const windows::Axes& a, const Layout& l, std::int64_t channels) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t u = 0; u < a.rows.kernel; ++u)
      for (std::int64_t v = 0; v < a.columns.kernel; ++v)
        offsets.push_back(c * l.plane() + l.offset(u * a.rows.dilation, v * a.columns.dilation));
  return offsets;
}

/// Places of an image with one remainder modulo the stride: `count` of them from `begin` on. The i-th is element
/// taps[k] of window windows[k] + i.
struct Covering {
  std::int64_t begin, count;
  std::vector<std::int64_t> taps, windows;
};

std::vector<Covering> coverings(const Axis& a) {
  std::vector<Covering> list;
  for (std::int64_t begin = 0; begin < std::min(a.stride, a.extent); ++begin) {
    Covering c{begin, (a.extent - 1 - begin) / a.stride + 1, {}, {}};
    for (std::int64_t tap = 0; tap < a.kernel; ++tap) {
      const std::int64_t from = begin + a.padding - tap * a.dilation;
      if (from % a.stride != 0) continue;
      c.taps.push_back(tap);
      c.windows.push_back(from / a.stride);
    }
    list.push_back(std::move(c));
  }
  return list;
}

/// The windows that coverings name, also those that do not exist, whose gradients are zeros.
Span named_windows(const Axis& a, const std::vector<Covering>& list) {
  std::int64_t first = 0, last = 0;
  for (const Covering& c : list)
    for (const std::int64_t window : c.windows) {
      first = std::min(first, window);
      last = std::max(last, window + c.count - 1);
    }
  return {first, last - first + 1, a.count};
}

/// Images times groups that one task takes, by sizes alone.
std::int64_t chunk_of(std::int64_t work) { return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, work)); }

/// Whether the lists of coverings and taps are short.
bool has_short_lists(const windows::Axes& a) {
  constexpr std::int64_t most = 32;
  const auto is_short = [](const Axis& axis) {
    return axis.stride <= most && axis.kernel <= most * most && axis.padding <= most * most;
  };
  return is_short(a.rows) && is_short(a.columns);
}

/// Rows of windows cut so that the planes of a band take about 1 MiB, or into more where images and groups are too few
/// to share among threads.
Bands direct_bands(const Conv& c, std::size_t element) {
  constexpr double most_bytes = 1 << 20;
  constexpr std::int64_t pieces = 16, least_rows = 8;
  const std::int64_t all = std::max<std::int64_t>(c.axes.rows.count, 1),
                     units = std::max<std::int64_t>(c.images * c.groups, 1);
  const double bytes = static_cast<double>(c.inputs * input_layout(c.axes).plane()) * static_cast<double>(element);
  const auto wanted = static_cast<std::int64_t>(std::min(bytes / most_bytes, static_cast<double>(all))) + 1;
  const std::int64_t count =
      std::clamp(std::max(wanted, pieces / units), std::int64_t{1}, (all + least_rows - 1) / least_rows);
  const std::int64_t rows = (all + count - 1) / count;
  return {(all + rows - 1) / rows, rows, c.axes.rows.count};
}

/// Padding that takes most of a copy is worth no copy.
bool is_modest(const Layout& l, const windows::Axes& a) {
  return l.rows.count <= 4 * (a.rows.extent + a.rows.count) + 64 &&
         l.columns.count <= 4 * (a.columns.extent + a.columns.count) + 64;
}

} // namespace

bool suits_direct(const Conv& c) {
  constexpr std::int64_t most = 32; // channels of a group that fill a product of matrices
  if (c.groups == 1 || c.inputs > most || c.outputs > most || !has_short_lists(c.axes)) return false;
  const windows::Axes& a = c.axes;
  const Layout gradient{named_windows(a.rows, coverings(a.rows)), named_windows(a.columns, coverings(a.columns)), 1};
  return is_modest(input_layout(a), a) && is_modest(gradient, a);
}

bool suits_direct_forward(const Conv& c) {
  constexpr std::int64_t least_columns = 24; // fewer do not fill vectors
  constexpr std::int64_t most_terms = 1024;  // of one chain, whose rounding grows
  constexpr std::int64_t least_terms = 64;   // fewer are soon summed, and then stores decide
  const windows::Axes& a = c.axes;
  const bool overlap = a.rows.stride < a.rows.kernel && a.columns.stride < a.columns.kernel;
  return suits_direct(c) || (overlap && a.columns.count >= least_columns && c.depth() >= least_terms &&
                             c.depth() <= most_terms && has_short_lists(a) && is_modest(input_layout(a), a));
}

template <class T> void direct_forward(const Conv& c, const T* x, const T* w, const T* bias, T* y) {
  const windows::Axes& a = c.axes;
  const Bands bands = direct_bands(c, sizeof(T));
  const Layout largest = input_layout(a, bands[0]);
  const std::int64_t width = a.columns.count, units = c.images * c.groups * bands.count;
  const std::int64_t chunk = chunk_of(c.outputs * c.depth() * bands.rows * width);
  // Planes of two rows of windows that stay in the first-level cache while all outputs are summed from them.
  constexpr std::int64_t cached = 20 * 1024 / sizeof(T), together = 2;
  const std::int64_t channel = (a.rows.kernel + a.rows.stride) * largest.phases * largest.width();
  const std::int64_t piece = std::max<std::int64_t>(cached / channel, 1) * a.taps();
  ScratchPool pool(parallel::chunks(units, chunk), bytes_of<T>(largest, c.inputs));
  parallel::for_each(units, chunk, [&](std::int64_t begin, std::int64_t end) {
    const ScratchPool::Buffer buffer = pool.take();
    T* planes = reinterpret_cast<T*>(buffer.data());
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const windows::Band band = bands[unit % bands.count];
      const std::int64_t slab = unit / bands.count, first = slab % c.groups * c.outputs; // image and group
      const Layout layout = input_layout(a, band);
      const std::vector<std::int64_t> offsets = tap_offsets(a, layout, c.inputs);
      copy_padded(layout, c.inputs, x + slab * c.inputs * a.pixels(), planes);
      const std::int64_t row_step = a.rows.stride * layout.width();
      for (std::int64_t i = 0; i < band.rows(); i += together)
        for (std::int64_t term = 0; term < c.depth(); term += piece)
          tap_sums<T>({planes + i * row_step, offsets.data() + term, std::min(piece, c.depth() - term),
                       w + first * c.depth() + term, c.depth(), c.outputs, bias != nullptr ? bias + first : nullptr,
                       y + slab * c.outputs * a.windows() + (band.begin + i) * width, a.windows(), width, term > 0,
                       std::min(together, band.rows() - i), row_step});
    }
  });
}

template <class T> void direct_input_backward(const Conv& c, const T* w, const T* g, T* dx) {
  const windows::Axes& a = c.axes;
  if (a.pixels() == 0) return;
  const std::vector<Covering> rows = coverings(a.rows), columns = coverings(a.columns);
  const Layout layout{named_windows(a.rows, rows), named_windows(a.columns, columns), 1};
  const std::int64_t units = c.images * c.groups, most = columns[0].count;
  const std::int64_t chunk = chunk_of(c.outputs * c.depth() * a.windows());
  const std::size_t packed = static_cast<std::size_t>(c.outputs * c.depth()) * sizeof(T);
  const std::size_t line = static_cast<std::size_t>(c.inputs * most) * sizeof(T);
  ScratchPool pool(parallel::chunks(units, chunk), bytes_of<T>(layout, c.outputs) + packed + line);
  parallel::for_each(units, chunk, [&](std::int64_t begin, std::int64_t end) {
    const ScratchPool::Buffer buffer = pool.take();
    T* const planes = reinterpret_cast<T*>(buffer.data());
    T* const weights = planes + c.outputs * layout.plane() + slack;
    T* const held = weights + c.outputs * c.depth();
    std::vector<std::int64_t> offsets;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const T* from = w + unit % c.groups * c.outputs * c.depth();
      T* to = dx + unit * c.inputs * a.pixels();
      copy_padded(layout, c.outputs, g + unit * c.outputs * a.windows(), planes);
      for (const Covering& row : rows)
        for (const Covering& column : columns) {
          offsets.clear();
          T* next = weights;
          for (std::int64_t channel = 0; channel < c.inputs; ++channel)
            for (std::int64_t o = 0; o < c.outputs; ++o)
              for (std::size_t u = 0; u < row.taps.size(); ++u)
                for (std::size_t v = 0; v < column.taps.size(); ++v) {
                  *next++ = from[o * c.depth() + channel * a.taps() + row.taps[u] * a.columns.kernel + column.taps[v]];
                  if (channel == 0)
                    offsets.push_back(o * layout.plane() + layout.offset(row.windows[u] - layout.rows.first,
                                                                         column.windows[v] - layout.columns.first));
                }
          const auto terms = static_cast<std::int64_t>(offsets.size());
          for (std::int64_t i = 0; i < row.count; ++i) {
            T* line_of_x = to + (row.begin + i * a.rows.stride) * a.columns.extent;
            const T* shifted = planes + i * layout.width();
            if (a.columns.stride == 1) {
              tap_sums<T>({shifted, offsets.data(), terms, weights, terms, c.inputs, nullptr, line_of_x, a.pixels(),
                           column.count});
              continue;
            }
            tap_sums<T>(
                {shifted, offsets.data(), terms, weights, terms, c.inputs, nullptr, held, column.count, column.count});
            for (std::int64_t channel = 0; channel < c.inputs; ++channel)
              for (std::int64_t j = 0; j < column.count; ++j)
                line_of_x[channel * a.pixels() + column.begin + j * a.columns.stride] =
                    held[channel * column.count + j];
          }
        }
    }
  });
}

template <class T> void direct_weight_backward(const Conv& c, const T* x, const T* g, T* dw) {
  const windows::Axes& a = c.axes;
  const Layout layout = input_layout(a);
  const std::vector<std::int64_t> offsets = tap_offsets(a, layout, c.inputs);
  const std::int64_t size = c.outputs * c.depth(); // of one group
  const std::int64_t pieces =
      std::clamp<std::int64_t>(8 / std::max<std::int64_t>(1, c.groups), 1, std::max<std::int64_t>(1, c.images));
  const std::int64_t images = parallel::chunks(c.images, pieces);
  const std::int64_t chunk = chunk_of(images * size * a.windows());
  ScratchPool pool(parallel::chunks(c.groups * pieces, chunk), bytes_of<T>(layout, c.inputs));
  std::vector<double> sums(static_cast<std::size_t>(pieces * c.groups * size));
  parallel::for_each(c.groups * pieces, chunk, [&](std::int64_t begin, std::int64_t end) {
    const ScratchPool::Buffer buffer = pool.take();
    T* planes = reinterpret_cast<T*>(buffer.data());
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t group = unit % c.groups, piece = unit / c.groups;
      for (std::int64_t n = piece * images; n < std::min(c.images, (piece + 1) * images); ++n) {
        const std::int64_t slab = n * c.groups + group;
        copy_padded(layout, c.inputs, x + slab * c.inputs * a.pixels(), planes);
        for (std::int64_t o = 0; o < c.outputs; ++o)
          tap_products(g + (slab * c.outputs + o) * a.windows(), a.rows.count, a.columns.count, planes,
                       a.rows.stride * layout.width(), offsets.data(), c.depth(),
                       sums.data() + unit * size + o * c.depth());
      }
    }
  });
  for (std::int64_t i = 0; i < c.groups * size; ++i) {
    double sum = 0;
    for (std::int64_t piece = 0; piece < pieces; ++piece)
      sum += sums[static_cast<std::size_t>(piece * c.groups * size + i)];
    dw[i] = static_cast<T>(sum);
  }
}

#define EG_INSTANTIATE(T)                                                                                              \
  template void direct_forward<T>(const Conv&, const T*, const T*, const T*, T*);                                      \
  template void direct_input_backward<T>(const Conv&, const T*, const T*, T*);                                         \
  template void direct_weight_backward<T>(const Conv&, const T*, const T*, T*);
EG_INSTANTIATE(float)
EG_INSTANTIATE(double)
#undef EG_INSTANTIATE

} // namespace eg::conv
