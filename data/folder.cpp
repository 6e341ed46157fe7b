// Image folders: one folder a class.

#include "data/folder.h"
#include "core/error.h"
#include "data/dataset.h"
#include "data/decode.h"

#include <algorithm>
#include <array>
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

/// By its name; of kinds that nothing here decodes as well, so that they are refused, not passed over.
bool is_picture(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  constexpr std::array endings = {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff"};
  return std::any_of(endings.begin(), endings.end(), [&](const char* ending) { return name.ends_with(ending); });
}

/// Adds the pictures of a folder and of those inside it, relative to the first; hidden ones are left out.
void collect_pictures(const std::string& folder, const std::string& within, std::vector<std::string>& names) {
  constexpr std::ptrdiff_t deepest = 16;
  if (std::count(within.begin(), within.end(), '/') > deepest)
    throw FileError(fmt::format("{}: more than {} folders inside each other", folder, deepest));
  for (const std::string& name : names_in(folder, false))
    if (is_picture(name)) names.push_back(within + name);
  for (const std::string& name : names_in(folder, true)) {
    const std::string inner = within + name + '/';
    collect_pictures(join_path(folder, name), inner, names);
  }
}

} // namespace

PictureList list_pictures(const std::string& folder) {
  if (!folder_exists(folder)) throw FileError(folder + ": no such folder");
  PictureList list;
  list.folder = folder;
  list.class_names = names_in(folder, true);
  std::vector<std::string> empty;
  for (std::size_t c = 0; c < list.class_names.size(); ++c) {
    const std::string inner = join_path(folder, list.class_names[c]);
    std::vector<std::string> names;
    collect_pictures(inner, "", names);
    std::sort(names.begin(), names.end());
    std::int64_t place = 0;
    for (const std::string& name : names)
      list.pictures.push_back({join_path(inner, name), static_cast<std::int32_t>(c), place++});
    if (names.empty()) empty.push_back(inner);
  }
  for (const std::string& name : names_in(folder, false))
    if (is_picture(name)) list.astray.push_back(join_path(folder, name));
  if (list.pictures.empty())
    throw FileError(folder + ": no PNG or JPEG images in class folders (expected FOLDER/CLASS/*.png or *.jpg)");
  if (!empty.empty()) throw FileError(empty.front() + ": the class has no PNG or JPEG images");
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

namespace {

/// The picture as RGB; when its bytes are none, the error says how to go without it.
Image required_image(const std::string& path) {
  const Bytes bytes = read_file(path);
  try {
    return decode_image(bytes, path, 3);
  } catch (const FileError& e) {
    throw FileError(fmt::format("{}; --bad-images skip leaves such images out", e.what()));
  }
}

/// Refuses or skips what lies beside the class folders.
void judge_astray(const PictureList& list, const DatasetOptions& options) {
  for (const std::string& path : list.astray) {
    const std::string what = path + ": lies beside the class folders, in none of them";
    if (options.bad_images == BadImages::refuse) throw FileError(what + "; --bad-images skip leaves such images out");
    if (options.skipped != nullptr) options.skipped->push_back(what);
  }
}

/// Leaves out what does not decode, and adds what is wrong with each to `skipped`.
void skip_bad(PictureList& list, const DatasetOptions& options) {
  std::vector<std::string> wrong(list.pictures.size());
  decode_each(list.pictures.size(), 8, options.stop, [&](std::size_t i) {
    const std::string& path = list.pictures[i].path;
    const Bytes bytes = read_file(path); // what cannot be read is no bad image
    try {
      decode_image(bytes, path, 3);
    } catch (const FileError& e) {
      wrong[i] = e.what();
    }
  });
  std::vector<bool> left(list.class_names.size(), false);
  PictureList good{.class_names = list.class_names, .pictures = {}, .astray = {}, .folder = list.folder};
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    if (wrong[i].empty()) {
      left[static_cast<std::size_t>(list.pictures[i].label)] = true;
      good.pictures.push_back(list.pictures[i]);
    } else if (options.skipped != nullptr) {
      options.skipped->push_back(wrong[i]);
    }
  }
  for (const Picture& picture : list.pictures)
    if (!left[static_cast<std::size_t>(picture.label)])
      throw FileError(fmt::format("{}: no image of the class decodes; mend its images, or take the folder away to go "
                                  "without the class",
                                  join_path(list.folder, list.class_names[static_cast<std::size_t>(picture.label)])));
  list = std::move(good);
}

/// Height and width that all images get.
std::pair<int, int> extents(const PictureList& list, std::int64_t size) {
  if (size < 0 || size > 4096) throw ValueError(fmt::format("image folder: size is {}; 1 to 4096, or 0", size));
  if (size > 0) return {static_cast<int>(size), static_cast<int>(size)};
  const Image first = required_image(list.pictures[0].path);
  return {first.height, first.width};
}

} // namespace

ImageDataset load_pictures(PictureList list, const std::string& name, const DatasetOptions& options) {
  judge_astray(list, options);
  if (options.bad_images == BadImages::skip) skip_bad(list, options);
  const auto [height, width] = extents(list, options.size);
  const std::size_t plane = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  constexpr std::uint64_t most = default_byte_limit;
  if (list.pictures.size() > most / (3 * plane))
    throw FileError(fmt::format("{}: {} images of {}x{} pixels need more than {} bytes; give a smaller size", name,
                                list.pictures.size(), width, height, most));
  Bytes pixels(list.pictures.size() * 3 * plane);
  std::vector<std::int32_t> labels(list.pictures.size());
  decode_each(list.pictures.size(), 8, options.stop, [&, h = height, w = width](std::size_t i) {
    const Picture& picture = list.pictures[i];
    Image image = required_image(picture.path);
    if (options.size != 0) image = resize(image, h, w);
    if (image.height != h || image.width != w)
      throw FileError(fmt::format("{}: {}x{} pixels, the first image has {}x{}; give a size to resize them to",
                                  picture.path, image.width, image.height, w, h));
    transpose_bytes(image.pixels, plane, 3, pixels.data() + i * 3 * plane);
    labels[i] = picture.label;
  });
  return {name, 3, height, width, list.class_names, std::move(pixels), std::move(labels)};
}

BadImages bad_images_named(std::string_view name) {
  for (const BadImages what : {BadImages::refuse, BadImages::skip})
    if (name_of(what) == name) return what;
  throw ValueError(fmt::format("bad_images: '{}' is neither refuse nor skip", name));
}

std::string_view name_of(BadImages what) { return what == BadImages::refuse ? "refuse" : "skip"; }

ImageDataset read_image_folder(const std::string& folder, const std::string& name, std::int64_t size,
                               std::int64_t limit, StopFlag stop) {
  return read_image_folder(folder, name, DatasetOptions{.limit = limit, .size = size, .stop = stop});
}

ImageDataset read_image_folder(const std::string& folder, const std::string& name, const DatasetOptions& options) {
  PictureList list = list_pictures(folder);
  limit_pictures(list, options.limit);
  return load_pictures(std::move(list), name, options);
}

} // namespace eg::data
