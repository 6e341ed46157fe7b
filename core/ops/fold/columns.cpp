#include "core/ops/fold/columns.h"

#include <algorithm>

namespace eg::windows {
namespace {

template <class T>
void gather_row(const T* x, std::int64_t stride, Axis::Range inside, std::int64_t count, T* __restrict row) {
  std::fill(row, row + inside.begin, T(0));
  if (stride == 1)
    std::copy_n(x, inside.end - inside.begin, row + inside.begin);
  else
    for (std::int64_t j = inside.begin; j < inside.end; ++j, x += stride) row[j] = *x;
  std::fill(row + inside.end, row + count, T(0));
}

template <class T> void scatter_row(const T* __restrict row, Axis::Range inside, std::int64_t stride, T* __restrict x) {
  const std::int64_t n = inside.end - inside.begin;
  row += inside.begin;
  if (stride == 1)
    for (std::int64_t j = 0; j < n; ++j) x[j] += row[j];
  else
    for (std::int64_t j = 0; j < n; ++j) x[j * stride] += row[j];
}

/// visit(place of the first element inside, the windows inside, row of columns) for every row of every tap; the place
/// is -1 where the whole row is padding.
template <class Visit> void each_row(const Axes& a, Band band, std::int64_t channels, Visit visit) {
  std::int64_t row = 0;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t u = 0; u < a.rows.kernel; ++u)
      for (std::int64_t v = 0; v < a.columns.kernel; ++v) {
        const Axis::Range inside = a.columns.reach(v);
        const std::int64_t column = a.columns.first(inside.begin) + v * a.columns.dilation;
        for (std::int64_t i = band.begin; i < band.end; ++i, ++row) {
          const std::int64_t place = a.rows.first(i) + u * a.rows.dilation;
          const bool there = place >= 0 && place < a.rows.extent && inside.begin < inside.end;
          visit(there ? (c * a.rows.extent + place) * a.columns.extent + column : -1, inside, row);
        }
      }
}

} // namespace

template <class T> void to_columns(const Axes& a, Band band, std::int64_t channels, const T* x, T* columns) {
  const std::int64_t count = a.columns.count;
  each_row(a, band, channels, [&](std::int64_t place, Axis::Range inside, std::int64_t row) {
    if (place < 0)
      std::fill_n(columns + row * count, count, T(0));
    else
      gather_row(x + place, a.columns.stride, inside, count, columns + row * count);
  });
}

template <class T> void add_columns(const Axes& a, Band band, std::int64_t channels, const T* columns, T* x) {
  each_row(a, band, channels, [&](std::int64_t place, Axis::Range inside, std::int64_t row) {
    if (place >= 0) scatter_row(columns + row * a.columns.count, inside, a.columns.stride, x + place);
  });
}

template void to_columns<float>(const Axes&, Band, std::int64_t, const float*, float*);
template void to_columns<double>(const Axes&, Band, std::int64_t, const double*, double*);
template void add_columns<float>(const Axes&, Band, std::int64_t, const float*, float*);
template void add_columns<double>(const Axes&, Band, std::int64_t, const double*, double*);

} // namespace eg::windows
