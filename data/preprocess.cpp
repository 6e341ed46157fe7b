#include "data/preprocess.h"

#include "core/base/error.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace eg::data {
namespace {

constexpr std::int64_t max_pixels = ImageLimits{}.pixels;

[[noreturn]] void fail(const std::string& reason) { throw ValueError("preprocess: " + reason); }

std::size_t places(ImageSize size) {
  return static_cast<std::size_t>(size.height) * static_cast<std::size_t>(size.width);
}

/// Grey in every channel; without alpha.
Image to_rgb(const Image& image) {
  if (image.channels == 3) return image;
  const auto channels = static_cast<std::size_t>(image.channels);
  const bool grey = channels < 3;
  Image out{image.height, image.width, 3, {}};
  out.pixels.reserve(image.pixels.size() / channels * 3);
  for (std::size_t at = 0; at < image.pixels.size(); at += channels)
    for (std::size_t c = 0; c < 3; ++c) out.pixels.push_back(image.pixels[at + (grey ? 0 : c)]);
  return out;
}

/// Python's division rounds down; rounding half of an odd number up is the same with the sign turned.
int half_down(int difference) { return (difference - (difference < 0 && difference % 2 != 0 ? 1 : 0)) / 2; }

/// Half of it, rounded to even, as Python's round.
int half_even(int difference) {
  const int down = half_down(difference);
  return down + (difference % 2 != 0 && down % 2 != 0 ? 1 : 0);
}

/// The middle of the image; where it is smaller it is in the middle of zeros.
Image crop(const Image& image, ImageSize size, bool to_even) {
  const auto half = to_even ? half_even : half_down;
  const int top = half(image.height - size.height);
  const int left = half(image.width - size.width);
  const auto channels = static_cast<std::size_t>(image.channels);
  Image out{size.height, size.width, image.channels, std::vector<std::uint8_t>(places(size) * channels)};
  const int first = std::max(0, -left);
  const int last = std::min(size.width, image.width - left);
  for (int y = std::max(0, -top); y < std::min(size.height, image.height - top); ++y) {
    const auto row = [&](const Image& of, int r, int x) {
      return (static_cast<std::size_t>(r) * static_cast<std::size_t>(of.width) + static_cast<std::size_t>(x)) *
             channels;
    };
    const auto from = image.pixels.begin() + static_cast<std::ptrdiff_t>(row(image, y + top, first + left));
    const auto count = static_cast<std::ptrdiff_t>(last - first) * static_cast<std::ptrdiff_t>(channels);
    std::copy(from, from + count, out.pixels.begin() + static_cast<std::ptrdiff_t>(row(out, y, first)));
  }
  return out;
}

float of_channel(const std::vector<double>& values, std::size_t channel) {
  return static_cast<float>(values[values.size() == 1 ? 0 : channel]);
}

void check(const Image& image, const Preprocessing& steps) {
  if (image.height < 1 || image.width < 1 || image.channels < 1 || image.channels > 4 ||
      image.pixels.size() != places({image.height, image.width}) * static_cast<std::size_t>(image.channels))
    fail(fmt::format("{}x{} pixels with {} channels are not {} bytes", image.height, image.width, image.channels,
                     image.pixels.size()));
  if (!steps.convert_rgb && image.channels != 1 && image.channels != 3)
    fail(fmt::format("the image has {} channels, not 1 or 3; decode it as RGB", image.channels));
  const std::size_t channels = steps.convert_rgb ? 3 : static_cast<std::size_t>(image.channels);
  if (!steps.normalize) return;
  for (const auto* values : {&steps.mean, &steps.deviation})
    if (values->size() != 1 && values->size() != channels)
      fail(fmt::format("image_{} has {} numbers, the image {} channels", values == &steps.mean ? "mean" : "std",
                       values->size(), channels));
}

void check_size(const char* what, ImageSize size) {
  if (size.height < 1 || size.width < 1 || std::int64_t{size.height} * size.width > max_pixels)
    fail(fmt::format("{} of {}x{} pixels; at least 1x1 and at most {} pixels are made", what, size.height, size.width,
                     max_pixels));
}

} // namespace

ImageSize Preprocessing::resized(ImageSize image) const {
  if (!resize) return image;
  if (!shortest_edge) return size;
  // As Python computes it: the product exactly, the quotient rounded to double, then cut.
  const int edge = *shortest_edge;
  const auto longer = [&](int of, int to) {
    const double length = static_cast<double>(std::int64_t{edge} * of) / static_cast<double>(to);
    return static_cast<int>(std::min(length, 2147483647.0));
  };
  if (image.width <= image.height) return {longer(image.height, image.width), edge};
  return {edge, longer(image.width, image.height)};
}

ImageSize Preprocessing::result(ImageSize image) const { return center_crop ? crop_size : resized(image); }

Tensor preprocess(const Image& image, const Preprocessing& steps) {
  check(image, steps);
  const ImageSize resized = steps.resized({image.height, image.width});
  check_size("a resized image", resized);
  if (steps.center_crop) check_size("a crop", steps.crop_size);
  Image now = steps.convert_rgb ? to_rgb(image) : image;
  if (steps.resize) now = resize_pillow(now, resized.height, resized.width, steps.resample, steps.order);
  if (steps.center_crop) now = crop(now, steps.crop_size, steps.crop_to_even);
  const auto channels = static_cast<std::size_t>(now.channels);
  const std::size_t pixels = places({now.height, now.width});
  Tensor out = Tensor::empty({now.channels, now.height, now.width});
  float* to = out.mutable_data<float>("preprocess");
  for (std::size_t c = 0; c < channels; ++c) {
    std::array<float, 256> value;
    for (std::size_t level = 0; level < value.size(); ++level) {
      const auto pixel = static_cast<double>(level);
      value[level] = static_cast<float>(steps.rescale ? pixel * steps.rescale_factor : pixel);
      if (steps.normalize) value[level] = (value[level] - of_channel(steps.mean, c)) / of_channel(steps.deviation, c);
    }
    for (std::size_t i = 0; i < pixels; ++i) to[c * pixels + i] = value[now.pixels[i * channels + c]];
  }
  return out;
}

} // namespace eg::data
