#pragma once
// Stores one image channel after channel, and applies the operations of AutoAugment and RandAugment to it. Results
// equal Pillow's functions byte for byte, except that translations are of whole pixels. Pixels from outside are black.

#include "core/base/bytes.h"

#include <cstdint>
#include <span>
#include <vector>

namespace eg::data {

/// 8-bit pixels [channels, height, width]: 1 channel is grey, 3 are red, green and blue.
struct Planes {
  std::int64_t channels = 0, height = 0, width = 0;
  std::vector<std::uint8_t> bytes;

  std::int64_t plane_size() const { return height * width; }
  std::span<std::uint8_t> plane(std::int64_t c) {
    return std::span(bytes).subspan(static_cast<std::size_t>(c * plane_size()), static_cast<std::size_t>(plane_size()));
  }
  std::span<const std::uint8_t> plane(std::int64_t c) const { return const_cast<Planes*>(this)->plane(c); }
};

/// The pixel at (x, y) comes from (x + shear y, y), or (x, y + shear x); nearest.
void shear_x(Planes& picture, double shear);
void shear_y(Planes& picture, double shear);
/// The pixel at (x, y) comes from (x + pixels, y), or (x, y + pixels).
void translate_x(Planes& picture, std::int64_t pixels);
void translate_y(Planes& picture, std::int64_t pixels);
/// About the centre, counter-clockwise; nearest.
void rotate(Planes& picture, double degrees);

/// d + factor (x - d), cut to [0, 255], with d: black; the mean of the image's grey; each pixel's grey; the image
/// smoothed by (1 1 1, 1 5 1, 1 1 1) / 13, its border kept. Grey is 0.299 R + 0.587 G + 0.114 B; of one channel,
/// itself.
void brightness(Planes& picture, double factor);
void contrast(Planes& picture, double factor);
void color(Planes& picture, double factor);
void sharpness(Planes& picture, double factor);

/// Keeps the upper bits of every byte, 0 to 8.
void posterize(Planes& picture, int bits);
/// 255 - x for bytes of at least `threshold`.
void solarize(Planes& picture, int threshold);
/// Stretches every channel to [0, 255].
void auto_contrast(Planes& picture);
/// Makes every channel's histogram even.
void equalize(Planes& picture);

/// The rectangle [top, top + height) x [left, left + width), resized (Pillow's bilinear) to the image's size. Throws
/// ValueError when it is empty or not within the image.
void resized_crop(Planes& picture, std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width);

} // namespace eg::data
