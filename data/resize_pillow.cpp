// Pillow's 8-bit resampling: the same weights as core's, rounded to fixed point, and the same order of operations.

#include "core/base/error.h"
#include "core/exact/elementary.h"
#include "core/ops/interpolate/resample.h"
#include "data/image.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace eg::data {
namespace {

/// Bits behind the point: 32, less 8 of the pixel and 2 for weights that overshoot.
constexpr int fraction_bits = 22;

// Pillow's filters, src/libImaging/Resample.c.

double box(double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }

double sinc(double x) {
  if (x == 0.0) return 1.0;
  x *= std::numbers::pi;
  return exact::sin(x) / x;
}
double lanczos(double x) { return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0; }

double hamming(double x) {
  x = std::abs(x);
  if (x == 0.0) return 1.0;
  if (x >= 1.0) return 0.0;
  x *= std::numbers::pi;
  return exact::sin(x) / x * (double{0.54F} + double{0.46F} * exact::cos(x)); // its constants are single precision
}

resample::Matrix matrix_of(PillowFilter filter, int from, int to) {
  switch (filter) {
  case PillowFilter::lanczos:
    return resample::antialiased({3.0, lanczos}, from, to);
  case PillowFilter::box:
    return resample::antialiased({0.5, box}, from, to);
  case PillowFilter::hamming:
    return resample::antialiased({1.0, hamming}, from, to);
  case PillowFilter::bicubic:
    return resample::antialiased(resample::Filter::bicubic, from, to);
  default:
    return resample::antialiased(resample::Filter::bilinear, from, to);
  }
}

/// A resampling matrix with rounded weights.
struct FixedPoint {
  resample::Matrix matrix;
  std::vector<std::int32_t> weights;

  FixedPoint(PillowFilter filter, int from, int to) : matrix(matrix_of(filter, from, to)) {
    for (const double w : matrix.weights) {
      const double scaled = w * (1 << fraction_bits);
      weights.push_back(static_cast<std::int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5));
    }
  }

  /// Result pixel i of a line whose pixels are `step` apart.
  std::uint8_t pixel(std::size_t i, const std::uint8_t* line, std::size_t step) const {
    std::int64_t sum = std::int64_t{1} << (fraction_bits - 1);
    const std::uint8_t* from = line + static_cast<std::size_t>(matrix.first[i]) * step;
    for (auto k = static_cast<std::size_t>(matrix.start[i]); k < static_cast<std::size_t>(matrix.start[i + 1]);
         ++k, from += step)
      sum += std::int64_t{*from} * weights[k];
    return static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> fraction_bits, 0, 255));
  }
};

std::size_t extent(int n) { return static_cast<std::size_t>(n); }

Image blank(int height, int width, int channels) {
  return {height, width, channels, std::vector<std::uint8_t>(extent(height) * extent(width) * extent(channels))};
}

Image resize_rows(const Image& image, int width, PillowFilter filter) {
  if (width == image.width) return image;
  const FixedPoint weights(filter, image.width, width);
  const std::size_t channels = extent(image.channels);
  Image out = blank(image.height, width, image.channels);
  std::uint8_t* to = out.pixels.data();
  for (std::size_t y = 0; y < extent(image.height); ++y)
    for (std::size_t x = 0; x < extent(width); ++x)
      for (std::size_t c = 0; c < channels; ++c)
        *to++ = weights.pixel(x, image.pixels.data() + y * extent(image.width) * channels + c, channels);
  return out;
}

Image resize_columns(const Image& image, int height, PillowFilter filter) {
  if (height == image.height) return image;
  const FixedPoint weights(filter, image.height, height);
  const std::size_t row = extent(image.width) * extent(image.channels);
  Image out = blank(height, image.width, image.channels);
  std::uint8_t* to = out.pixels.data();
  for (std::size_t y = 0; y < extent(height); ++y)
    for (std::size_t x = 0; x < row; ++x) *to++ = weights.pixel(y, image.pixels.data() + x, row);
  return out;
}

/// Which source pixel each result pixel is: the one below its centre, by steps that are added up as Pillow does.
std::vector<std::size_t> nearest_places(int from, int to) {
  const double step = static_cast<double>(from) / static_cast<double>(to);
  double at = step * 0.5;
  std::vector<std::size_t> places;
  for (int i = 0; i < to; ++i, at += step) places.push_back(std::min(static_cast<std::size_t>(at), extent(from - 1)));
  return places;
}

Image resize_nearest(const Image& image, int height, int width) {
  const std::vector<std::size_t> columns = nearest_places(image.width, width);
  const std::size_t channels = extent(image.channels);
  Image out = blank(height, width, image.channels);
  std::uint8_t* to = out.pixels.data();
  for (const std::size_t y : nearest_places(image.height, height)) {
    const std::uint8_t* row = image.pixels.data() + y * extent(image.width) * channels;
    for (const std::size_t x : columns) to = std::copy_n(row + x * channels, channels, to);
  }
  return out;
}

/// a b / 255, rounded.
std::uint8_t times_alpha(unsigned a, unsigned b) {
  const unsigned product = a * b + 128;
  return static_cast<std::uint8_t>((product + (product >> 8)) >> 8);
}

std::uint8_t over_alpha(unsigned a, unsigned alpha) {
  return alpha == 0 || alpha == 255 ? static_cast<std::uint8_t>(a)
                                    : static_cast<std::uint8_t>(std::min(255U, 255U * a / alpha));
}

template <class Change> void change_colours(Image& image, Change change) {
  const std::size_t channels = extent(image.channels);
  for (std::size_t at = 0; at < image.pixels.size(); at += channels)
    for (std::size_t c = 0; c + 1 < channels; ++c)
      image.pixels[at + c] = change(image.pixels[at + c], image.pixels[at + channels - 1]);
}

void check(const Image& image, int height, int width) {
  if (height < 1 || width < 1 || image.height < 1 || image.width < 1 || image.channels < 1 || image.channels > 4)
    throw ValueError(fmt::format("resize_pillow: from {}x{} with {} channels to {}x{} pixels", image.height,
                                 image.width, image.channels, height, width));
  if (image.pixels.size() != extent(image.height) * extent(image.width) * extent(image.channels))
    throw ValueError(fmt::format("resize_pillow: {}x{} pixels with {} channels are not {} bytes", image.height,
                                 image.width, image.channels, image.pixels.size()));
}

} // namespace

Image resize_pillow(const Image& image, int height, int width, PillowFilter filter, PillowOrder order) {
  check(image, height, width);
  if (height == image.height && width == image.width) return image;
  if (filter == PillowFilter::nearest) return resize_nearest(image, height, width);
  const bool alpha = image.channels == 2 || image.channels == 4;
  Image source = image;
  if (alpha) change_colours(source, times_alpha);
  // Found by trying Pillow 13.0.0 on 12,000 pairs of sizes; the change is its pull request 9549.
  const bool columns_first =
      order == PillowOrder::by_size && height < image.height && image.height - height > 2 * (image.width - width);
  Image out = columns_first ? resize_rows(resize_columns(source, height, filter), width, filter)
                            : resize_columns(resize_rows(source, width, filter), height, filter);
  if (alpha) change_colours(out, over_alpha);
  return out;
}

} // namespace eg::data
