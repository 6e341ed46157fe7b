#include "data/planes.h"

#include "core/base/error.h"
#include "core/exact/elementary.h"
#include "data/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

namespace eg::data {
namespace {

using Table = std::array<std::uint8_t, 256>;

/// x' = a x + b y + c, y' = d x + e y + f: where the pixel at (x, y) comes from.
struct Affine {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};

std::int64_t fixed_point(double value) { return static_cast<std::int64_t>(std::floor(value * 65536.0 + 0.5)); }

/// Pillow's affine_fixed: pixels' centres in 16.16 fixed point.
void transform(Planes& picture, const Affine& m) {
  const Planes from = picture;
  const std::int64_t a = fixed_point(m.a), b = fixed_point(m.b), d = fixed_point(m.d), e = fixed_point(m.e);
  std::int64_t row_x = fixed_point(m.c + 0.5 * m.a + 0.5 * m.b), row_y = fixed_point(m.f + 0.5 * m.d + 0.5 * m.e);
  for (std::int64_t y = 0; y < from.height; ++y, row_x += b, row_y += e) {
    std::int64_t at_x = row_x, at_y = row_y;
    for (std::int64_t x = 0; x < from.width; ++x, at_x += a, at_y += d) {
      const std::int64_t source_x = at_x >> 16, source_y = at_y >> 16;
      const bool within = source_x >= 0 && source_x < from.width && source_y >= 0 && source_y < from.height;
      const auto to = static_cast<std::size_t>(y * from.width + x),
                 source = static_cast<std::size_t>(source_y * from.width + source_x);
      for (std::int64_t c = 0; c < from.channels; ++c) picture.plane(c)[to] = within ? from.plane(c)[source] : 0;
    }
  }
}

/// Pillow's blend, in f32 and cut off, not rounded.
std::uint8_t blended(std::uint8_t plain, std::uint8_t value, float factor) {
  const float mixed = static_cast<float>(plain) + factor * static_cast<float>(static_cast<int>(value) - plain);
  return static_cast<std::uint8_t>(std::clamp(mixed, 0.0F, 255.0F));
}

std::vector<std::uint8_t> grey_of(const Planes& picture) {
  if (picture.channels != 3) return {picture.plane(0).begin(), picture.plane(0).end()};
  std::vector<std::uint8_t> grey(static_cast<std::size_t>(picture.plane_size()));
  const auto red = picture.plane(0), green = picture.plane(1), blue = picture.plane(2);
  for (std::size_t i = 0; i < grey.size(); ++i)
    grey[i] = static_cast<std::uint8_t>((red[i] * 19595U + green[i] * 38470U + blue[i] * 7471U + 0x8000U) >> 16U);
  return grey;
}

void blend_with(Planes& picture, std::uint8_t plain, double factor) {
  for (std::uint8_t& value : picture.bytes) value = blended(plain, value, static_cast<float>(factor));
}

void look_up(std::span<std::uint8_t> plane, const Table& table) {
  for (std::uint8_t& value : plane) value = table[value];
}

std::array<std::int64_t, 256> histogram_of(std::span<const std::uint8_t> plane) {
  std::array<std::int64_t, 256> counts{};
  for (const std::uint8_t value : plane) ++counts[value];
  return counts;
}

std::vector<std::uint8_t> smoothed(std::span<const std::uint8_t> plane, std::int64_t height, std::int64_t width) {
  std::vector<std::uint8_t> out(plane.begin(), plane.end());
  for (std::int64_t y = 1; y + 1 < height; ++y)
    for (std::int64_t x = 1; x + 1 < width; ++x) {
      const auto at = static_cast<std::size_t>(y * width + x);
      unsigned sum = 4U * plane[at];
      for (std::int64_t row = y - 1; row <= y + 1; ++row)
        for (std::int64_t column = x - 1; column <= x + 1; ++column)
          sum += plane[static_cast<std::size_t>(row * width + column)];
      out[at] = static_cast<std::uint8_t>((2U * sum + 13U) / 26U);
    }
  return out;
}

} // namespace

void shear_x(Planes& picture, double shear) { transform(picture, {.b = shear}); }
void shear_y(Planes& picture, double shear) { transform(picture, {.d = shear}); }
void translate_x(Planes& picture, std::int64_t pixels) { transform(picture, {.c = static_cast<double>(pixels)}); }
void translate_y(Planes& picture, std::int64_t pixels) { transform(picture, {.f = static_cast<double>(pixels)}); }

void rotate(Planes& picture, double degrees) {
  const double angle = -degrees * std::numbers::pi / 180.0, cosine = exact::cos(angle), sine = exact::sin(angle);
  const double x = 0.5 * static_cast<double>(picture.width), y = 0.5 * static_cast<double>(picture.height);
  transform(picture, {.a = cosine,
                      .b = sine,
                      .c = x - cosine * x - sine * y,
                      .d = -sine,
                      .e = cosine,
                      .f = y + sine * x - cosine * y});
}

void brightness(Planes& picture, double factor) { blend_with(picture, 0, factor); }

void contrast(Planes& picture, double factor) {
  const std::vector<std::uint8_t> grey = grey_of(picture);
  const double mean = static_cast<double>(std::accumulate(grey.begin(), grey.end(), std::int64_t{0})) /
                      static_cast<double>(std::max<std::size_t>(grey.size(), 1));
  blend_with(picture, static_cast<std::uint8_t>(mean + 0.5), factor);
}

void color(Planes& picture, double factor) {
  const std::vector<std::uint8_t> grey = grey_of(picture);
  for (std::int64_t c = 0; c < picture.channels; ++c)
    for (std::size_t i = 0; i < grey.size(); ++i)
      picture.plane(c)[i] = blended(grey[i], picture.plane(c)[i], static_cast<float>(factor));
}

void sharpness(Planes& picture, double factor) {
  for (std::int64_t c = 0; c < picture.channels; ++c) {
    const std::span<std::uint8_t> plane = picture.plane(c);
    const std::vector<std::uint8_t> smooth = smoothed(plane, picture.height, picture.width);
    for (std::size_t i = 0; i < plane.size(); ++i) plane[i] = blended(smooth[i], plane[i], static_cast<float>(factor));
  }
}

void posterize(Planes& picture, int bits) {
  const unsigned mask = 0xFFU << static_cast<unsigned>(8 - std::clamp(bits, 0, 8));
  for (std::uint8_t& value : picture.bytes) value = static_cast<std::uint8_t>(value & mask);
}

void solarize(Planes& picture, int threshold) {
  for (std::uint8_t& value : picture.bytes)
    if (value >= threshold) value = static_cast<std::uint8_t>(255 - value);
}

void auto_contrast(Planes& picture) {
  for (std::int64_t c = 0; c < picture.channels; ++c) {
    const auto plane = picture.plane(c);
    const auto [low, high] = std::minmax_element(plane.begin(), plane.end());
    if (plane.empty() || *high <= *low) continue;
    const double scale = 255.0 / (*high - *low), shift = -*low * scale;
    Table table{};
    for (int i = 0; i < 256; ++i)
      table[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(std::clamp(i * scale + shift, 0.0, 255.0));
    look_up(plane, table);
  }
}

void equalize(Planes& picture) {
  for (std::int64_t c = 0; c < picture.channels; ++c) {
    const auto counts = histogram_of(picture.plane(c));
    const auto last = std::find_if(counts.rbegin(), counts.rend(), [](std::int64_t n) { return n > 0; });
    if (last == counts.rend()) continue;
    const std::int64_t step = (picture.plane_size() - *last) / 255;
    if (step == 0) continue;
    Table table{};
    std::int64_t sum = step / 2;
    for (std::size_t i = 0; i < 256; sum += counts[i++])
      table[i] = static_cast<std::uint8_t>(std::min<std::int64_t>(sum / step, 255));
    look_up(picture.plane(c), table);
  }
}

void resized_crop(Planes& picture, std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width) {
  if (top < 0 || left < 0 || height < 1 || width < 1 || top + height > picture.height || left + width > picture.width)
    throw ValueError(fmt::format("resized_crop: rows {} to {} and columns {} to {} are not within a picture of {} x {}",
                                 top, top + height, left, left + width, picture.height, picture.width));
  Image cut{.height = static_cast<int>(height), .width = static_cast<int>(width), .channels = 1, .pixels = {}};
  for (std::int64_t c = 0; c < picture.channels; ++c) {
    const auto plane = picture.plane(c);
    cut.pixels.clear();
    for (std::int64_t y = top; y < top + height; ++y) {
      const auto row =
          plane.subspan(static_cast<std::size_t>(y * picture.width + left), static_cast<std::size_t>(width));
      cut.pixels.insert(cut.pixels.end(), row.begin(), row.end());
    }
    const Image whole =
        resize_pillow(cut, static_cast<int>(picture.height), static_cast<int>(picture.width), PillowFilter::bilinear);
    std::copy(whole.pixels.begin(), whole.pixels.end(), plane.begin());
  }
}

} // namespace eg::data
