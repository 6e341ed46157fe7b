// The three products of a convolution in exact mode: every element is one sum whose terms may come in any order.

#include "core/exact.h"
#include "core/ops/conv/kernels.h"
#include "core/parallel.h"

#include <vector>

namespace eg::conv {
namespace {

using windows::Axis;

/// element(index, terms) for every index below count; `terms` is empty and kept between calls, so that it grows once.
template <class Element> void each_element(std::int64_t count, std::int64_t terms_each, Element element) {
  parallel::for_each(count, std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, terms_each)),
                     [&](std::int64_t begin, std::int64_t end) {
                       std::vector<double> terms;
                       for (std::int64_t i = begin; i < end; ++i) {
                         terms.clear();
                         element(i, terms);
                       }
                     });
}

/// The window whose element `tap` is at this place; -1 where there is none.
std::int64_t window_at(const Axis& a, std::int64_t place, std::int64_t tap) {
  const std::int64_t first = place + a.padding - tap * a.dilation;
  return first >= 0 && first % a.stride == 0 && first / a.stride < a.count ? first / a.stride : -1;
}

double product(double a, double b) { return a * b; }

} // namespace

template <class T> void exact_forward(const Conv& c, const T* x, const T* w, const T* bias, T* y) {
  const Axis& r = c.axes.rows;
  const Axis& q = c.axes.columns;
  const std::int64_t channels = c.groups * c.outputs;
  each_element(c.images * channels * c.axes.windows(), c.depth(), [&](std::int64_t at, std::vector<double>& terms) {
    const std::int64_t plane = at / c.axes.windows();
    const std::int64_t o = plane % channels;
    const std::int64_t top = r.first(at % c.axes.windows() / q.count);
    const std::int64_t left = q.first(at % q.count);
    if (bias != nullptr) terms.push_back(static_cast<double>(bias[o]));
    const T* from = x + (plane / c.outputs * c.inputs) * c.axes.pixels();
    for (std::int64_t k = 0; k < c.inputs; ++k)
      for (std::int64_t u = 0; u < r.kernel; ++u)
        for (std::int64_t v = 0; v < q.kernel; ++v) {
          const std::int64_t row = top + u * r.dilation;
          const std::int64_t column = left + v * q.dilation;
          if (row < 0 || row >= r.extent || column < 0 || column >= q.extent) continue;
          terms.push_back(product(static_cast<double>(from[(k * r.extent + row) * q.extent + column]),
                                  static_cast<double>(w[((o * c.inputs + k) * r.kernel + u) * q.kernel + v])));
        }
    y[at] = static_cast<T>(exact::sum(terms));
  });
}

template <class T> void exact_input_backward(const Conv& c, const T* w, const T* g, T* dx) {
  const Axis& r = c.axes.rows;
  const Axis& q = c.axes.columns;
  const std::int64_t channels = c.groups * c.inputs;
  const auto element = [&](std::int64_t at, std::vector<double>& terms) {
    const std::int64_t plane = at / c.axes.pixels();
    const std::int64_t row = at % c.axes.pixels() / q.extent;
    const std::int64_t column = at % q.extent;
    const std::int64_t k = plane % channels % c.inputs;
    const std::int64_t group = plane % channels / c.inputs;
    for (std::int64_t u = 0; u < r.kernel; ++u)
      for (std::int64_t v = 0; v < q.kernel; ++v) {
        const std::int64_t i = window_at(r, row, u);
        const std::int64_t j = window_at(q, column, v);
        if (i < 0 || j < 0) continue;
        for (std::int64_t o = group * c.outputs; o < (group + 1) * c.outputs; ++o) {
          const std::int64_t output = plane / channels * c.groups * c.outputs + o;
          terms.push_back(product(static_cast<double>(w[((o * c.inputs + k) * r.kernel + u) * q.kernel + v]),
                                  static_cast<double>(g[(output * r.count + i) * q.count + j])));
        }
      }
    dx[at] = static_cast<T>(exact::sum(terms));
  };
  each_element(c.images * channels * c.axes.pixels(), c.outputs * c.axes.taps(), element);
}

template <class T> void exact_weight_backward(const Conv& c, const T* x, const T* g, T* dw) {
  const Axis& r = c.axes.rows;
  const Axis& q = c.axes.columns;
  const auto element = [&](std::int64_t at, std::vector<double>& terms) {
    const std::int64_t v = at % q.kernel;
    const std::int64_t u = at / q.kernel % r.kernel;
    const std::int64_t k = at / c.axes.taps() % c.inputs;
    const std::int64_t o = at / c.axes.taps() / c.inputs;
    const Axis::Range rows = r.reach(u);
    const Axis::Range columns = q.reach(v);
    for (std::int64_t n = 0; n < c.images; ++n) {
      const T* from = x + (n * c.groups * c.inputs + o / c.outputs * c.inputs + k) * c.axes.pixels();
      const T* cotangent = g + (n * c.groups * c.outputs + o) * c.axes.windows();
      for (std::int64_t i = rows.begin; i < rows.end; ++i)
        for (std::int64_t j = columns.begin; j < columns.end; ++j)
          terms.push_back(
              product(static_cast<double>(from[(r.first(i) + u * r.dilation) * q.extent + q.first(j) + v * q.dilation]),
                      static_cast<double>(cotangent[i * q.count + j])));
    }
    dw[at] = static_cast<T>(exact::sum(terms));
  };
  each_element(c.groups * c.outputs * c.depth(), c.images * c.axes.windows(), element);
}

#define EG_INSTANTIATE(T)                                                                                              \
  template void exact_forward<T>(const Conv&, const T*, const T*, const T*, T*);                                       \
  template void exact_input_backward<T>(const Conv&, const T*, const T*, T*);                                          \
  template void exact_weight_backward<T>(const Conv&, const T*, const T*, T*);
EG_INSTANTIATE(float)
EG_INSTANTIATE(double)
#undef EG_INSTANTIATE

} // namespace eg::conv
