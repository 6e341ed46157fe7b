#pragma once
// Decodes and encodes PNG and JPEG images. Decoding is locked down: only these two formats, structure and checksums
// verified before the decoder sees the file, sizes capped before anything is allocated.

#include "core/base/bytes.h"

#include <cstdint>
#include <string>
#include <vector>

namespace eg::data {

/// 8-bit pixels, row by row, channels of a pixel side by side (1 grey, 2 grey+alpha, 3 RGB, 4 RGBA).
struct Image {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<std::uint8_t> pixels;

  std::uint8_t at(int row, int column, int channel) const {
    return pixels[(static_cast<std::size_t>(row) * static_cast<std::size_t>(width) + static_cast<std::size_t>(column)) *
                      static_cast<std::size_t>(channels) +
                  static_cast<std::size_t>(channel)];
  }
};

/// What decoding refuses beyond.
struct ImageLimits {
  int side = 16384;                    ///< pixels in a row or a column
  std::int64_t pixels = 64'000'000;    ///< pixels in all
  std::int64_t file_bytes = 256 << 20; ///< encoded size
};

enum class ImageFormat : std::uint8_t { unknown, png, jpeg };
/// By magic bytes.
ImageFormat image_format(ByteView bytes);

/// Decodes PNG (any bit depth, reduced to 8 bits; palettes expanded) or baseline and progressive JPEG. `channels` 0
/// keeps the file's own, 1 to 4 converts. Throws FileError that begins with `source` for another format, a truncated or
/// corrupt file (PNG: every chunk's CRC and order, the size of the unpacked data; JPEG: segment lengths and the end
/// marker), or sizes beyond `limits`.
Image decode_image(ByteView bytes, const std::string& source, int channels = 0, const ImageLimits& limits = {});
/// Reads and decodes a file.
Image read_image(const std::string& path, int channels = 0, const ImageLimits& limits = {});

/// PNG file bytes. Throws ValueError for an empty image, channels outside 1 to 4, or pixels of another size.
Bytes encode_png(const Image& image);

/// Resizes by area: each result pixel is the exact mean of the rectangle that it covers when shrinking, and bilinear
/// (half-pixel centres) when growing, each axis by its own rule. Throws ValueError for sizes below 1.
Image resize(const Image& image, int height, int width);

/// Pillow's filters; the values are its codes (Image.Resampling), as in preprocessor_config.json.
enum class PillowFilter : std::uint8_t { nearest = 0, lanczos = 1, bilinear = 2, bicubic = 3, box = 4, hamming = 5 };
/// Which axis Pillow resizes first; each pass rounds, so some bytes differ by 1.
enum class PillowOrder : std::uint8_t {
  by_size,    ///< since 13.0: columns when the height shrinks, and by more than twice as many pixels as the width
  rows_first, ///< up to 12
};
/// Resizes to the very bytes of Pillow's Image.resize (8-bit modes L, LA, RGB, RGBA). All but nearest: weights of the
/// filter (triangle; cubic with a = -0.5; sinc in three lobes; box; Hamming's window on the sinc), stretched when
/// shrinking, as 22-bit fixed-point numbers; an axis at a time, each pass rounded and clipped to 8 bits; colours are
/// multiplied by their alpha before and divided by it after. Throws ValueError for sizes below 1 and images whose
/// pixels do not fill them.
Image resize_pillow(const Image& image, int height, int width, PillowFilter filter,
                    PillowOrder order = PillowOrder::by_size);

} // namespace eg::data
