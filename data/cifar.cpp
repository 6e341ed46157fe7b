// CIFAR-10 as binary records and as a tar of JPEG copies.

#include "core/error.h"
#include "data/dataset.h"
#include "data/decode.h"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

namespace eg::data {

namespace {

constexpr std::int64_t side = 32;
constexpr std::size_t image_size = 3 * side * side;
constexpr std::size_t record_size = 1 + image_size;

std::vector<std::string> class_list() {
  return {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
}

void append_records(ByteView records, const std::string& source, Bytes& pixels, std::vector<std::int32_t>& labels) {
  if (records.empty() || records.size() % record_size != 0)
    throw FileError(
        fmt::format("{}: {} bytes are not whole CIFAR-10 records of {} bytes: truncated, or another kind of file",
                    source, records.size(), record_size));
  for (std::size_t at = 0; at < records.size(); at += record_size) {
    if (records[at] > 9)
      throw FileError(fmt::format("{}: label {} of record {} is above 9", source, records[at], at / record_size));
    labels.push_back(records[at]);
    const ByteView image = records.subspan(at + 1, image_size);
    pixels.insert(pixels.end(), image.begin(), image.end());
  }
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
  append_records(records, source, pixels, labels);
  return {name, 3, side, side, class_list(), std::move(pixels), std::move(labels)};
}

ImageDataset read_cifar10_records(const std::vector<std::string>& paths, const std::string& name, StopFlag stop) {
  Bytes pixels;
  std::vector<std::int32_t> labels;
  for (const std::string& path : paths) {
    throw_if(stop);
    append_records(read_unpacked(path), path, pixels, labels);
  }
  return {name, 3, side, side, class_list(), std::move(pixels), std::move(labels)};
}

ImageDataset read_cifar10_jpeg(const std::string& archive, const std::string& order, const std::string& name,
                               std::int64_t limit, StopFlag stop) {
  const std::vector<Listed> list = read_order(order, limit);
  std::unordered_map<std::string_view, std::size_t> wanted;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!wanted.emplace(list[i].path, i).second)
      throw FileError(fmt::format("{}: '{}' is listed twice", order, list[i].path));
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
    const std::string where = fmt::format("{}: member '{}'", archive, list[i].path);
    if (encoded[i].empty()) throw FileError(where + ": not in the archive");
    decode_member(where, encoded[i], pixels.data() + i * image_size);
    labels[i] = list[i].label;
  });
  return {name, 3, side, side, class_list(), std::move(pixels), std::move(labels)};
}

} // namespace eg::data
