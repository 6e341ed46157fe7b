#include "data/dataset.h"

#include "core/base/error.h"
#include "data/decode.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace eg::data {

const char* name_of(Split split) { return split == Split::train ? "train" : "test"; }

ImageDataset::ImageDataset(std::string name, std::int64_t channels, std::int64_t height, std::int64_t width,
                           std::vector<std::string> class_names, Bytes pixels, std::vector<std::int32_t> labels)
    : ImageDataset(Content{
          std::move(name), channels, height, width, std::move(class_names), std::move(pixels), std::move(labels), {}}) {
}

ImageDataset::ImageDataset(Content c) {
  if (c.channels < 1 || c.height < 1 || c.width < 1)
    throw ValueError(
        fmt::format("dataset {}: images of {} channels and {}x{} pixels", c.name, c.channels, c.height, c.width));
  const std::size_t expected = c.labels.size() * static_cast<std::size_t>(c.channels * c.height * c.width);
  if (c.pixels.size() != expected)
    throw ValueError(fmt::format("dataset {}: {} bytes of pixels for {} labels; {} are needed", c.name, c.pixels.size(),
                                 c.labels.size(), expected));
  for (std::size_t i = 0; i < c.labels.size(); ++i)
    if (c.labels[i] < 0 || static_cast<std::size_t>(c.labels[i]) >= c.class_names.size())
      throw ValueError(fmt::format("dataset {}: label {} of image {} is not one of {} classes", c.name, c.labels[i], i,
                                   c.class_names.size()));
  content_ = std::make_shared<const Content>(std::move(c));
}

ImageDataset ImageDataset::with_attributes(std::string name, std::int64_t channels, std::int64_t height,
                                           std::int64_t width, std::vector<std::string> names, Bytes pixels,
                                           Bytes attributes) {
  if (names.empty() || attributes.size() % names.size() != 0)
    throw ValueError(fmt::format("dataset {}: {} bytes of {} attributes", name, attributes.size(), names.size()));
  for (const std::uint8_t value : attributes)
    if (value > 1) throw ValueError(fmt::format("dataset {}: an attribute is {}, neither 0 nor 1", name, value));
  std::vector<std::int32_t> labels(attributes.size() / names.size());
  return ImageDataset(Content{std::move(name), channels, height, width, std::move(names), std::move(pixels),
                              std::move(labels), std::move(attributes)});
}

namespace {

std::size_t checked_index(std::int64_t i, const ImageDataset& dataset) {
  if (i < 0 || i >= dataset.size())
    throw IndexError(fmt::format("dataset {}: image {} of {}", dataset.name(), i, dataset.size()));
  return static_cast<std::size_t>(i);
}

} // namespace

std::int64_t ImageDataset::label(std::int64_t i) const { return content_->labels[checked_index(i, *this)]; }

ByteView ImageDataset::attributes(std::int64_t i) const {
  const std::size_t at = checked_index(i, *this);
  if (!has_attributes()) return {};
  const auto count = static_cast<std::size_t>(classes());
  return ByteView(content_->attributes).subspan(at * count, count);
}

ByteView ImageDataset::pixels(std::int64_t i) const {
  const auto size = static_cast<std::size_t>(image_bytes());
  return ByteView(content_->pixels).subspan(checked_index(i, *this) * size, size);
}

std::string ImageDataset::fingerprint() const {
  const Content& c = *content_;
  std::string head = fmt::format("{}x{}x{}", c.channels, c.height, c.width);
  for (const std::string& name : c.class_names) head += '\0' + name;
  const auto bytes_of = [](const auto& values) {
    return ByteView{reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof values[0]};
  };
  std::uint32_t crc = crc32(bytes_of(head));
  for (const ByteView part : {bytes_of(c.labels), bytes_of(c.attributes), bytes_of(c.pixels)}) crc = crc32(part, crc);
  return fmt::format("{} images, crc32 {:08x}", size(), crc);
}

Image ImageDataset::image(std::int64_t i) const {
  const ByteView from = pixels(i);
  Image out{static_cast<int>(height()), static_cast<int>(width()), static_cast<int>(channels()),
            std::vector<std::uint8_t>(from.size())};
  const auto planes = static_cast<std::size_t>(channels());
  transpose_bytes(from, planes, from.size() / planes, out.pixels.data());
  return out;
}

ImageDataset ImageDataset::select(std::span<const std::int64_t> indices) const {
  Bytes chosen;
  chosen.reserve(indices.size() * static_cast<std::size_t>(image_bytes()));
  std::vector<std::int32_t> labels;
  labels.reserve(indices.size());
  Bytes shown;
  for (const std::int64_t i : indices) {
    const ByteView from = pixels(i);
    chosen.insert(chosen.end(), from.begin(), from.end());
    labels.push_back(static_cast<std::int32_t>(label(i)));
    const ByteView own = attributes(i);
    shown.insert(shown.end(), own.begin(), own.end());
  }
  if (has_attributes())
    return with_attributes(name(), channels(), height(), width(), class_names(), std::move(chosen), std::move(shown));
  return {name(), channels(), height(), width(), class_names(), std::move(chosen), std::move(labels)};
}

ImageDataset ImageDataset::head(std::int64_t count) const {
  if (count >= size()) return *this;
  std::vector<std::int64_t> indices(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
  std::iota(indices.begin(), indices.end(), 0);
  return select(indices);
}

} // namespace eg::data
