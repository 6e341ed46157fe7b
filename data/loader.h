#pragma once
// Loads batches from a dataset, shuffled, augmented and normalised ahead of time by worker threads. What a batch holds
// depends on (seed, epoch, index) alone, never on the number of workers or on what was read before.

#include "core/tensor.h"
#include "data/augment.h"
#include "data/dataset.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace eg::data {

/// (x / 255 - mean[c]) / stddev[c] for channel c.
struct Normalization {
  std::vector<double> mean;
  std::vector<double> stddev;

  /// x / 255.
  static Normalization none(std::int64_t channels);
  /// Mean 0.5, deviation 0.5: [-1, 1].
  static Normalization half(std::int64_t channels);
  /// Mean and (population) standard deviation of each channel, over all pixels of the set, from exact integer sums.
  static Normalization of(const ImageDataset& dataset);
  /// The usual published constants for data sets named cifar10*, cifar100*, mnist and fashion-mnist; half() for other
  /// names.
  static Normalization standard(const ImageDataset& dataset);
};

struct LoaderOptions {
  std::int64_t batch_size = 64;
  bool shuffle = true;
  bool drop_last = false; ///< leave out a last batch that is not full
  std::uint64_t seed = 0;
  Augmentation augmentation = {};
  Normalization normalization = {}; ///< empty: Normalization::standard
  DType dtype = DType::f32;         ///< of the images: f32 or f64
  int workers = 1;                  ///< threads that make batches; 0: next() makes them itself
  /// Of each batch samples [first, last) alone are made; last 0: all. For processes that share a batch.
  std::int64_t first = 0, last = 0;
  int prefetch = 4; ///< at most so many batches are ready or being made
  /// Further change of one image's bytes ([C, H, W]) before normalisation, called from the workers; must depend on its
  /// arguments alone.
  std::function<void(std::int64_t epoch, std::int64_t index, std::span<std::uint8_t> pixels)> transform = {};
};

struct Batch {
  Tensor images;                     ///< [B, C, H, W], normalised
  Tensor labels;                     ///< [B], i64; all 0 where images have attributes
  Tensor attributes;                 ///< [B, classes] of the images' type, 0 or 1; undefined where images have labels
  std::vector<std::int64_t> indices; ///< [B], places of the images in the dataset
  std::int64_t epoch = 0;
  std::int64_t batch = 0; ///< position within the epoch
};

/// An endless stream of batches, epoch after epoch. A child of fork() continues with the same batches, on workers of
/// its own.
class Loader {
public:
  /// Throws ValueError for options out of range or a dataset too small for one batch, Error when the system gives no
  /// thread for a worker.
  explicit Loader(ImageDataset dataset, LoaderOptions options = {});
  /// Stops the workers; what they were making is dropped.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const ImageDataset& dataset() const;
  const LoaderOptions& options() const;
  std::int64_t batches_per_epoch() const;

  /// The next batch; epochs follow each other. Rethrows what a worker threw while making this batch; the call after
  /// that gives the batch behind it. Throws Error when the system gives no thread for a worker.
  Batch next();
  /// Makes next() continue with that batch, as when a run is resumed. Throws IndexError for a batch outside the epoch.
  void seek(std::int64_t epoch, std::int64_t batch);

  /// One batch of an epoch, made on the calling thread, with the bits that next() gives; next() is not affected. Throws
  /// IndexError for a batch outside the epoch.
  Batch batch(std::int64_t epoch, std::int64_t batch) const;
  /// Places in the dataset of an epoch's images, in the order in which batches take them.
  std::vector<std::int64_t> order(std::int64_t epoch) const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace eg::data
