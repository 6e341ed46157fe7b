// The generated image set: ten classes of shapes, each given by a test whether a point is inside.

#include "core/base/error.h"
#include "core/exact/elementary.h"
#include "core/random.h"
#include "data/dataset.h"
#include "data/decode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <numbers>
#include <vector>

namespace eg::data {

namespace {

constexpr std::int64_t class_count = 10;
constexpr double pi = std::numbers::pi;

/// Point in the shape's own frame, where the shape fills about the unit disc.
struct Point {
  double x, y;
};

double radius(Point p) { return std::sqrt(p.x * p.x + p.y * p.y); }

/// A regular polygon of circumradius 1 with a corner at the top: the directions of its sides, and how far these are.
struct Polygon {
  explicit Polygon(int corners) : apothem(exact::cos(pi / corners)) {
    for (int k = 0; k < corners; ++k) {
      const double angle = 2.0 * pi * (k + 0.5) / corners;
      sides.push_back({exact::sin(angle), exact::cos(angle)});
    }
  }
  bool holds(Point p) const {
    return std::all_of(sides.begin(), sides.end(), [&](Point s) { return p.x * s.x - p.y * s.y <= apothem; });
  }

  double apothem;
  std::vector<Point> sides;
};

bool in_star(Point p) {
  // Fold into the sector of one point, from its tip (radius 1) to the valley (radius 0.42).
  const double sector = 2.0 * pi / 5.0;
  const double angle = std::abs(std::remainder(exact::atan2(p.x, -p.y), sector));
  const double r = radius(p);
  const Point q{r * exact::cos(angle), r * exact::sin(angle)};
  const Point valley{0.42 * exact::cos(sector / 2.0), 0.42 * exact::sin(sector / 2.0)};
  return (valley.x - 1.0) * q.y - valley.y * (q.x - 1.0) > 0.0;
}

bool in_heart(Point p) {
  const double x = p.x * 1.2;
  const double y = 0.15 - p.y * 1.2; // up is negative in images
  const double s = x * x + y * y - 0.65;
  return s * s * s - x * x * y * y * y < 0.0;
}

bool inside(std::int64_t label, Point p) {
  static const Polygon triangle(3), hexagon(6);
  const double x = std::abs(p.x);
  const double y = std::abs(p.y);
  const double r = radius(p);
  switch (label) {
  case 0:
    return r < 0.95; // disc
  case 1:
    return r < 1.0 && r > 0.6; // ring
  case 2:
    return x < 0.8 && y < 0.8; // square
  case 3:
    return triangle.holds(p); // triangle
  case 4:
    return (x < 0.28 && y < 1.0) || (y < 0.28 && x < 1.0); // cross
  case 5:
    return in_star(p); // star
  case 6:
    return r < 1.0 && radius({p.x - 0.5, p.y}) > 0.8; // crescent
  case 7:
    return x < 0.9 && y < 0.9 && (y < 0.2 || y > 0.55); // bars
  case 8:
    return hexagon.holds(p) && !(std::abs(p.x) < 0.3 && std::abs(p.y) < 0.3); // hexagonal nut
  default:
    return in_heart(p);
  }
}

using Color = std::array<double, 3>;

Color random_color(RandomStream& random) {
  Color color{};
  for (double& channel : color) channel = random.uniform(0.0, 255.0);
  return color;
}

double contrast(const Color& a, const Color& b) {
  double most = 0.0;
  for (std::size_t c = 0; c < a.size(); ++c) most = std::max(most, std::abs(a[c] - b[c]));
  return most;
}

void draw(std::int64_t label, RandomStream random, std::int64_t side, std::uint8_t* planes) {
  const Color background = random_color(random);
  Color color = random_color(random);
  while (contrast(color, background) < 60.0) color = random_color(random);
  const auto extent = static_cast<double>(side);
  const double size = extent * random.uniform(0.22, 0.42);
  const double x = random.uniform(size, extent - size);
  const double y = random.uniform(size, extent - size);
  const double angle = random.uniform(0.0, 2.0 * pi);
  const double noise = random.uniform(0.0, 16.0);
  const double cosine = exact::cos(angle) / size;
  const double sine = exact::sin(angle) / size;
  const double reach = 1.3 * size + 1.0; // no shape has points beyond 1.3 in its own frame
  constexpr int samples = 4;             // a side of each pixel
  const std::int64_t plane = side * side;
  for (std::int64_t row = 0; row < side; ++row)
    for (std::int64_t column = 0; column < side; ++column) {
      int hits = 0;
      const double far_x = static_cast<double>(column) + 0.5 - x;
      const double far_y = static_cast<double>(row) + 0.5 - y;
      const bool near = far_x * far_x + far_y * far_y < reach * reach;
      for (int s = 0; near && s < samples * samples; ++s) {
        const double dx = static_cast<double>(column) + (s % samples + 0.5) / samples - x;
        const double dy = static_cast<double>(row) + (s / samples + 0.5) / samples - y;
        if (inside(label, {cosine * dx + sine * dy, cosine * dy - sine * dx})) ++hits;
      }
      const double cover = static_cast<double>(hits) / (samples * samples);
      for (std::size_t c = 0; c < 3; ++c) {
        const double value = background[c] + cover * (color[c] - background[c]) + noise * random.uniform(-1.0, 1.0);
        planes[static_cast<std::int64_t>(c) * plane + row * side + column] =
            static_cast<std::uint8_t>(std::clamp(std::floor(value + 0.5), 0.0, 255.0));
      }
    }
}

} // namespace

void require_generated(const char* what, std::int64_t count, std::int64_t side) {
  if (side < 8 || side > 1024)
    throw ValueError(fmt::format("{}: a side of {} pixels; 8 to 1024 are possible", what, side));
  if (count < 0 || count > 10'000'000)
    throw ValueError(fmt::format("{}: {} images; 0 to 10000000 are possible", what, count));
  if (static_cast<std::uint64_t>(count) > default_byte_limit / static_cast<std::uint64_t>(3 * side * side))
    throw ValueError(fmt::format("{}: {} images of {}x{} pixels need more than {} bytes", what, count, side, side,
                                 default_byte_limit));
}

ImageDataset generate_shapes(std::int64_t count, Split split, std::uint64_t seed, std::int64_t side, StopFlag stop) {
  require_generated("shapes", count, side);
  const auto image_size = static_cast<std::size_t>(3 * side * side);
  Bytes pixels(static_cast<std::size_t>(count) * image_size);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(count));
  const RandomKey key = RandomKey{seed, 0x73686170 /* "shap" */}.fold(split == Split::train ? 1 : 2);
  decode_each(static_cast<std::size_t>(count), 32, stop, [&](std::size_t i) {
    const std::int64_t label = static_cast<std::int64_t>(i) % class_count;
    labels[i] = static_cast<std::int32_t>(label);
    draw(label, RandomStream(key.fold(i)), side, pixels.data() + i * image_size);
  });
  return {"shapes",
          3,
          side,
          side,
          {"disc", "ring", "square", "triangle", "cross", "star", "crescent", "bars", "nut", "heart"},
          std::move(pixels),
          std::move(labels)};
}

} // namespace eg::data
