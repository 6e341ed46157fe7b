// The generated set of digits: each one a few strokes, bent, moved and drawn with a pen.

#include "core/base/error.h"
#include "core/exact/elementary.h"
#include "core/random.h"
#include "data/dataset.h"
#include "data/decode.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace eg::data {
namespace {

constexpr std::int64_t class_count = 10;

struct Point {
  double x, y;
};

/// One movement of the pen through `points`, in a box of 0.7 by 1 with y downwards: straight from one to the next, or a
/// Catmull-Rom spline, which may end where it begins.
struct Stroke {
  enum class Kind { straight, curved, closed };
  Kind kind;
  std::vector<Point> points;
};

const std::array<std::vector<Stroke>, class_count>& strokes() {
  using enum Stroke::Kind;
  static const std::array<std::vector<Stroke>, class_count> all = {{
      {{closed, {{0.35, 0}, {0.04, 0.25}, {0.04, 0.75}, {0.35, 1}, {0.66, 0.75}, {0.66, 0.25}}}},
      {{straight, {{0.12, 0.25}, {0.4, 0}, {0.4, 1}}}},
      {{curved, {{0.03, 0.25}, {0.2, 0.02}, {0.5, 0.02}, {0.65, 0.27}, {0.45, 0.6}, {0.03, 1}}},
       {straight, {{0.03, 1}, {0.68, 1}}}},
      {{curved, {{0.05, 0.1}, {0.35, 0}, {0.62, 0.2}, {0.3, 0.47}}},
       {curved, {{0.3, 0.47}, {0.67, 0.7}, {0.4, 1}, {0.03, 0.88}}}},
      {{straight, {{0.5, 1}, {0.5, 0}, {0.02, 0.68}, {0.7, 0.68}}}},
      {{straight, {{0.62, 0}, {0.12, 0}, {0.08, 0.45}}},
       {curved, {{0.08, 0.45}, {0.4, 0.38}, {0.66, 0.65}, {0.4, 1}, {0.03, 0.9}}}},
      {{curved, {{0.55, 0.02}, {0.2, 0.3}, {0.05, 0.7}, {0.35, 1}, {0.63, 0.72}, {0.36, 0.48}, {0.08, 0.66}}}},
      {{straight, {{0.03, 0}, {0.67, 0}}}, {curved, {{0.67, 0}, {0.4, 0.5}, {0.28, 1}}}},
      {{closed, {{0.35, 0}, {0.08, 0.22}, {0.35, 0.46}, {0.62, 0.22}}},
       {closed, {{0.35, 0.46}, {0.04, 0.74}, {0.35, 1}, {0.66, 0.74}}}},
      {{curved, {{0.62, 0.3}, {0.35, 0.5}, {0.07, 0.27}, {0.36, 0}, {0.63, 0.27}, {0.58, 0.7}, {0.4, 1}}}},
  }};
  return all;
}

/// Between b and c, at t in [0, 1], on the Catmull-Rom spline through a, b, c, d.
double spline(double a, double b, double c, double d, double t) {
  return 0.5 * (2.0 * b + t * (c - a + t * (2.0 * a - 5.0 * b + 4.0 * c - d + t * (3.0 * (b - c) + d - a))));
}

/// The corners of a line that follows the stroke.
std::vector<Point> flattened(const Stroke& stroke) {
  if (stroke.kind == Stroke::Kind::straight) return stroke.points;
  const bool closed = stroke.kind == Stroke::Kind::closed;
  const auto n = static_cast<std::ptrdiff_t>(stroke.points.size());
  const auto at = [&](std::ptrdiff_t i) {
    return stroke.points[static_cast<std::size_t>(closed ? (i + n) % n : std::clamp(i, std::ptrdiff_t{0}, n - 1))];
  };
  constexpr int pieces = 6; // of a span between two points
  std::vector<Point> line{at(0)};
  for (std::ptrdiff_t i = 0; i < (closed ? n : n - 1); ++i)
    for (int k = 1; k <= pieces; ++k) {
      const double t = static_cast<double>(k) / pieces;
      const Point a = at(i - 1), b = at(i), c = at(i + 1), d = at(i + 2);
      line.push_back({spline(a.x, b.x, c.x, d.x, t), spline(a.y, b.y, c.y, d.y, t)});
    }
  return line;
}

double distance(Point p, Point a, Point b) {
  const double dx = b.x - a.x, dy = b.y - a.y;
  const double length = dx * dx + dy * dy;
  const double t = length > 0.0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length, 0.0, 1.0) : 0.0;
  const double x = p.x - a.x - t * dx, y = p.y - a.y - t * dy;
  return std::sqrt(x * x + y * y);
}

/// Adds to `ink` [side, side], between 0 and 1, a line from a to b in pixels with a round pen of radius `pen`.
void draw_line(Point a, Point b, double pen, std::int64_t side, std::vector<double>& ink) {
  const auto first = [&](double u, double v) {
    return std::clamp(static_cast<std::int64_t>(std::floor(std::min(u, v) - pen - 1.0)), std::int64_t{0}, side);
  };
  const auto last = [&](double u, double v) {
    return std::clamp(static_cast<std::int64_t>(std::ceil(std::max(u, v) + pen + 1.0)), std::int64_t{0}, side);
  };
  for (std::int64_t row = first(a.y, b.y); row < last(a.y, b.y); ++row)
    for (std::int64_t column = first(a.x, b.x); column < last(a.x, b.x); ++column) {
      const Point middle{static_cast<double>(column) + 0.5, static_cast<double>(row) + 0.5};
      double& here = ink[static_cast<std::size_t>(row * side + column)];
      here = std::max(here, std::clamp(pen + 0.5 - distance(middle, a, b), 0.0, 1.0));
    }
}

void draw(std::int64_t label, RandomStream random, std::int64_t side, std::uint8_t* pixels) {
  const auto extent = static_cast<double>(side);
  const double height = extent * random.uniform(0.5, 0.72);
  const double width = height * random.uniform(0.8, 1.2);
  const double slant = random.uniform(-0.25, 0.25);
  const double angle = random.uniform(-0.2, 0.2);
  const double x = extent * random.uniform(0.43, 0.57);
  const double y = extent * random.uniform(0.43, 0.57);
  const double pen = extent * random.uniform(0.03, 0.065);
  const double light = random.uniform(170.0, 255.0);
  const double noise = random.uniform(0.0, 24.0);
  const double cosine = exact::cos(angle), sine = exact::sin(angle);
  std::vector<double> ink(static_cast<std::size_t>(side * side));
  for (Stroke stroke : strokes()[static_cast<std::size_t>(label)]) {
    for (Point& p : stroke.points) {
      p.x += random.uniform(-0.05, 0.05);
      p.y += random.uniform(-0.05, 0.05);
    }
    std::vector<Point> line = flattened(stroke);
    for (Point& p : line) {
      const double v = (p.y - 0.5) * height, u = (p.x - 0.35) * width - slant * v;
      p = {x + cosine * u - sine * v, y + sine * u + cosine * v};
    }
    for (std::size_t i = 0; i + 1 < line.size(); ++i) draw_line(line[i], line[i + 1], pen, side, ink);
  }
  for (std::size_t i = 0; i < ink.size(); ++i) {
    const double value = light * ink[i] + noise * random.uniform(-1.0, 1.0);
    pixels[i] = static_cast<std::uint8_t>(std::clamp(std::floor(value + 0.5), 0.0, 255.0));
  }
}

} // namespace

ImageDataset generate_digits(std::int64_t count, Split split, std::uint64_t seed, std::int64_t side, StopFlag stop) {
  require_generated("digits", count, side);
  const auto image_size = static_cast<std::size_t>(side * side);
  Bytes pixels(static_cast<std::size_t>(count) * image_size);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(count));
  const RandomKey key = RandomKey{seed, 0x64696769 /* "digi" */}.fold(split == Split::train ? 1 : 2);
  decode_each(static_cast<std::size_t>(count), 32, stop, [&](std::size_t i) {
    const std::int64_t label = static_cast<std::int64_t>(i) % class_count;
    labels[i] = static_cast<std::int32_t>(label);
    draw(label, RandomStream(key.fold(i)), side, pixels.data() + i * image_size);
  });
  return {"digits",         1, side, side, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, std::move(pixels),
          std::move(labels)};
}

} // namespace eg::data
