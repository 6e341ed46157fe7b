#pragma once
// Blends two images in each sample of a batch, with labels in shares.

#include "core/random.h"
#include "core/tensor.h"

namespace eg::data {

/// How batches are blended. With both alphas above 0 each batch takes one of the two, half of them each.
struct Mixing {
  double mixup = 0.0;  ///< alpha of Beta(alpha, alpha); 0: none
  double cutmix = 0.0; ///< likewise

  bool any() const { return mixup > 0.0 || cutmix > 0.0; }
};

/// Images [B, C, H, W] and what they show, [B, K]: shares of classes, or of attributes.
struct MixedBatch {
  Tensor images, targets;
};

/// Blends every image i of a batch with image p(i), p a permutation of the batch, lambda ~ Beta(alpha, alpha), all
/// drawn from `key`:
/// - mixup: lambda x_i + (1 - lambda) x_p(i). Zhang et al., ICLR 2018;
/// - cutmix: a rectangle of sides sqrt(1 - lambda) H, W about a random centre, cut at the border, comes from x_p(i),
/// and
///   lambda becomes the share that is left. Yun et al., ICCV 2019.
/// Targets: lambda t_i + (1 - lambda) t_p(i). Images and targets are f32 or f64 alike. Throws ShapeError, DTypeError;
/// ValueError when nothing is to be mixed.
MixedBatch mix(const Mixing& mixing, const Tensor& images, const Tensor& targets, RandomKey key);

/// A number of Beta(alpha, alpha), alpha > 0: g / (g + h) for two numbers of Gamma(alpha), drawn as Marsaglia and Tsang
/// (2000) do.
double random_beta(double alpha, RandomStream& random);

} // namespace eg::data
