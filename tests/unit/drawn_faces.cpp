#include "drawn_faces.h"

#include "core/base/bytes.h"
#include "data/image.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

namespace eg::test {
namespace {

using Color = std::array<int, 3>;
constexpr int width = 20, height = 26;

struct Look {
  bool blond, glasses, smiles;
  int tone; ///< of skin and background
};

/// An oval with hair above, eyes or a bar of glasses, and a mouth whose ends go up or not.
Color color_at(int x, int y, const Look& look) {
  const double u = (x - 9.5) / 7.0, v = (y - 14.0) / 10.0, inside = u * u + v * v;
  if (inside > 1.0) return {40 + look.tone, 90, 140 - look.tone};
  if (v < -0.45) return look.blond ? Color{230, 200, 90} : Color{50, 30, 20};
  if (y == 12 && (look.glasses ? x > 3 && x < 16 : x == 6 || x == 13)) return {15, 15, 20};
  const int mouth = look.smiles && (x < 7 || x > 12) ? 18 : 19;
  if (y == mouth && x > 5 && x < 14) return {150, 30, 40};
  return {210 + look.tone / 4, 160 + look.tone / 2, 130};
}

} // namespace

void write_faces(const std::string& folder, int count) {
  const std::filesystem::path root = std::filesystem::path(folder) / "celeba";
  std::filesystem::create_directories(root / "img_align_celeba");
  std::string list = fmt::format("{}\nBlond_Hair Eyeglasses Smiling\n", count), parts;
  for (int i = 0; i < count; ++i) {
    const Look look{i / 2 % 2 == 1, i / 3 % 2 == 1, i / 5 % 2 == 1, i * 37 % 50};
    data::Image image{height, width, 3, {}};
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        for (const int value : color_at(x, y, look)) image.pixels.push_back(static_cast<std::uint8_t>(value));
    const std::string name = fmt::format("{:06}.jpg", i + 1);
    write_file((root / "img_align_celeba" / name).string(), data::encode_png(image));
    const auto mark = [](bool yes) { return yes ? 1 : -1; };
    list += fmt::format("{} {} {} {}\n", name, mark(look.blond), mark(look.glasses), mark(look.smiles));
    parts += fmt::format("{} {}\n", name, i % 8 == 7 ? 1 : i % 4 == 3 ? 2 : 0);
  }
  write_file((root / "list_attr_celeba.txt").string(), std::string_view(list));
  write_file((root / "list_eval_partition.txt").string(), std::string_view(parts));
}

} // namespace eg::test
