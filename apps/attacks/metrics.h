#pragma once
// Measures how much an attack recovered: of images (SSIM, PSNR), of keys, of texts.

#include "permute/permutation.h"

#include <cstdint>
#include <span>

namespace eg::attacks {

/// Peaks of PSNR for images in [-1, 1]. The right one is the distance between black and white. The released code of
/// CVPR 2024 (paper 000) takes 1: its figures are 20 log10(2) = 6.02 dB lower.
inline constexpr double signed_peak = 2.0, papers_peak = 1.0;

/// Structural similarity of images x, y [N, C, H, W] (or one, [C, H, W]), floating, H and W at least 11: f64 [N].
///   SSIM = mean over windows and channels of (2 mx my + c1) (2 sxy + c2) / ((mx^2 + my^2 + c1) (sx^2 + sy^2 + c2)),
/// m, s^2 and sxy the means, variances and covariance under an 11 x 11 Gaussian window (sigma 1.5, weights of sum 1),
/// c1 = (0.01 peak)^2, c2 = (0.03 peak)^2; windows are inside the image. `peak` is the distance between the least and
/// the largest value that images can have. 1 for equal images; at most 1. Differentiable.
/// Wang, Bovik, Sheikh, Simoncelli, IEEE Trans. Image Processing 13 (2004). Throws ShapeError for other shapes,
/// ValueError unless peak > 0.
Tensor ssim(const Tensor& x, const Tensor& y, double peak);

/// Peak signal-to-noise ratio 10 log10(peak^2 / mean((x - y)^2)) in dB of each image, f64 [N]; infinite for equal
/// images. Shapes (any H, W) and errors as ssim.
Tensor psnr(const Tensor& x, const Tensor& y, double peak);

/// The share of places at which both lists agree. Throws ShapeError for lists of different length, ValueError for empty
/// ones.
double recovery_rate(std::span<const std::int64_t> found, std::span<const std::int64_t> truth);

/// The share of a permutation's places that were found.
double key_recovery_rate(const permute::Permutation& found, const permute::Permutation& truth);

/// The share of a text's tokens that were found at their places; places whose true token is `padding` do not count.
/// Throws as recovery_rate, and ValueError when there is nothing but padding.
double token_recovery_rate(std::span<const std::int64_t> found, std::span<const std::int64_t> truth,
                           std::int64_t padding = -1);
/// The same without regard to order: the share of the true tokens, each as often as it occurs, that were found.
double token_bag_rate(std::span<const std::int64_t> found, std::span<const std::int64_t> truth);

} // namespace eg::attacks
