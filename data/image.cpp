#include "data/image.h"

#include "core/base/error.h"
#include "data/image_checks.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg::data {

ImageFormat image_format(ByteView b) {
  static constexpr std::uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  if (b.size() >= sizeof png && std::equal(std::begin(png), std::end(png), b.begin())) return ImageFormat::png;
  if (b.size() >= 3 && b[0] == 0xFF && b[1] == 0xD8 && b[2] == 0xFF) return ImageFormat::jpeg;
  return ImageFormat::unknown;
}

void check_limits(const ImageHeader& header, const std::string& source, const ImageLimits& limits) {
  const bool long_side = header.width > limits.side || header.height > limits.side;
  if (long_side || header.width * header.height > limits.pixels)
    throw FileError(fmt::format("{}: {}x{} pixels, more than the {} a side and {} in all that are read", source,
                                header.width, header.height, limits.side, limits.pixels));
}

Image read_image(const std::string& path, int channels, const ImageLimits& limits) {
  return decode_image(read_file(path, static_cast<std::uint64_t>(limits.file_bytes)), path, channels, limits);
}

namespace {

/// Result pixel i of an axis is the weighted sum of source pixels [first, first + weights.size()).
struct Taps {
  int first = 0;
  std::vector<double> weights;
};

/// Shrinking: the overlap of the source pixels with [i, i+1) * from / to, normalised.
Taps area_taps(int i, int from, int to) {
  const double scale = static_cast<double>(from) / to;
  const double begin = i * scale;
  const double end = std::min((i + 1) * scale, static_cast<double>(from));
  Taps taps;
  taps.first = static_cast<int>(begin);
  for (int p = taps.first; p < from && p < end; ++p) {
    const double overlap = std::min(end, p + 1.0) - std::max(begin, static_cast<double>(p));
    taps.weights.push_back(overlap / (end - begin));
  }
  return taps;
}

/// Growing: linear between the two nearest pixel centres.
Taps linear_taps(int i, int from, int to) {
  const double centre = std::clamp((i + 0.5) * from / to - 0.5, 0.0, from - 1.0);
  Taps taps;
  taps.first = static_cast<int>(centre);
  const double part = centre - taps.first;
  taps.weights.push_back(1.0 - part);
  if (taps.first + 1 < from) taps.weights.push_back(part);
  return taps;
}

std::vector<Taps> axis_taps(int from, int to) {
  std::vector<Taps> taps;
  for (int i = 0; i < to; ++i) taps.push_back(to < from ? area_taps(i, from, to) : linear_taps(i, from, to));
  return taps;
}

} // namespace

Image resize(const Image& image, int height, int width) {
  if (height < 1 || width < 1 || image.height < 1 || image.width < 1)
    throw ValueError(fmt::format("resize: from {}x{} to {}x{} pixels", image.height, image.width, height, width));
  if (height == image.height && width == image.width) return image;
  const auto channels = static_cast<std::size_t>(image.channels);
  const auto source_row = static_cast<std::size_t>(image.width) * channels;
  const auto row = static_cast<std::size_t>(width) * channels;
  const std::vector<Taps> columns = axis_taps(image.width, width);
  std::vector<double> wide(static_cast<std::size_t>(image.height) * row);
  for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y)
    for (std::size_t x = 0; x < columns.size(); ++x)
      for (std::size_t c = 0; c < channels; ++c) {
        double sum = 0.0;
        const std::uint8_t* from =
            image.pixels.data() + y * source_row + static_cast<std::size_t>(columns[x].first) * channels + c;
        for (std::size_t k = 0; k < columns[x].weights.size(); ++k) sum += columns[x].weights[k] * from[k * channels];
        wide[y * row + x * channels + c] = sum;
      }
  Image out{height, width, image.channels, std::vector<std::uint8_t>(static_cast<std::size_t>(height) * row)};
  const std::vector<Taps> rows = axis_taps(image.height, height);
  for (std::size_t y = 0; y < rows.size(); ++y)
    for (std::size_t x = 0; x < row; ++x) {
      double sum = 0.0;
      const double* from = wide.data() + static_cast<std::size_t>(rows[y].first) * row + x;
      for (std::size_t k = 0; k < rows[y].weights.size(); ++k) sum += rows[y].weights[k] * from[k * row];
      out.pixels[y * row + x] = static_cast<std::uint8_t>(std::clamp(std::floor(sum + 0.5), 0.0, 255.0));
    }
  return out;
}

} // namespace eg::data
