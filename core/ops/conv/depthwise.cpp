// Convolutions whose groups have one input channel: each weight moves a plane, scaled, onto another.

#include "core/ops/conv/kernels.h"
#include "core/threads/parallel.h"

namespace eg::conv {
namespace {

/// visit(u, v, row of windows, its windows inside, first pixel) for every tap and every row of windows that it reaches.
template <class Visit> void each_tap_row(const windows::Axes& a, Visit visit) {
  for (std::int64_t u = 0; u < a.rows.kernel; ++u) {
    const windows::Axis::Range rows = a.rows.reach(u);
    for (std::int64_t v = 0; v < a.columns.kernel; ++v) {
      const windows::Axis::Range inside = a.columns.reach(v);
      if (inside.begin >= inside.end) continue;
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        const std::int64_t row = a.rows.first(i) + u * a.rows.dilation;
        const std::int64_t column = a.columns.first(inside.begin) + v * a.columns.dilation;
        visit(u * a.columns.kernel + v, i * a.columns.count + inside.begin, inside.end - inside.begin,
              row * a.columns.extent + column);
      }
    }
  }
}

/// to[j] += w from[j * step]
template <class T> void add_scaled(T w, const T* __restrict from, std::int64_t step, std::int64_t n, T* __restrict to) {
  if (step == 1)
    for (std::int64_t j = 0; j < n; ++j) to[j] += w * from[j];
  else
    for (std::int64_t j = 0; j < n; ++j) to[j] += w * from[j * step];
}

/// to[j * step] += w from[j]
template <class T>
void add_scattered(T w, const T* __restrict from, std::int64_t step, std::int64_t n, T* __restrict to) {
  if (step == 1)
    for (std::int64_t j = 0; j < n; ++j) to[j] += w * from[j];
  else
    for (std::int64_t j = 0; j < n; ++j) to[j * step] += w * from[j];
}

/// sum_j a[j] b[j * step], in double.
template <class T> double dot(const T* a, const T* b, std::int64_t step, std::int64_t n) {
  double sum[4] = {};
  std::int64_t j = 0;
  for (; j + 4 <= n; j += 4)
    for (std::int64_t k = 0; k < 4; ++k)
      sum[k] += static_cast<double>(a[j + k]) * static_cast<double>(b[(j + k) * step]);
  for (; j < n; ++j) sum[0] += static_cast<double>(a[j]) * static_cast<double>(b[j * step]);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

std::int64_t planes_per_chunk(std::int64_t elements) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, elements));
}

} // namespace

template <class T> void depthwise_forward(const Conv& c, const T* x, const T* w, const T* bias, T* y) {
  const windows::Axes& a = c.axes;
  const std::int64_t channels = c.groups * c.outputs;
  parallel::for_each(c.images * channels, planes_per_chunk(a.windows() * a.taps()), [&](auto begin, auto end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t channel = p % channels;
      const T* plane = x + p / c.outputs * a.pixels();
      const T* weights = w + channel * a.taps();
      T* to = y + p * a.windows();
      std::fill_n(to, a.windows(), bias != nullptr ? bias[channel] : T(0));
      each_tap_row(a, [&](std::int64_t tap, std::int64_t window, std::int64_t n, std::int64_t pixel) {
        add_scaled(weights[tap], plane + pixel, a.columns.stride, n, to + window);
      });
    }
  });
}

template <class T> void depthwise_input_backward(const Conv& c, const T* w, const T* g, T* dx) {
  const windows::Axes& a = c.axes;
  parallel::for_each(
      c.images * c.groups, planes_per_chunk(c.outputs * a.windows() * a.taps()), [&](auto begin, auto end) {
        for (std::int64_t p = begin; p < end; ++p) {
          T* plane = dx + p * a.pixels();
          std::fill_n(plane, a.pixels(), T(0));
          for (std::int64_t o = 0; o < c.outputs; ++o) {
            const T* weights = w + (p % c.groups * c.outputs + o) * a.taps();
            const T* from = g + (p * c.outputs + o) * a.windows();
            each_tap_row(a, [&](std::int64_t tap, std::int64_t window, std::int64_t n, std::int64_t pixel) {
              add_scattered(weights[tap], from + window, a.columns.stride, n, plane + pixel);
            });
          }
        }
      });
}

template <class T> void depthwise_weight_backward(const Conv& c, const T* x, const T* g, T* dw) {
  const windows::Axes& a = c.axes;
  const std::int64_t channels = c.groups * c.outputs;
  parallel::for_each(channels, planes_per_chunk(c.images * a.windows() * a.taps()), [&](auto begin, auto end) {
    std::vector<double> sums(static_cast<std::size_t>(a.taps()));
    for (std::int64_t o = begin; o < end; ++o) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (std::int64_t image = 0; image < c.images; ++image) {
        const T* plane = x + (image * c.groups + o / c.outputs) * a.pixels();
        const T* from = g + (image * channels + o) * a.windows();
        each_tap_row(a, [&](std::int64_t tap, std::int64_t window, std::int64_t n, std::int64_t pixel) {
          sums[static_cast<std::size_t>(tap)] += dot(from + window, plane + pixel, a.columns.stride, n);
        });
      }
      for (std::size_t tap = 0; tap < sums.size(); ++tap)
        dw[o * a.taps() + static_cast<std::int64_t>(tap)] = static_cast<T>(sums[tap]);
    }
  });
}

#define EG_INSTANTIATE(T)                                                                                              \
  template void depthwise_forward<T>(const Conv&, const T*, const T*, const T*, T*);                                   \
  template void depthwise_input_backward<T>(const Conv&, const T*, const T*, T*);                                      \
  template void depthwise_weight_backward<T>(const Conv&, const T*, const T*, T*);
EG_INSTANTIATE(float)
EG_INSTANTIATE(double)
#undef EG_INSTANTIATE

} // namespace eg::conv
