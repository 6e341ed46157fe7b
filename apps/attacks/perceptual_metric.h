#pragma once
// Computes F-SIM: the similarity of two images to a network that belongs to neither side.

#include "core/random.h"
#include "data/dataset.h"
#include "nn/conv.h"
#include "nn/layers.h"

#include <cstdint>
#include <functional>

namespace eg::attacks {

/// A small convolutional network in place of the papers' (FaceNet's InceptionResnetV1, ResNet18): three 3 x 3
/// convolutions of stride 2 with GroupNorm and GELU (32, 64, 128 channels), the mean over places, a linear classifier.
class PerceptualMetric : public nn::Module {
public:
  PerceptualMetric(std::int64_t channels, std::int64_t classes, RandomKey key);
  /// Pictures [N, C, H, W] -> features [N, 128].
  Tensor features(const Tensor& pictures) const;
  /// Logits [N, classes].
  Tensor operator()(const Tensor& pictures) const { return classifier(features(pictures)); }

  nn::Conv2d first, second, third;
  nn::Linear classifier;
};

struct PerceptualMetricTraining {
  std::int64_t steps = 400, batch = 64;
  double lr = 2e-3;                                        ///< Adam, cosine
  std::function<void(std::int64_t step)> on_progress = {}; ///< before each step; throws to stop
};

/// Trains it on the labels or attributes of `images`, pixels in [-1, 1], order from `key`.
void train_perceptual_metric(PerceptualMetric& metric, const data::ImageDataset& images,
                             const PerceptualMetricTraining& training, RandomKey key);

/// |cosine| of the features of each pair of images [N, C, H, W], f64 [N]: F-SIM as the papers' code has it. Throws
/// ShapeError when the shapes differ.
Tensor f_sim(const PerceptualMetric& metric, const Tensor& x, const Tensor& y);

} // namespace eg::attacks
