// Image folders: one folder a class.

#include "data/folder.h"
#include "core/error.h"
#include "data/dataset.h"
#include "data/decode.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <utility>

namespace eg::data {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& folder, bool folders) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(".")) continue;
    std::error_code unknown; // a dangling link is none of both, without an error
    const fs::file_status what = it->status(unknown);
    if (unknown && what.type() == fs::file_type::none)
      throw FileError(fmt::format("{}: cannot look at it: {}", it->path().string(), unknown.message()));
    if (what.type() == (folders ? fs::file_type::directory : fs::file_type::regular)) names.push_back(name);
  }
  if (error) throw FileError(fmt::format("{}: cannot list the folder: {}", folder, error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

bool is_picture(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return name.ends_with(".png") || name.ends_with(".jpg") || name.ends_with(".jpeg");
}

} // namespace

PictureList list_pictures(const std::string& folder) {
  if (!folder_exists(folder)) throw FileError(folder + ": no such folder");
  PictureList list;
  list.class_names = names_in(folder, true);
  for (std::size_t c = 0; c < list.class_names.size(); ++c) {
    const std::string inner = join_path(folder, list.class_names[c]);
    std::int64_t place = 0;
    for (const std::string& name : names_in(inner, false))
      if (is_picture(name)) list.pictures.push_back({join_path(inner, name), static_cast<std::int32_t>(c), place++});
  }
  if (list.pictures.empty())
    throw FileError(folder + ": no PNG or JPEG images in class folders (expected FOLDER/CLASS/*.png or *.jpg)");
  return list;
}

void limit_pictures(PictureList& list, std::int64_t limit) {
  if (limit <= 0 || static_cast<std::size_t>(limit) >= list.pictures.size()) return;
  const auto by_place = [](const Picture& a, const Picture& b) {
    return std::pair(a.place, a.label) < std::pair(b.place, b.label);
  };
  std::sort(list.pictures.begin(), list.pictures.end(), by_place);
  list.pictures.resize(static_cast<std::size_t>(limit));
  std::sort(list.pictures.begin(), list.pictures.end(), [](const Picture& a, const Picture& b) {
    return std::pair(a.label, a.place) < std::pair(b.label, b.place);
  });
}

ImageDataset load_pictures(const PictureList& list, const std::string& name, std::int64_t size, StopFlag stop) {
  if (size < 0 || size > 4096) throw ValueError(fmt::format("image folder: size is {}; 1 to 4096, or 0", size));
  auto height = static_cast<int>(size);
  auto width = static_cast<int>(size);
  if (size == 0) {
    const Image first = read_image(list.pictures[0].path, 3);
    height = first.height;
    width = first.width;
  }
  const std::size_t plane = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  constexpr std::uint64_t most = default_byte_limit;
  if (list.pictures.size() > most / (3 * plane))
    throw FileError(fmt::format("{}: {} images of {}x{} pixels need more than {} bytes; give a smaller size", name,
                                list.pictures.size(), width, height, most));
  Bytes pixels(list.pictures.size() * 3 * plane);
  std::vector<std::int32_t> labels(list.pictures.size());
  decode_each(list.pictures.size(), 8, stop, [&](std::size_t i) {
    const Picture& picture = list.pictures[i];
    Image image = read_image(picture.path, 3);
    if (size != 0) image = resize(image, height, width);
    if (image.height != height || image.width != width)
      throw FileError(fmt::format("{}: {}x{} pixels, the first image has {}x{}; give a size to resize them to",
                                  picture.path, image.width, image.height, width, height));
    transpose_bytes(image.pixels, plane, 3, pixels.data() + i * 3 * plane);
    labels[i] = picture.label;
  });
  return {name, 3, height, width, list.class_names, std::move(pixels), std::move(labels)};
}

ImageDataset read_image_folder(const std::string& folder, const std::string& name, std::int64_t size,
                               std::int64_t limit, StopFlag stop) {
  PictureList list = list_pictures(folder);
  limit_pictures(list, limit);
  return load_pictures(list, name, size, stop);
}

} // namespace eg::data
