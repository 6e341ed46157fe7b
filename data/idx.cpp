// IDX files: MNIST and its kin.

#include "core/base/error.h"
#include "data/dataset.h"
#include "data/unpack.h"

#include <fmt/format.h>
#include <limits>

namespace eg::data {

IdxArray parse_idx(ByteView bytes, const std::string& source) {
  if (bytes.size() < 4 || bytes[0] != 0 || bytes[1] != 0) throw FileError(source + ": not an IDX file");
  if (bytes[2] != 8)
    throw FileError(
        fmt::format("{}: IDX element type 0x{:02X}; only unsigned bytes (0x08) are read", source, bytes[2]));
  const std::size_t rank = bytes[3];
  const std::size_t begin = 4 + 4 * rank;
  if (rank == 0) throw FileError(source + ": an IDX file without axes");
  if (bytes.size() < begin) throw FileError(source + ": truncated IDX header");
  IdxArray array;
  std::uint64_t expected = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    std::uint64_t extent = 0;
    for (std::size_t i = 0; i < 4; ++i) extent = extent << 8 | bytes[4 + 4 * axis + i];
    if (extent != 0 && expected > std::numeric_limits<std::uint64_t>::max() / extent)
      throw FileError(source + ": the size in the IDX header overflows 64 bits");
    expected *= extent;
    array.dims.push_back(static_cast<std::int64_t>(extent));
  }
  if (bytes.size() - begin != expected)
    throw FileError(fmt::format("{}: {}: the IDX header says [{}], {} bytes; {} follow", source,
                                bytes.size() - begin < expected ? "truncated" : "too long", fmt::join(array.dims, ", "),
                                expected, bytes.size() - begin));
  array.values.assign(bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.end());
  return array;
}

ImageDataset read_idx(const std::string& images, const std::string& labels, const std::string& name,
                      std::vector<std::string> class_names) {
  IdxArray pictures = parse_idx(read_unpacked(images), images);
  const IdxArray classes = parse_idx(read_unpacked(labels), labels);
  if (pictures.dims.size() != 3)
    throw FileError(fmt::format("{}: has {} axes; images have 3 (count, height, width)", images, pictures.dims.size()));
  if (classes.dims.size() != 1)
    throw FileError(fmt::format("{}: has {} axes; labels have 1", labels, classes.dims.size()));
  if (pictures.dims[0] != classes.dims[0])
    throw FileError(
        fmt::format("{}: {} labels for the {} images of {}", labels, classes.dims[0], pictures.dims[0], images));
  if (pictures.dims[1] == 0 || pictures.dims[2] == 0) throw FileError(images + ": images without pixels");
  if (class_names.empty())
    for (int digit = 0; digit < 10; ++digit) class_names.push_back(std::to_string(digit));
  for (std::size_t i = 0; i < classes.values.size(); ++i)
    if (classes.values[i] >= class_names.size())
      throw FileError(
          fmt::format("{}: label {} of image {} is above {}", labels, classes.values[i], i, class_names.size() - 1));
  return {name,
          1,
          pictures.dims[1],
          pictures.dims[2],
          std::move(class_names),
          std::move(pictures.values),
          std::vector<std::int32_t>(classes.values.begin(), classes.values.end())};
}

} // namespace eg::data
