// Resizing to Pillow's very bytes. Fixtures: Pillow 9.4.0, Image.resize; CRC-32 of the pixels. (Those of Pillow 13 are
// in data_preprocess_test.cpp.)

#include "data/image.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

using namespace eg;
using data::Image;
using data::PillowFilter;
using data::PillowOrder;

namespace {

/// Pixel i is bits 13 to 20 of a multiple of i; `harsh` ones are 0 or 255, so that cubic weights overshoot.
Image picture(int height, int width, int channels, bool harsh) {
  Image image{height, width, channels, {}};
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(height * width * channels); ++i) {
    const std::uint32_t bits = (i * 2654435761U + 12345U) >> 13;
    image.pixels.push_back(static_cast<std::uint8_t>(harsh ? ((bits >> 5 & 1U) != 0 ? 255U : 0U) : bits & 255U));
  }
  return image;
}

struct Case {
  int height, width, channels, to_height, to_width;
  bool harsh;
  std::uint32_t bilinear, bicubic;
};

} // namespace

TEST_CASE("resize_pillow gives Pillow's bytes") {
  const Case cases[] = {
      {7, 5, 1, 3, 4, false, 0x63e87965U, 0x2358f628U},       {7, 5, 3, 13, 11, false, 0x62c7564eU, 0x06f3a56dU},
      {32, 32, 3, 24, 24, false, 0x6210556bU, 0xef9437b4U},   {48, 64, 3, 16, 16, true, 0xa0ae7ddcU, 0xf9a6cef6U},
      {5, 9, 1, 5, 20, true, 0x3e876542U, 0x5407f70bU},       {33, 17, 3, 7, 17, false, 0xc8c680cdU, 0xb7f24219U},
      {16, 16, 4, 9, 25, false, 0xbb193e85U, 0x491e92cbU},    {16, 12, 2, 7, 5, true, 0xc21ed481U, 0x8a319b1aU},
      {1, 1, 3, 4, 3, false, 0xdcc7c8ccU, 0xdcc7c8ccU},       {96, 80, 3, 224, 224, true, 0xb4346f8bU, 0x2b461dc8U},
      {256, 200, 3, 31, 57, false, 0xfcd9e4fdU, 0x98db0fb9U}, {2, 3, 1, 1, 1, false, 0xd80241aaU, 0x4666d409U}};
  for (const Case& c : cases) {
    CAPTURE(c.height);
    CAPTURE(c.to_height);
    const Image image = picture(c.height, c.width, c.channels, c.harsh);
    CHECK(crc32(data::resize_pillow(image, c.to_height, c.to_width, PillowFilter::bilinear, PillowOrder::rows_first)
                    .pixels) == c.bilinear);
    CHECK(crc32(data::resize_pillow(image, c.to_height, c.to_width, PillowFilter::bicubic, PillowOrder::rows_first)
                    .pixels) == c.bicubic);
  }
}

TEST_CASE("resize_pillow pixel by pixel") {
  const Image small =
      data::resize_pillow(picture(7, 5, 1, false), 3, 4, PillowFilter::bicubic, PillowOrder::rows_first);
  CHECK(small.height == 3);
  CHECK(small.width == 4);
  CHECK(small.pixels == std::vector<std::uint8_t>{95, 112, 124, 166, 88, 114, 130, 155, 77, 120, 132, 148});
}

TEST_CASE("resize_pillow refuses what has no pixels") {
  const Image image = picture(4, 4, 3, false);
  CHECK_THROWS_AS(data::resize_pillow(image, 0, 4, PillowFilter::bilinear), ValueError);
  CHECK_THROWS_AS(data::resize_pillow({0, 4, 3, {}}, 2, 2, PillowFilter::bilinear), ValueError);
  CHECK_THROWS_AS(data::resize_pillow({4, 4, 3, {1, 2, 3}}, 2, 2, PillowFilter::bilinear), ValueError);
}
