#include "apps/report/pictures.h"

#include "core/ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

namespace eg::report {
namespace {

/// Dark blue over green to yellow: a ramp of rising lightness through five anchors.
std::array<std::uint8_t, 3> ramp(double t) {
  constexpr std::array<std::array<double, 3>, 5> anchors = {
      {{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}}};
  const double place = std::clamp(t, 0.0, 1.0) * (anchors.size() - 1);
  const auto low = std::min(static_cast<std::size_t>(place), anchors.size() - 2);
  const double part = place - static_cast<double>(low);
  std::array<std::uint8_t, 3> rgb{};
  for (std::size_t c = 0; c < 3; ++c)
    rgb[c] = static_cast<std::uint8_t>(std::lround(anchors[low][c] * (1 - part) + anchors[low + 1][c] * part));
  return rgb;
}

/// Blue over white to red, t from -1 to 1.
std::array<std::uint8_t, 3> two_sided(double t) {
  constexpr std::array<double, 3> low = {5, 72, 168}, middle = {255, 255, 255}, high = {178, 24, 43};
  const double part = std::min(1.0, std::abs(t));
  std::array<std::uint8_t, 3> rgb{};
  for (std::size_t c = 0; c < 3; ++c)
    rgb[c] = static_cast<std::uint8_t>(std::lround(middle[c] * (1 - part) + (t < 0 ? low : high)[c] * part));
  return rgb;
}

std::vector<double> entries(const Tensor& matrix, const char* who) {
  std::vector<double> values = matrix.to(DType::f64).to_vector<double>();
  if (values.empty()) throw ShapeError(fmt::format("{}: the matrix is empty: {}", who, matrix.shape().str()));
  return values;
}

} // namespace

data::Image picture(const Tensor& image) {
  const auto channels = image.size(0);
  data::Image out{static_cast<int>(image.size(1)), static_cast<int>(image.size(2)), static_cast<int>(channels), {}};
  const std::vector<double> values = image.to(DType::f64).to_vector<double>();
  const std::int64_t plane = image.size(1) * image.size(2);
  for (std::int64_t i = 0; i < plane; ++i)
    for (std::int64_t c = 0; c < channels; ++c)
      out.pixels.push_back(static_cast<std::uint8_t>(
          std::lround(std::clamp(values[static_cast<std::size_t>(c * plane + i)], 0.0, 255.0))));
  return out;
}

data::Image heat_map(const Tensor& matrix) {
  const std::vector<double> values = entries(matrix, "heat_map");
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  const double span = *largest > *least ? *largest - *least : 1.0;
  data::Image out{static_cast<int>(matrix.size(0)), static_cast<int>(matrix.size(1)), 3, {}};
  for (const double value : values)
    for (const std::uint8_t byte : ramp((value - *least) / span)) out.pixels.push_back(byte);
  return out;
}

data::Image signed_map(const Tensor& matrix, double largest) {
  const std::vector<double> values = entries(matrix, "signed_map");
  data::Image out{static_cast<int>(matrix.size(0)), static_cast<int>(matrix.size(1)), 3, {}};
  for (const double value : values)
    for (const std::uint8_t byte : two_sided(largest > 0 ? value / largest : 0.0)) out.pixels.push_back(byte);
  return out;
}

data::Image position_map(const Tensor& embedding, std::int64_t side) {
  const std::int64_t positions = side * side;
  if (embedding.rank() != 2 || side < 1 || embedding.size(0) != positions)
    throw ShapeError(
        fmt::format("position_map: {} is no embedding of {} x {} positions", embedding.shape().str(), side, side));
  const Tensor e = embedding.to(DType::f64);
  const Tensor unit = e / sqrt(sum(e * e, {1}, true));
  const std::vector<double> cosines = matmul(unit, unit, false, true).to_vector<double>();
  const std::int64_t pixels = side * (side + 1) - 1;
  data::Image out{static_cast<int>(pixels), static_cast<int>(pixels), 3, {}};
  for (std::int64_t y = 0; y < pixels; ++y)
    for (std::int64_t x = 0; x < pixels; ++x) {
      const std::int64_t from = y / (side + 1) * side + x / (side + 1), dy = y % (side + 1), dx = x % (side + 1);
      const bool between = dy == side || dx == side;
      const auto place = static_cast<std::size_t>(from * positions + dy * side + dx);
      const std::array<std::uint8_t, 3> rgb =
          between ? std::array<std::uint8_t, 3>{208, 208, 208} : ramp((cosines[place] + 1) / 2);
      out.pixels.insert(out.pixels.end(), rgb.begin(), rgb.end());
    }
  return out;
}

} // namespace eg::report
