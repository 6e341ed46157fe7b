#include "data/batch_maker.h"

#include "core/random.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace eg::data {

namespace {

constexpr std::uint64_t shuffle_stream = 0x73687566; // "shuf"
constexpr std::uint64_t augment_stream = 0x6175676D; // "augm"

void check_options(const ImageDataset& dataset, const LoaderOptions& options) {
  const auto refuse = [](const std::string& reason) { throw ValueError("loader: " + reason); };
  if (options.batch_size < 1) refuse(fmt::format("batch_size is {}; at least 1 is needed", options.batch_size));
  if (options.workers < 0 || options.workers > 256)
    refuse(fmt::format("workers is {}; 0 to 256 are possible", options.workers));
  if (options.prefetch < 1) refuse(fmt::format("prefetch is {}; at least 1 is needed", options.prefetch));
  const std::int64_t last = options.last > 0 ? options.last : options.batch_size;
  if (options.first < 0 || options.first >= last || last > options.batch_size)
    refuse(fmt::format("samples [{}, {}) are no part of a batch of {}", options.first, last, options.batch_size));
  if (!is_floating(options.dtype)) refuse(fmt::format("dtype is {}; images are f32 or f64", name_of(options.dtype)));
  check(options.augmentation, dataset.height(), dataset.width(), "loader");
  const Normalization& n = options.normalization;
  const auto channels = static_cast<std::size_t>(dataset.channels());
  if (n.mean.size() != channels || n.stddev.size() != channels)
    refuse(fmt::format("normalization has {} means and {} deviations for {} channels", n.mean.size(), n.stddev.size(),
                       channels));
  for (const double deviation : n.stddev)
    if (!(deviation > 0.0)) refuse(fmt::format("normalization: a deviation is {}", deviation));
  const std::int64_t needed = options.drop_last ? options.batch_size : 1;
  if (dataset.size() < needed)
    refuse(fmt::format("dataset {} has {} images; a batch needs {}", dataset.name(), dataset.size(), needed));
}

LoaderOptions completed(LoaderOptions options, const ImageDataset& dataset) {
  if (options.normalization.mean.empty() && options.normalization.stddev.empty())
    options.normalization = Normalization::standard(dataset);
  return options;
}

} // namespace

BatchMaker::BatchMaker(ImageDataset dataset, LoaderOptions options)
    : dataset_(std::move(dataset)), options_(completed(std::move(options), dataset_)) {
  check_options(dataset_, options_);
  for (std::size_t c = 0; c < options_.normalization.mean.size(); ++c)
    for (int value = 0; value < 256; ++value)
      normalized_.push_back((value / 255.0 - options_.normalization.mean[c]) / options_.normalization.stddev[c]);
}

std::int64_t BatchMaker::batches() const {
  const std::int64_t whole = dataset_.size() / options_.batch_size;
  return options_.drop_last || dataset_.size() % options_.batch_size == 0 ? whole : whole + 1;
}

std::vector<std::int64_t> BatchMaker::order(std::int64_t epoch) const {
  if (options_.shuffle) {
    const RandomKey key = RandomKey{options_.seed, shuffle_stream}.fold(static_cast<std::uint64_t>(epoch));
    return random_permutation(dataset_.size(), key).to_vector<std::int64_t>();
  }
  std::vector<std::int64_t> indices(static_cast<std::size_t>(dataset_.size()));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

Batch BatchMaker::make(std::int64_t epoch, std::int64_t batch, std::span<const std::int64_t> order) const {
  const std::int64_t all = std::min(options_.batch_size, dataset_.size() - batch * options_.batch_size);
  const std::int64_t first = std::min(all, options_.first);
  const std::int64_t count = std::min(all, options_.last > 0 ? options_.last : all) - first;
  const std::int64_t begin = batch * options_.batch_size + first;
  const auto part = order.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
  Batch out{Tensor::empty({count, dataset_.channels(), dataset_.height(), dataset_.width()}, options_.dtype),
            Tensor::empty({count}, DType::i64),
            attributes_of(part),
            std::vector<std::int64_t>(part.begin(), part.end()),
            epoch,
            batch};
  auto* labels = out.labels.mutable_data<std::int64_t>("loader");
  for (std::size_t i = 0; i < part.size(); ++i) labels[i] = dataset_.label(part[i]);
  if (options_.dtype == DType::f32)
    fill(out.images.mutable_data<float>("loader"), part, epoch);
  else
    fill(out.images.mutable_data<double>("loader"), part, epoch);
  return out;
}

Tensor BatchMaker::attributes_of(std::span<const std::int64_t> indices) const {
  if (!dataset_.has_attributes()) return {};
  std::vector<double> values;
  for (const std::int64_t index : indices)
    for (const std::uint8_t value : dataset_.attributes(index)) values.push_back(value);
  return Tensor::from<double>(values, {static_cast<std::int64_t>(indices.size()), dataset_.classes()})
      .to(options_.dtype);
}

template <class T> void BatchMaker::fill(T* to, std::span<const std::int64_t> indices, std::int64_t epoch) const {
  const auto plane = static_cast<std::size_t>(dataset_.height() * dataset_.width());
  Planes changed{.channels = dataset_.channels(), .height = dataset_.height(), .width = dataset_.width(), .bytes = {}};
  for (const std::int64_t index : indices) {
    const ByteView pixels = augmented(index, epoch, changed);
    for (std::size_t c = 0; c * plane < pixels.size(); ++c)
      for (std::size_t p = 0; p < plane; ++p) *to++ = static_cast<T>(normalized_[c * 256 + pixels[c * plane + p]]);
  }
}

ByteView BatchMaker::augmented(std::int64_t index, std::int64_t epoch, Planes& changed) const {
  const ByteView pixels = dataset_.pixels(index);
  if (!options_.augmentation.any() && !options_.transform) return pixels;
  RandomStream random(RandomKey{options_.seed, augment_stream}
                          .fold(static_cast<std::uint64_t>(epoch))
                          .fold(static_cast<std::uint64_t>(index)));
  changed.bytes.assign(pixels.begin(), pixels.end());
  augment(options_.augmentation, changed, random);
  if (options_.transform) options_.transform(epoch, index, changed.bytes);
  return changed.bytes;
}

} // namespace eg::data
