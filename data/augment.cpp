#include "data/augment.h"

#include "core/base/error.h"
#include "core/exact/elementary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace eg::data {
namespace {

constexpr double most_magnitude = 30.0;

/// Whole numbers in [0, bound].
std::int64_t up_to(RandomStream& random, std::int64_t bound) {
  return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(bound) + 1));
}

/// Crops the image's own size at (top, left), which may be outside, and mirrors it if asked.
void shift_and_mirror(Planes& picture, std::int64_t top, std::int64_t left, bool mirror) {
  const Planes from = picture;
  for (std::int64_t c = 0; c < from.channels; ++c)
    for (std::int64_t row = 0; row < from.height; ++row)
      for (std::int64_t column = 0; column < from.width; ++column) {
        const std::int64_t y = row + top, x = (mirror ? from.width - 1 - column : column) + left;
        const bool within = y >= 0 && y < from.height && x >= 0 && x < from.width;
        picture.plane(c)[static_cast<std::size_t>(row * from.width + column)] =
            within ? from.plane(c)[static_cast<std::size_t>(y * from.width + x)] : std::uint8_t{0};
      }
}

struct Rectangle {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

/// A rectangle of a share of the area in [least, most] and sides in a ratio in [1 / ratio, ratio], within the image;
/// empty when ten draws do not fit.
Rectangle draw_rectangle(const Planes& picture, double least, double most, double ratio, RandomStream& random) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = static_cast<double>(picture.plane_size()) * random.uniform(least, most);
    const double aspect = exact::exp(random.uniform(-exact::log(ratio), exact::log(ratio)));
    const auto height = static_cast<std::int64_t>(std::llround(std::sqrt(area / aspect)));
    const auto width = static_cast<std::int64_t>(std::llround(std::sqrt(area * aspect)));
    if (height < 1 || width < 1 || height > picture.height || width > picture.width) continue;
    const std::int64_t top = up_to(random, picture.height - height), left = up_to(random, picture.width - width);
    return {top, left, height, width};
  }
  return {};
}

/// The largest rectangle in the middle whose sides are not longer than 4:3.
Rectangle middle_of(const Planes& picture) {
  const std::int64_t height = std::max<std::int64_t>(std::min(picture.height, picture.width * 4 / 3), 1);
  const std::int64_t width = std::max<std::int64_t>(std::min(picture.width, picture.height * 4 / 3), 1);
  return {(picture.height - height) / 2, (picture.width - width) / 2, height, width};
}

void crop_by_area(Planes& picture, double least, RandomStream& random) {
  Rectangle cut = draw_rectangle(picture, least, 1.0, 4.0 / 3.0, random);
  if (cut.height == 0) cut = middle_of(picture);
  resized_crop(picture, cut.top, cut.left, cut.height, cut.width);
}

void erase(Planes& picture, RandomStream& random) {
  const Rectangle hole = draw_rectangle(picture, 0.02, 1.0 / 3.0, 10.0 / 3.0, random);
  for (std::int64_t c = 0; c < picture.channels; ++c)
    for (std::int64_t y = hole.top; y < hole.top + hole.height; ++y)
      for (std::int64_t x = hole.left; x < hole.left + hole.width; ++x)
        picture.plane(c)[static_cast<std::size_t>(y * picture.width + x)] =
            static_cast<std::uint8_t>(random.next_u32() & 0xFFU);
}

} // namespace

std::string_view name_of(AugmentOp op) {
  constexpr std::string_view names[augment_ops] = {
      "identity", "auto_contrast", "equalize",  "rotate",  "solarize", "color",       "posterize",
      "contrast", "brightness",    "sharpness", "shear_x", "shear_y",  "translate_x", "translate_y"};
  return names[static_cast<std::size_t>(op)];
}

void apply(AugmentOp op, Planes& picture, double level, bool negative) {
  const double side = negative ? -level : level;
  const double factor = 1.0 + 0.9 * side;
  const auto moved = [&](std::int64_t extent) {
    return static_cast<std::int64_t>(side * 150.0 / 331.0 * static_cast<double>(extent));
  };
  switch (op) {
  case AugmentOp::identity:
    return;
  case AugmentOp::auto_contrast:
    return auto_contrast(picture);
  case AugmentOp::equalize:
    return equalize(picture);
  case AugmentOp::rotate:
    return rotate(picture, 30.0 * side);
  case AugmentOp::solarize:
    return solarize(picture, static_cast<int>(std::lround(255.0 * (1.0 - level))));
  case AugmentOp::color:
    return color(picture, factor);
  case AugmentOp::posterize:
    return posterize(picture, 8 - static_cast<int>(std::lround(4.0 * level)));
  case AugmentOp::contrast:
    return contrast(picture, factor);
  case AugmentOp::brightness:
    return brightness(picture, factor);
  case AugmentOp::sharpness:
    return sharpness(picture, factor);
  case AugmentOp::shear_x:
    return shear_x(picture, 0.3 * side);
  case AugmentOp::shear_y:
    return shear_y(picture, 0.3 * side);
  case AugmentOp::translate_x:
    return translate_x(picture, moved(picture.width));
  case AugmentOp::translate_y:
    return translate_y(picture, moved(picture.height));
  }
}

void check(const Augmentation& a, std::int64_t height, std::int64_t width, const std::string& who) {
  const auto need = [&](bool holds, const std::string& what) {
    if (!holds) throw ValueError(who + ": " + what);
  };
  const std::int64_t most = std::min(height, width);
  need(a.crop_padding >= 0 && a.crop_padding <= most,
       fmt::format("crop_padding is {}; 0 to {} are possible", a.crop_padding, most));
  need(a.crop_area >= 0.0 && a.crop_area <= 1.0, fmt::format("crop_area is {}; 0 to 1 are possible", a.crop_area));
  need(a.randaugment >= 0.0 && a.randaugment <= most_magnitude,
       fmt::format("randaugment is {}; magnitudes from 0 to {} are possible", a.randaugment, most_magnitude));
  need(a.randaugment_ops >= 1 && a.randaugment_ops <= augment_ops,
       fmt::format("randaugment_ops is {}; 1 to {} are possible", a.randaugment_ops, augment_ops));
  need(a.erasing >= 0.0 && a.erasing <= 1.0, fmt::format("erasing is {}; a probability is 0 to 1", a.erasing));
}

void augment(const Augmentation& a, Planes& picture, RandomStream& random) {
  const auto places = static_cast<std::uint64_t>(2 * a.crop_padding + 1);
  const auto top = static_cast<std::int64_t>(random.below(places)) - a.crop_padding;
  const auto left = static_cast<std::int64_t>(random.below(places)) - a.crop_padding;
  const bool mirror = a.horizontal_flip && random.below(2) == 1;
  if (top != 0 || left != 0 || mirror) shift_and_mirror(picture, top, left, mirror);
  if (a.crop_area > 0.0) crop_by_area(picture, a.crop_area, random);
  for (int i = 0; a.randaugment > 0.0 && i < a.randaugment_ops; ++i) {
    const auto op = static_cast<AugmentOp>(random.below(augment_ops));
    const bool negative = random.below(2) == 1;
    apply(op, picture, a.randaugment / most_magnitude, negative);
  }
  if (a.erasing > 0.0 && random.uniform() < a.erasing) erase(picture, random);
}

} // namespace eg::data
