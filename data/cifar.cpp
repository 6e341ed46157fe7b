// CIFAR-10 and CIFAR-100 as binary records, CIFAR-10 as a tar of JPEG copies.

#include "core/base/error.h"
#include "core/base/words.h"
#include "data/dataset.h"
#include "data/decode.h"
#include "data/unpack.h"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

namespace eg::data {

namespace {

constexpr std::int64_t side = 32;
constexpr std::size_t image_size = 3 * side * side;

/// Label bytes, one of which counts, then the pixels.
struct RecordFormat {
  const char* name;
  std::size_t label_bytes, label_at;
  std::size_t classes;

  std::size_t size() const { return label_bytes + image_size; }
};
constexpr RecordFormat cifar10{"CIFAR-10", 1, 0, 10};
constexpr RecordFormat cifar100_coarse{"CIFAR-100", 2, 0, 20}, cifar100_fine{"CIFAR-100", 2, 1, 100};

std::vector<std::string> class_list() {
  return {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
}

void append_records(const RecordFormat& format, ByteView records, const std::string& source, Bytes& pixels,
                    std::vector<std::int32_t>& labels) {
  if (records.empty() || records.size() % format.size() != 0)
    throw FileError(fmt::format("{}: {} bytes are not whole {} records of {} bytes: truncated, or another kind of file",
                                source, records.size(), format.name, format.size()));
  for (std::size_t at = 0; at < records.size(); at += format.size()) {
    const std::uint8_t label = records[at + format.label_at];
    if (label >= format.classes)
      throw FileError(
          fmt::format("{}: label {} of record {} is above {}", source, label, at / format.size(), format.classes - 1));
    labels.push_back(label);
    const ByteView image = records.subspan(at + format.label_bytes, image_size);
    pixels.insert(pixels.end(), image.begin(), image.end());
  }
}

/// The lines of a file, one a class.
std::vector<std::string> read_class_names(const std::string& path, std::size_t classes) {
  const Bytes text = read_unpacked(path, std::uint64_t{1} << 20);
  std::vector<std::string> names(1);
  for (const std::uint8_t byte : text) {
    if (byte == '\n')
      names.emplace_back();
    else if (byte != '\r')
      names.back() += static_cast<char>(byte);
  }
  while (!names.empty() && names.back().empty()) names.pop_back();
  if (names.size() != classes)
    throw FileError(fmt::format("{}: {} lines, not the names of {} classes", path, names.size(), classes));
  return names;
}

/// One line of an order list: which class, which file of the archive.
struct Listed {
  std::int32_t label;
  std::string path;
};

std::vector<Listed> read_order(const std::string& order, std::int64_t limit) {
  const Bytes text = read_unpacked(order, std::uint64_t{64} << 20);
  std::vector<Listed> list;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size() && (limit == 0 || static_cast<std::int64_t>(list.size()) < limit);) {
    const auto end = static_cast<std::size_t>(
        std::find(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), '\n') - text.begin());
    const std::string_view line(reinterpret_cast<const char*>(text.data()) + at, end - at);
    at = end + 1;
    ++number;
    if (line.empty()) continue;
    if (line.size() < 3 || line[0] < '0' || line[0] > '9' || line[1] != '\t')
      throw FileError(fmt::format("{}: line {} is not a label 0 to 9, a tab and a path", order, number));
    list.push_back({line[0] - '0', std::string(line.substr(2))});
  }
  if (list.empty()) throw FileError(order + ": an empty list");
  return list;
}

void decode_member(const std::string& where, ByteView bytes, std::uint8_t* planes) {
  const Image image = decode_image(bytes, where, 3);
  if (image.height != side || image.width != side)
    throw FileError(fmt::format("{}: {}x{} pixels; CIFAR-10 images have 32x32", where, image.width, image.height));
  transpose_bytes(image.pixels, image_size / 3, 3, planes);
}

} // namespace

ImageDataset parse_cifar10_records(ByteView records, const std::string& source, const std::string& name) {
  Bytes pixels;
  std::vector<std::int32_t> labels;
  append_records(cifar10, records, source, pixels, labels);
  return {name, 3, side, side, class_list(), std::move(pixels), std::move(labels)};
}

ImageDataset read_cifar10_records(const std::vector<std::string>& paths, const std::string& name, StopFlag stop) {
  Bytes pixels;
  std::vector<std::int32_t> labels;
  for (const std::string& path : paths) {
    throw_if(stop);
    append_records(cifar10, read_unpacked(path), path, pixels, labels);
  }
  return {name, 3, side, side, class_list(), std::move(pixels), std::move(labels)};
}

ImageDataset read_cifar100_records(const std::string& path, const std::string& class_names, Cifar100Labels which,
                                   const std::string& name) {
  const RecordFormat& format = which == Cifar100Labels::fine ? cifar100_fine : cifar100_coarse;
  Bytes pixels;
  std::vector<std::int32_t> labels;
  append_records(format, read_unpacked(path), path, pixels, labels);
  return {name, 3, side, side, read_class_names(class_names, format.classes), std::move(pixels), std::move(labels)};
}

ImageDataset read_cifar10_jpeg(const std::string& archive, const std::string& order, const std::string& name,
                               std::int64_t limit, StopFlag stop) {
  const std::vector<Listed> list = read_order(order, limit);
  std::unordered_map<std::string_view, std::size_t> wanted;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!wanted.emplace(list[i].path, i).second)
      throw FileError(fmt::format("{}: '{}' is listed twice", order, printable(list[i].path)));
  std::vector<Bytes> encoded(list.size());
  read_tar(archive, [&](const ArchiveMember& member) {
    throw_if(stop);
    std::string_view path = member.name;
    if (path.starts_with("./")) path.remove_prefix(2);
    if (const auto it = wanted.find(path); it != wanted.end())
      encoded[it->second].assign(member.bytes.begin(), member.bytes.end());
  });
  Bytes pixels(list.size() * image_size);
  std::vector<std::int32_t> labels(list.size());
  decode_each(list.size(), 64, stop, [&](std::size_t i) {
    const std::string where = fmt::format("{}: member '{}'", archive, printable(list[i].path));
    if (encoded[i].empty()) throw FileError(where + ": not in the archive");
    decode_member(where, encoded[i], pixels.data() + i * image_size);
    labels[i] = list[i].label;
  });
  return {name, 3, side, side, class_list(), std::move(pixels), std::move(labels)};
}

} // namespace eg::data
