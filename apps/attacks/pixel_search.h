#pragma once
// Searches images by gradient descent on their pixels: white-box inversion of features, and inversion of gradients.

#include "core/random.h"
#include "permute/permutation.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace eg::attacks {

/// Total variation: the mean absolute difference of neighbouring pixels along both axes of [N, C, H, W].
/// Differentiable. Rudin, Osher, Fatemi, Physica D 60 (1992), its anisotropic form.
Tensor total_variation(const Tensor& pictures);

/// Adam on u, the image being tanh(u), which keeps it within (-1, 1).
struct PixelSearch {
  std::int64_t iterations = 300;
  double lr = 0.1;
  double tv = 1e-3;                                             ///< weight of the total variation
  std::function<void(std::int64_t iteration)> on_progress = {}; ///< before each; throws to stop
};

/// Pictures of `shape` [N, C, H, W] with the least loss + tv total_variation that was reached; f64. `loss` is recorded;
/// begins at images drawn from `key` (deviation 0.1). Throws NumericError when the loss stops being finite.
Tensor search_pixels(const Shape& shape, const PixelSearch& search,
                     const std::function<Tensor(const Tensor& pictures, std::int64_t iteration)>& loss, RandomKey key);

/// What is unknown to a white-box attacker with F1.
enum class Unknown : std::uint8_t {
  nothing, ///< also where a random order is taken for the true one: equation 3 of paper 001, read literally
  rows,    ///< each row seen is matched with the nearest row of the guess, again every few iterations
  columns, ///< the features of every row are compared sorted
  both
};

/// White-box inversion: the images whose features under F1 are those seen, min |M(F1(x)) - z|^2 + tv (equation 3 of
/// paper 001; He et al., "Model inversion attacks against collaborative inference", ACSAC 2019). `view` is M(F1(.))
/// with the attacker's own draw of what is random, features [N, T, d]. Exact for rows in order where F1 is injective;
/// rows in an unknown order come back as a jigsaw. Throws as search_pixels.
Tensor invert_features(const Tensor& seen, const Shape& shape,
                       const std::function<Tensor(const Tensor& pictures)>& view, Unknown unknown,
                       const PixelSearch& search, RandomKey key);

/// Distance between gradients.
enum class GradientDistance : std::uint8_t {
  cosine, ///< 1 - <g, g'> / (|g| |g'|) over all parameters: Geiping et al., NeurIPS 2020 (arXiv 2003.14053)
  squared ///< sum |g - g'|^2 over sum |g'|^2: Zhu, Liu, Han, "Deep leakage from gradients", NeurIPS 2019
};

/// Gradient inversion: the images whose weight gradients are those seen. `gradients` computes the gradients of the
/// weights for images and is recorded, so that the distance is differentiated through them: second derivatives.
/// Gradients of training with shuffled rows are those of plain training (theorem 4.2), so the same comes out of both.
/// Throws as search_pixels, and ShapeError when gradients differ in number.
Tensor invert_gradients(const std::vector<Tensor>& seen, const Shape& shape,
                        const std::function<std::vector<Tensor>(const Tensor& pictures)>& gradients,
                        GradientDistance distance, const PixelSearch& search, RandomKey key);

/// One image's patches [T, p] from the gradients of the patch embedding's weight E [d, p] and of the rows it gives, G
/// = dL/dZ [T, d] (the gradient of the position embedding): dL/dE = G^T X, solved by least squares. Exact when G has
/// rank T, so T <= d. No optimisation. Kin to APRIL (Lu et al., CVPR 2022, arXiv 2112.14087). Throws ShapeError.
Tensor patches_from_gradients(const Tensor& weight_gradient, const Tensor& row_gradients);

} // namespace eg::attacks
