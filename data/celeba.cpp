// CelebA's lists and images.

#include "core/base/error.h"
#include "core/base/words.h"
#include "data/dataset.h"
#include "data/decode.h"
#include "data/unpack.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <string_view>
#include <unordered_map>

namespace eg::data {

namespace {

/// Lines of words, one after another.
class WordLines {
public:
  explicit WordLines(const std::string& path) : path_(path), text_(read_unpacked(path, std::uint64_t{256} << 20)) {}

  /// The words of the next line that has any; false at the end.
  bool next(std::vector<std::string_view>& words) {
    words.clear();
    while (words.empty() && at_ < text_.size()) {
      const auto end = static_cast<std::size_t>(
          std::find(text_.begin() + static_cast<std::ptrdiff_t>(at_), text_.end(), '\n') - text_.begin());
      split({reinterpret_cast<const char*>(text_.data()) + at_, end - at_}, words);
      at_ = end + 1;
      ++number_;
    }
    return !words.empty();
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw FileError(fmt::format("{}: line {} {}", path_, number_, what));
  }

private:
  static void split(std::string_view line, std::vector<std::string_view>& words) {
    constexpr std::string_view blanks = " \t\r";
    for (std::size_t begin = line.find_first_not_of(blanks); begin != std::string_view::npos;) {
      const std::size_t end = std::min(line.find_first_of(blanks, begin), line.size());
      words.push_back(line.substr(begin, end - begin));
      begin = line.find_first_not_of(blanks, end);
    }
  }

  std::string path_;
  Bytes text_;
  std::size_t at_ = 0, number_ = 0;
};

struct Attributes {
  std::vector<std::string> names;
  std::unordered_map<std::string, Bytes> of_image;
};

Attributes read_attributes(const std::string& path) {
  WordLines lines(path);
  std::vector<std::string_view> words;
  std::size_t count = 0;
  if (!lines.next(words)) throw FileError(path + ": an empty list");
  const auto [end, error] = std::from_chars(words[0].data(), words[0].data() + words[0].size(), count);
  if (words.size() != 1 || error != std::errc() || end != words[0].data() + words[0].size())
    lines.refuse("is not the number of images");
  Attributes found;
  if (lines.next(words)) found.names.assign(words.begin(), words.end());
  while (lines.next(words)) {
    if (words.size() != found.names.size() + 1)
      lines.refuse(fmt::format("has {} values for {} attributes", words.size() - 1, found.names.size()));
    Bytes values;
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (words[i] != "1" && words[i] != "-1")
        lines.refuse(fmt::format("has '{}', neither 1 nor -1", printable(words[i])));
      values.push_back(words[i] == "1" ? 1 : 0);
    }
    if (!found.of_image.emplace(words[0], std::move(values)).second)
      lines.refuse(fmt::format("has image '{}' again", printable(words[0])));
  }
  if (found.of_image.size() != count)
    throw FileError(fmt::format("{}: {} images are listed, {} are announced", path, found.of_image.size(), count));
  return found;
}

/// The names of the images of one part.
std::vector<std::string> read_part(const std::string& path, int part, std::int64_t limit) {
  WordLines lines(path);
  std::vector<std::string_view> words;
  std::vector<std::string> names;
  const std::string wanted = std::to_string(part);
  while ((limit == 0 || static_cast<std::int64_t>(names.size()) < limit) && lines.next(words)) {
    if (words.size() != 2 || words[1].size() != 1 || words[1][0] < '0' || words[1][0] > '2')
      lines.refuse("is not an image and a part from 0 to 2");
    if (words[1] == wanted) names.emplace_back(words[0]);
  }
  if (names.empty()) throw FileError(fmt::format("{}: no image is in part {}", path, part));
  return names;
}

/// The square in the middle.
Image middle_square(const Image& image) {
  const int side = std::min(image.height, image.width);
  const int top = (image.height - side) / 2, left = (image.width - side) / 2;
  Image out{side, side, image.channels, {}};
  for (int y = top; y < top + side; ++y) {
    const auto begin = image.pixels.begin() + (static_cast<std::ptrdiff_t>(y) * image.width + left) * image.channels;
    out.pixels.insert(out.pixels.end(), begin, begin + static_cast<std::ptrdiff_t>(side) * image.channels);
  }
  return out;
}

Image prepared(const std::string& path, std::int64_t size) {
  Image image = read_image(path, 3);
  return size == 0 ? image : resize(middle_square(image), static_cast<int>(size), static_cast<int>(size));
}

} // namespace

ImageDataset read_celeba(const CelebaFiles& files, int part, const std::string& name, std::int64_t size,
                         std::int64_t limit, StopFlag stop) {
  if (size < 0 || size > 4096) throw ValueError(fmt::format("celeba: size is {}; 1 to 4096, or 0", size));
  const std::vector<std::string> images = read_part(files.parts, part, limit);
  const Attributes known = read_attributes(files.attributes);
  Bytes attributes;
  for (const std::string& image : images) {
    const auto found = known.of_image.find(image);
    if (found == known.of_image.end())
      throw FileError(fmt::format("{}: no line for '{}'", files.attributes, printable(image)));
    attributes.insert(attributes.end(), found->second.begin(), found->second.end());
  }
  const Image first = prepared(join_path(files.images, images[0]), size);
  const std::size_t plane = first.pixels.size() / 3;
  if (images.size() > default_byte_limit / (3 * plane))
    throw FileError(
        fmt::format("{}: {} images of {}x{} pixels need more than {} bytes; give a smaller size, or a limit", name,
                    images.size(), first.width, first.height, default_byte_limit));
  Bytes pixels(images.size() * 3 * plane);
  decode_each(images.size(), 8, stop, [&](std::size_t i) {
    const std::string path = join_path(files.images, images[i]);
    const Image image = prepared(path, size);
    if (image.height != first.height || image.width != first.width)
      throw FileError(fmt::format("{}: {}x{} pixels, the first image has {}x{}", path, image.width, image.height,
                                  first.width, first.height));
    transpose_bytes(image.pixels, plane, 3, pixels.data() + i * 3 * plane);
  });
  return ImageDataset::with_attributes(name, 3, first.height, first.width, known.names, std::move(pixels),
                                       std::move(attributes));
}

} // namespace eg::data
