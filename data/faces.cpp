// Generated faces: attributes that are drawn, in the manner of CelebA.

#include "data/faces.h"

#include "core/random.h"
#include "data/decode.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace eg::data {

namespace {

/// Attributes in the order of their names, and how often each is true.
enum Attribute : std::size_t {
  bangs,
  big_nose,
  blond,
  bushy_brows,
  glasses,
  open_mouth,
  mustache,
  pale,
  smiling,
  hat,
  lipstick,
  necktie,
  attribute_count
};
constexpr std::array<const char*, attribute_count> names{
    "Bangs",    "Big_Nose",  "Blond_Hair", "Bushy_Eyebrows", "Eyeglasses",       "Mouth_Slightly_Open",
    "Mustache", "Pale_Skin", "Smiling",    "Wearing_Hat",    "Wearing_Lipstick", "Wearing_Necktie"};
constexpr std::array<double, attribute_count> shares{0.4, 0.35, 0.4, 0.35, 0.35, 0.4, 0.25, 0.35, 0.5, 0.25, 0.35, 0.3};

using Color = std::array<double, 3>;

Color mixed(const Color& a, const Color& b, double share) {
  Color c{};
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = a[i] + share * (b[i] - a[i]);
  return c;
}

/// Everything that is drawn of one face; lengths in half-sides of the image.
struct Face {
  std::array<bool, attribute_count> has{};
  Color above, below, skin, hair, shirt, cloth, iris;
  double x, y, width, height; ///< middle and half-axes of the oval

  explicit Face(RandomStream& random) {
    const auto between = [&](const Color& a, const Color& b) { return mixed(a, b, random.uniform()); };
    const auto any = [&] {
      return Color{random.uniform(20.0, 235.0), random.uniform(20.0, 235.0), random.uniform(20.0, 235.0)};
    };
    for (std::size_t i = 0; i < has.size(); ++i) has[i] = random.uniform() < shares[i];
    above = any();
    below = any();
    skin = has[pale] ? between({250, 226, 205}, {238, 208, 186}) : between({214, 162, 124}, {120, 78, 52});
    hair = has[blond] ? between({240, 214, 120}, {206, 168, 80}) : between({70, 44, 26}, {22, 18, 18});
    shirt = any();
    cloth = any();
    iris = between({50, 90, 150}, {70, 45, 20});
    x = random.uniform(-0.08, 0.08);
    y = random.uniform(-0.06, 0.06);
    width = random.uniform(0.46, 0.56);
    height = random.uniform(0.6, 0.7);
  }
};

bool in_oval(double x, double y, double half_width, double half_height) {
  const double u = x / half_width, v = y / half_height;
  return u * u + v * v < 1.0;
}

/// Brows, eyes and glasses; x and y in half-axes of the oval.
bool draw_eyes(const Face& face, double x, double y, Color& color) {
  const double aside = std::abs(x) - 0.42;
  if (face.has[glasses]) {
    const bool frame = in_oval(aside, y + 0.12, 0.33, 0.24) && !in_oval(aside, y + 0.12, 0.23, 0.15);
    if (frame || (std::abs(x) < 0.12 && std::abs(y + 0.14) < 0.04)) {
      color = {18, 18, 24};
      return true;
    }
  }
  if (std::abs(aside) < 0.2 && std::abs(y + 0.36 + 0.1 * aside) < (face.has[bushy_brows] ? 0.075 : 0.025)) {
    color = mixed(face.hair, {0, 0, 0}, 0.35);
    return true;
  }
  if (!in_oval(aside, y + 0.12, 0.17, 0.1)) return false;
  color = in_oval(aside, y + 0.12, 0.075, 0.1) ? face.iris : Color{245, 245, 245};
  return true;
}

/// Mouth, moustache and nose.
bool draw_mouth_and_nose(const Face& face, double x, double y, Color& color) {
  const double bend = (face.has[smiling] ? -0.9 : 0.25) * x * x, lip = y - 0.56 - bend;
  if (std::abs(x) < (face.has[smiling] ? 0.4 : 0.3)) {
    if (face.has[open_mouth] && std::abs(lip) < 0.06) {
      color = {70, 15, 20};
      return true;
    }
    if (std::abs(lip) < (face.has[open_mouth] ? 0.12 : 0.06)) {
      color = face.has[lipstick] ? Color{200, 20, 50} : mixed(face.skin, {150, 60, 60}, 0.5);
      return true;
    }
  }
  if (face.has[mustache] && std::abs(x) < 0.38 && std::abs(y - 0.36 - 0.25 * x * x) < 0.07) {
    color = face.hair;
    return true;
  }
  const double half = face.has[big_nose] ? 0.19 : 0.08;
  if (!in_oval(x, y - 0.16, half, 0.14) && !(std::abs(x) < 0.4 * half && y > -0.15 && y < 0.16)) return false;
  color = mixed(face.skin, {60, 20, 10}, 0.22);
  return true;
}

/// The colour at a point of the image, -1 to 1 along both axes, y downwards.
Color color_at(const Face& face, double px, double py) {
  const double x = (px - face.x) / face.width, y = (py - face.y) / face.height;
  Color color{};
  const bool brim = y > -0.72 && y < -0.54 && std::abs(x) < 1.35, crown = y <= -0.6 && in_oval(x, y + 0.6, 1.0, 0.75);
  if (face.has[hat] && (brim || crown)) return mixed(face.cloth, {0, 0, 0}, brim ? 0.3 : 0.0);
  if (in_oval(x, y, 1.0, 1.0)) {
    if (y < (face.has[bangs] ? -0.48 : -0.74)) return face.hair;
    if (draw_eyes(face, x, y, color) || draw_mouth_and_nose(face, x, y, color)) return color;
    return mixed(face.skin, {0, 0, 0}, 0.12 * std::abs(x));
  }
  if (in_oval(x, y + 0.12, 1.22, 1.2) && y < 0.45) return face.hair;
  if (std::abs(x) < 0.4 && y > 0.0 && y < 1.15) return mixed(face.skin, {0, 0, 0}, 0.25);
  if (!in_oval(x, y - 2.0, 1.75, 0.95)) return mixed(face.above, face.below, 0.5 * (py + 1.0));
  return face.has[necktie] && std::abs(x) < 0.1 + 0.12 * (y - 1.0) ? face.cloth : face.shirt;
}

/// Mean of 3 x 3 points of every pixel, with a little noise.
void draw(const Face& face, RandomStream& random, std::int64_t side, std::uint8_t* planes) {
  constexpr int samples = 3;
  const double noise = random.uniform(0.0, 8.0), scale = 2.0 / static_cast<double>(side);
  for (std::int64_t row = 0; row < side; ++row)
    for (std::int64_t column = 0; column < side; ++column) {
      Color sum{};
      for (int s = 0; s < samples * samples; ++s) {
        const double px = (static_cast<double>(column) + (s % samples + 0.5) / samples) * scale - 1.0;
        const double py = (static_cast<double>(row) + (s / samples + 0.5) / samples) * scale - 1.0;
        const Color color = color_at(face, px, py);
        for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += color[c];
      }
      for (std::size_t c = 0; c < sum.size(); ++c) {
        const double value = sum[c] / (samples * samples) + noise * random.uniform(-1.0, 1.0);
        planes[(static_cast<std::int64_t>(c) * side + row) * side + column] =
            static_cast<std::uint8_t>(std::clamp(std::floor(value + 0.5), 0.0, 255.0));
      }
    }
}

} // namespace

ImageDataset generate_faces(std::int64_t count, Split split, std::uint64_t seed, std::int64_t side, StopFlag stop) {
  require_generated("faces", count, side);
  const auto image_size = static_cast<std::size_t>(3 * side * side);
  Bytes pixels(static_cast<std::size_t>(count) * image_size);
  Bytes attributes(static_cast<std::size_t>(count) * attribute_count);
  const RandomKey key = RandomKey{seed, 0x66616365 /* "face" */}.fold(split == Split::train ? 1 : 2);
  decode_each(static_cast<std::size_t>(count), 32, stop, [&](std::size_t i) {
    RandomStream random(key.fold(i));
    const Face face(random);
    for (std::size_t a = 0; a < attribute_count; ++a) attributes[i * attribute_count + a] = face.has[a] ? 1 : 0;
    draw(face, random, side, pixels.data() + i * image_size);
  });
  return ImageDataset::with_attributes("faces", 3, side, side, {names.begin(), names.end()}, std::move(pixels),
                                       std::move(attributes));
}

} // namespace eg::data
