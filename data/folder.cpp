// Image folders: one folder a class.

#include "data/folder.h"
#include "core/base/error.h"
#include "core/base/out_of_memory.h"
#include "core/base/words.h"
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

/// What a folder holds, each kind in name order, without what is hidden.
struct Entries {
  std::vector<std::string> files, folders;
  std::vector<std::pair<std::string, std::string>> others; ///< with what they are: "a pipe, not a file"
};

/// What an entry is that is neither a file nor a folder.
std::string words_for(const fs::directory_entry& entry, fs::file_type type) {
  std::error_code none;
  if (type == fs::file_type::not_found)
    return fmt::format("a link to {}, which is not there", printable(fs::read_symlink(entry.path(), none).string()));
  return type == fs::file_type::fifo ? "a pipe, not a file" : "a socket or a device, not a file";
}

Entries entries_of(const std::string& folder) {
  Entries found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(".")) continue;
    std::error_code unknown; // a dangling link is not found, without an error
    const fs::file_type type = it->status(unknown).type();
    if (unknown && type == fs::file_type::none)
      throw FileError(fmt::format("{}: cannot look at it: {}", it->path().string(), unknown.message()));
    if (type == fs::file_type::regular)
      found.files.push_back(name);
    else if (type == fs::file_type::directory)
      found.folders.push_back(name);
    else
      found.others.emplace_back(name, words_for(*it, type));
  }
  if (error) throw FileError(fmt::format("{}: cannot list the folder: {}", folder, error.message()));
  std::sort(found.files.begin(), found.files.end());
  std::sort(found.folders.begin(), found.folders.end());
  std::sort(found.others.begin(), found.others.end());
  return found;
}

/// By its name; of kinds that nothing here decodes as well, so that they are refused, not passed over.
bool is_picture(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  constexpr std::array endings = {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff"};
  return std::any_of(endings.begin(), endings.end(), [&](const char* ending) { return name.ends_with(ending); });
}

/// Whether something that is neither a file nor a folder is in the place of an image or a folder of images.
bool is_missed(const std::string& name) { return is_picture(name) || name.find('.') == std::string::npos; }

/// Adds the images of a folder and of those inside it, named relative to the first, in no order.
void collect_pictures(const std::string& folder, const std::string& within, std::vector<Picture>& pictures) {
  constexpr std::ptrdiff_t deepest = 16;
  if (std::count(within.begin(), within.end(), '/') > deepest)
    throw FileError(fmt::format("{}: more than {} folders inside each other", folder, deepest));
  const Entries entries = entries_of(folder);
  for (const std::string& name : entries.files)
    if (is_picture(name)) pictures.push_back({.path = within + name, .fault = {}});
  for (const auto& [name, what] : entries.others)
    if (is_missed(name)) pictures.push_back({.path = within + name, .fault = what});
  for (const std::string& name : entries.folders)
    collect_pictures(join_path(folder, name), within + name + '/', pictures);
}

/// The images of class `label`, in the order of their paths.
std::vector<Picture> pictures_of(const std::string& folder, std::size_t label) {
  std::vector<Picture> pictures;
  collect_pictures(folder, "", pictures);
  std::sort(pictures.begin(), pictures.end(), [](const Picture& a, const Picture& b) { return a.path < b.path; });
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    pictures[i].path = join_path(folder, pictures[i].path);
    pictures[i].label = static_cast<std::int32_t>(label);
    pictures[i].place = static_cast<std::int64_t>(i);
  }
  return pictures;
}

} // namespace

PictureList list_pictures(const std::string& folder) {
  if (!folder_exists(folder)) throw FileError(folder + ": no such folder");
  Entries entries = entries_of(folder);
  PictureList list;
  list.folder = folder;
  for (const std::string& name : entries.files)
    if (is_picture(name))
      list.astray.push_back(join_path(folder, name) + ": lies beside the class folders, in none of them");
  for (const auto& [name, what] : entries.others)
    if (is_missed(name)) list.astray.push_back(fmt::format("{}: {}", join_path(folder, name), what));
  std::string empty;
  for (std::size_t c = 0; c < entries.folders.size(); ++c) {
    const std::string inner = join_path(folder, entries.folders[c]);
    const std::vector<Picture> pictures = pictures_of(inner, c);
    list.pictures.insert(list.pictures.end(), pictures.begin(), pictures.end());
    if (pictures.empty() && empty.empty()) empty = inner;
  }
  list.class_names = std::move(entries.folders);
  if (list.pictures.empty())
    throw FileError(folder + ": no PNG or JPEG images in class folders (expected FOLDER/CLASS/*.png or *.jpg)");
  if (!empty.empty()) throw FileError(empty + ": the class has no PNG or JPEG images");
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

constexpr const char* way_out = "; --bad-images skip leaves such images out";

/// The image as RGB; when it cannot be read, the error says how to leave it out.
Image required_image(const Picture& picture) {
  if (!picture.fault.empty()) throw FileError(fmt::format("{}: {}{}", picture.path, picture.fault, way_out));
  const Bytes bytes = read_file(picture.path);
  try {
    return decode_image(bytes, picture.path, 3);
  } catch (const FileError& e) {
    throw FileError(e.what() + std::string(way_out));
  }
}

/// What is wrong with an image; "" when it decodes.
std::string fault_of(const Picture& picture) {
  if (!picture.fault.empty()) return fmt::format("{}: {}", picture.path, picture.fault);
  const Bytes bytes = read_file(picture.path); // a file that cannot be read is not a bad image
  try {
    decode_image(bytes, picture.path, 3);
    return {};
  } catch (const FileError& e) {
    return e.what();
  }
}

/// Refuses or skips what is beside the class folders.
void judge_astray(const PictureList& list, const DatasetOptions& options) {
  for (const std::string& what : list.astray) {
    if (options.bad_images == BadImages::refuse) throw FileError(what + way_out);
    if (options.skipped != nullptr) options.skipped->push_back(what);
  }
}

/// Leaves out what does not decode, and adds what is wrong with each to `skipped`.
void skip_bad(PictureList& list, const DatasetOptions& options) {
  std::vector<std::string> wrong(list.pictures.size());
  decode_each(list.pictures.size(), 8, options.stop, [&](std::size_t i) { wrong[i] = fault_of(list.pictures[i]); });
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
  const Image first = required_image(list.pictures[0]);
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
  Bytes pixels;
  resize_for(fmt::format("{}: {} images of {}x{} pixels", name, list.pictures.size(), width, height), pixels,
             list.pictures.size() * 3 * plane);
  std::vector<std::int32_t> labels(list.pictures.size());
  decode_each(list.pictures.size(), 8, options.stop, [&, h = height, w = width](std::size_t i) {
    const Picture& picture = list.pictures[i];
    Image image = required_image(picture);
    if (options.size != 0) image = naming_memory(picture.path, [&] { return resize(image, h, w); });
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
