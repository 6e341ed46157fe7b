#pragma once
// Applies random augmentations to a training image, as a loader does.

#include "core/random.h"
#include "data/planes.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace eg::data {

/// The changes of RandAugment, in the order of its paper.
enum class AugmentOp : std::uint8_t {
  identity,
  auto_contrast,
  equalize,
  rotate,
  solarize,
  color,
  posterize,
  contrast,
  brightness,
  sharpness,
  shear_x,
  shear_y,
  translate_x,
  translate_y
};
inline constexpr int augment_ops = 14;
std::string_view name_of(AugmentOp op);

/// One change of strength `level` in [0, 1], to the other side where it has two and `negative` is set: turns of 30
/// degrees at level 1, shears by 0.3, moves by 150/331 of the side, colour, contrast, brightness and sharpness times
/// 1 +- 0.9, 4 bits kept of 8, bytes above 0 inverted.
void apply(AugmentOp op, Planes& picture, double level, bool negative);

/// Random changes to training images, in this order.
struct Augmentation {
  std::int64_t crop_padding = 0; ///< pad by so many black pixels on each side, then crop at a random place
  bool horizontal_flip = false;  ///< mirror every second image, at random
  /// A rectangle of this share of the area up to all of it, its sides 3:4 to 4:3, resized to the image's size; 0: none.
  /// Szegedy et al., CVPR 2015, section 6, drawn as torchvision's RandomResizedCrop does.
  double crop_area = 0.0;
  /// RandAugment (Cubuk et al., 2020): so many changes drawn from AugmentOp, each of strength magnitude / 30, with a
  /// random side. Magnitude 0: none.
  double randaugment = 0.0;
  int randaugment_ops = 2;
  /// Probability with which a rectangle of 2 to 33 % of the area, its sides 3:10 to 10:3, becomes noise: random erasing
  /// (Zhong et al., 2017, RE-R).
  double erasing = 0.0;

  /// Whether any is asked for.
  bool any() const {
    return crop_padding > 0 || horizontal_flip || crop_area > 0.0 || randaugment > 0.0 || erasing > 0.0;
  }
};

/// Throws ValueError, beginning with `who`, when a field is out of range for images of that size.
void check(const Augmentation& augmentation, std::int64_t height, std::int64_t width, const std::string& who);

/// Changes one image; what is drawn depends on the stream alone.
void augment(const Augmentation& augmentation, Planes& picture, RandomStream& random);

} // namespace eg::data
