#pragma once
// Makes the batches of a Loader, each from its place in the stream alone. Used by loader.cpp only.

#include "data/loader.h"

#include <cstdint>
#include <span>
#include <vector>

namespace eg::data {

/// Makes batches; nothing in it changes, so any number of threads may use it.
class BatchMaker {
public:
  /// Throws ValueError for options out of range, or a dataset without a batch in it.
  BatchMaker(ImageDataset dataset, LoaderOptions options);

  const ImageDataset& dataset() const { return dataset_; }
  const LoaderOptions& options() const { return options_; }
  /// Batches of an epoch.
  std::int64_t batches() const;
  /// The order of the images in an epoch.
  std::vector<std::int64_t> order(std::int64_t epoch) const;
  /// One batch; `order` is that of its epoch.
  Batch make(std::int64_t epoch, std::int64_t batch, std::span<const std::int64_t> order) const;

private:
  Tensor attributes_of(std::span<const std::int64_t> indices) const;
  template <class T> void fill(T* to, std::span<const std::int64_t> indices, std::int64_t epoch) const;
  ByteView augmented(std::int64_t index, std::int64_t epoch, Planes& changed) const;

  ImageDataset dataset_;
  LoaderOptions options_;
  std::vector<double> normalized_; // [channel][byte]
};

} // namespace eg::data
