#include "core/ops/interpolate/resample.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace eg::resample {
namespace {

/// Appends a row; weights that fall on one column are added.
void append(Matrix& a, std::int64_t first, std::int64_t last) {
  a.first.push_back(first);
  a.weights.resize(a.weights.size() + static_cast<std::size_t>(last - first + 1), 0.0);
  a.start.push_back(static_cast<std::int64_t>(a.weights.size()));
}

/// Keys, Cubic convolution interpolation for digital image processing, IEEE ASSP 29(6), 1981. In factors, whose zeros
/// at 1 and 2 cost no digits.
double cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1.0) return (1.0 - x) * (1.0 + x - (a + 2.0) * x * x);
  if (x < 2.0) return a * (x - 1.0) * (x - 2.0) * (x - 2.0);
  return 0.0;
}

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

double step_of(std::int64_t in, std::int64_t out, bool align_corners) {
  if (!align_corners) return static_cast<double>(in) / static_cast<double>(out);
  return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
}

/// One weight of 1 at floor((i + shift) in / out).
void nearest_row(Matrix& a, std::int64_t out, float shift, std::int64_t i) {
  const float scale = static_cast<float>(a.columns) / static_cast<float>(out);
  const auto place = static_cast<std::int64_t>(std::floor((static_cast<float>(i) + shift) * scale));
  const std::int64_t at = std::min(place, a.columns - 1);
  append(a, at, at);
  a.weights.back() = 1.0;
}

/// The position of a new pixel among the old ones, as a whole number and a rest in [0, 1) that is rounded once.
struct Place {
  std::int64_t low;
  double share;
};

/// i (in - 1) / (out - 1), or the centre (i + 1/2) in / out - 1/2.
Place place_of(std::int64_t in, std::int64_t out, bool align_corners, std::int64_t i) {
  if (align_corners && out == 1) return {0, 0.0};
  const std::int64_t above = align_corners ? i * (in - 1) : (2 * i + 1) * in - out;
  const std::int64_t below = align_corners ? out - 1 : 2 * out;
  const std::int64_t low = above / below - (above % below < 0 ? 1 : 0);
  return {low, static_cast<double>(above - low * below) / static_cast<double>(below)};
}

void bilinear_row(Matrix& a, Place place) {
  if (place.low < 0) place = {0, 0.0};
  const std::int64_t low = std::min(place.low, a.columns - 1);
  const std::int64_t high = std::min(low + 1, a.columns - 1);
  const double share = place.low > low ? 1.0 : place.share;
  append(a, low, high);
  double* w = a.weights.data() + a.start[a.start.size() - 2];
  w[0] += 1.0 - share;
  w[high - low] += share;
}

void bicubic_row(Matrix& a, const Place& place) {
  const auto [low, share] = place;
  const auto inside = [&](std::int64_t p) { return std::clamp<std::int64_t>(p, 0, a.columns - 1); };
  append(a, inside(low - 1), inside(low + 2));
  double* w = a.weights.data() + a.start[a.start.size() - 2];
  for (std::int64_t tap = -1; tap <= 2; ++tap)
    w[inside(low + tap) - a.first.back()] += cubic(share - static_cast<double>(tap), -0.75);
}

} // namespace

Matrix interpolation(Filter filter, std::int64_t in, std::int64_t out, bool align_corners) {
  Matrix a{in, {}, {0}, {}};
  for (std::int64_t i = 0; i < out; ++i) {
    switch (filter) {
    case Filter::nearest:
      nearest_row(a, out, 0.0F, i);
      break;
    case Filter::nearest_exact:
      nearest_row(a, out, 0.5F, i);
      break;
    case Filter::bilinear:
      bilinear_row(a, place_of(in, out, align_corners, i));
      break;
    case Filter::bicubic:
      bicubic_row(a, place_of(in, out, align_corners, i));
      break;
    }
  }
  return a;
}

Matrix antialiased(Filter filter, std::int64_t in, std::int64_t out, bool align_corners) {
  return antialiased(filter == Filter::bicubic ? Kernel{2.0, [](double x) { return cubic(x, -0.5); }}
                                               : Kernel{1.0, triangle},
                     in, out, align_corners);
}

Matrix antialiased(const Kernel& kernel, std::int64_t in, std::int64_t out, bool align_corners) {
  Matrix a{in, {}, {0}, {}};
  const double step = step_of(in, out, align_corners);
  const double stretch = std::max(step, 1.0);
  const double support = kernel.support * stretch;
  for (std::int64_t i = 0; i < out; ++i) {
    const double centre = step * (static_cast<double>(i) + 0.5);
    const std::int64_t first = std::max<std::int64_t>(static_cast<std::int64_t>(centre - support + 0.5), 0);
    const std::int64_t last = std::min(static_cast<std::int64_t>(centre + support + 0.5), in) - 1;
    append(a, first, std::max(first, last));
    double* w = a.weights.data() + a.start[a.start.size() - 2];
    double sum = 0;
    for (std::int64_t p = first; p <= last; ++p) {
      w[p - first] = kernel.weight((static_cast<double>(p) - centre + 0.5) * (1.0 / stretch));
      sum += w[p - first];
    }
    if (sum != 0.0)
      for (std::int64_t p = first; p <= last; ++p) w[p - first] /= sum;
  }
  return a;
}

Matrix transposed(const Matrix& a) {
  // Places that a column's rows reach are consecutive but for gaps, which weigh 0.
  const auto columns = static_cast<std::size_t>(a.columns);
  std::vector<std::int64_t> least(columns, a.rows());
  std::vector<std::int64_t> most(columns, -1);
  for (std::int64_t i = 0; i < a.rows(); ++i)
    for (std::int64_t k = 0; k < a.count(i); ++k) {
      const auto j = static_cast<std::size_t>(a.first[static_cast<std::size_t>(i)] + k);
      least[j] = std::min(least[j], i);
      most[j] = std::max(most[j], i);
    }
  Matrix t{a.rows(), {}, {0}, {}};
  for (std::size_t j = 0; j < columns; ++j) {
    if (most[j] < 0) { // no row sees this column
      t.first.push_back(0);
      t.start.push_back(t.start.back());
    } else {
      append(t, least[j], most[j]);
    }
  }
  for (std::int64_t i = 0; i < a.rows(); ++i)
    for (std::int64_t k = 0; k < a.count(i); ++k) {
      const auto j = static_cast<std::size_t>(a.first[static_cast<std::size_t>(i)] + k);
      t.weights[static_cast<std::size_t>(t.start[j] + i - t.first[j])] = a.row(i)[k];
    }
  return t;
}

} // namespace eg::resample
