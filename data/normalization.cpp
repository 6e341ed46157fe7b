#include "data/loader.h"

#include <array>
#include <cmath>
#include <fmt/format.h>

namespace eg::data {

Normalization Normalization::none(std::int64_t channels) {
  const auto count = static_cast<std::size_t>(channels);
  return {std::vector<double>(count, 0.0), std::vector<double>(count, 1.0)};
}

Normalization Normalization::half(std::int64_t channels) {
  const auto count = static_cast<std::size_t>(channels);
  return {std::vector<double>(count, 0.5), std::vector<double>(count, 0.5)};
}

Normalization Normalization::of(const ImageDataset& dataset) {
  if (dataset.size() == 0) throw ValueError(fmt::format("normalization: dataset {} has no images", dataset.name()));
  const auto plane = static_cast<std::size_t>(dataset.height() * dataset.width());
  Normalization out;
  for (std::size_t c = 0; c < static_cast<std::size_t>(dataset.channels()); ++c) {
    std::array<std::uint64_t, 256> histogram{};
    for (std::int64_t i = 0; i < dataset.size(); ++i)
      for (const std::uint8_t value : dataset.pixels(i).subspan(c * plane, plane)) ++histogram[value];
    std::uint64_t sum = 0;
    std::uint64_t squares = 0;
    for (std::uint64_t v = 0; v < 256; ++v) {
      sum += v * histogram[v];
      squares += v * v * histogram[v];
    }
    const double count = static_cast<double>(plane) * static_cast<double>(dataset.size());
    const double mean = static_cast<double>(sum) / count;
    const double variance = static_cast<double>(squares) / count - mean * mean;
    out.mean.push_back(mean / 255.0);
    // A channel of one value has no deviation to divide by.
    out.stddev.push_back(variance > 0.0 ? std::sqrt(variance) / 255.0 : 1.0);
  }
  return out;
}

Normalization Normalization::standard(const ImageDataset& dataset) {
  const std::string& name = dataset.name();
  if (dataset.channels() == 3 && name.starts_with("cifar100"))
    return {{0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}};
  if (dataset.channels() == 3 && name.starts_with("cifar10"))
    return {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};
  if (dataset.channels() == 1 && name == "mnist") return {{0.1307}, {0.3081}};
  if (dataset.channels() == 1 && name == "fashion-mnist") return {{0.2860}, {0.3530}};
  return half(dataset.channels());
}

} // namespace eg::data
