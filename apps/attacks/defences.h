#pragma once
// Protects images and features before they leave the edge: the baselines that the papers compare permutations with.
// Each is applied with or without an order of rows and columns (EdgeView).

#include "core/random.h"
#include "permute/permuted_pass.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace eg::attacks {

/// x + n, n ~ Normal(0, stddev^2) for each element; drawn from `key`. Differentiable in x. GN of papers 000
/// and 001, there with variance 4 (001 cites Dong, Roth, Su, "Gaussian differential privacy", arXiv 1905.02383); the
/// released code adds it to images, the paper to features. Throws ValueError for a negative stddev.
Tensor gaussian_noise(const Tensor& x, double stddev, RandomKey key);

/// Pictures [N, C, H, W] under a Gaussian of deviation `sigma` pixels: window of 2 ceil(3 sigma) + 1, weights of sum 1,
/// edges repeated. Differentiable. The image itself for sigma 0. Throws ShapeError, ValueError for a negative sigma.
Tensor gaussian_blur(const Tensor& pictures, double sigma);

/// Pictures [N, C, H, W] shrunk to side x side and stretched again, both bilinear as Pillow does: Blur of papers 000
/// and 001 (Ryoo et al., AAAI 2018). Throws ShapeError, ValueError unless 1 <= side <= H, W.
Tensor blur_by_resizing(const Tensor& pictures, std::int64_t side);

/// Rows [B, T, d] of which all but `kept` of each sample (rounded down; which, is drawn) change places with each other
/// across the whole batch; the first `special` rows of a sample stay. Equal to the released BatchPatchShuffle: BS of
/// paper 000 ("PatchShuffling", ICDM 2022). A sample's rows then come from any of the batch. Differentiable.
/// Throws ShapeError, ValueError unless kept is in [0, 1].
Tensor batch_shuffle(const Tensor& z, double kept, RandomKey key, std::int64_t special = 0);

/// Images [N, C, H, W] with one rectangle of each from another image of the batch: data::mix's cutmix with lambda ~
/// Beta(1, 1), as the released code has it for its attacks; labels are the first image's. Throws ShapeError.
Tensor cut_and_paste(const Tensor& pictures, RandomKey key);

enum class Defence : std::uint8_t {
  none,
  noise,         ///< gaussian_noise on images
  feature_noise, ///< gaussian_noise on features, in deviations of the features
  gaussian_blur,
  blur,     ///< blur_by_resizing
  low_pass, ///< fft_low_pass (core/ops.h): LP of paper 000, there a square of half-width r H about the lowest frequency
  batch_shuffle,
  cutmix
};

struct DefenceInfo {
  Defence defence;
  const char* name;
  const char* what;
  const char* strength; ///< what the number is, with its unit; "" where there is none
  double usual;         ///< default strength
  bool on_features;     ///< else on images
};
/// All of them, in the order above.
std::span<const DefenceInfo> defences();
const DefenceInfo& info_of(Defence defence);

/// A defence and how strong it is.
struct Protection {
  Defence defence = Defence::none;
  double strength = 0.0;

  friend bool operator==(const Protection&, const Protection&) = default;
};
/// "none", "noise", "low-pass:3". Throws ValueError for an unknown name, which lists them, for a strength that is none
/// or given where there is none, and for one outside the range of its function.
Protection protection_named(const std::string& text);
std::string name_of(const Protection& protection);

/// Pictures [N, C, H, W] in [-1, 1] as the protection leaves them, or themselves where it acts on features.
Tensor on_pictures(const Protection& protection, const Tensor& pictures, RandomKey key);
/// Features [N, T, d] likewise; the first `special` rows hold no patch.
Tensor on_features(const Protection& protection, const Tensor& z, RandomKey key, std::int64_t special = 0);

/// What leaves the edge: rows in an order of their own, i64 [N, T] for permute_rows, or undefined.
struct Leaving {
  Tensor features, rows;
};

/// The edge as a function of images: F1 of protected images, protected features, P_R Z P_C.
struct EdgeView {
  std::function<Tensor(const Tensor& pictures)> embed; ///< F1: [N, C, H, W] -> [N, T, d]
  Protection protection = {};
  bool rows = false; ///< a fresh order for every image
  std::optional<permute::Permutation> columns = {};
  std::int64_t special = 0;

  /// All that is random is drawn from `key`: noise first and apart from the order of rows, so that it is the same with
  /// and without one. Recorded by open tapes.
  Leaving operator()(const Tensor& pictures, RandomKey key) const;
  /// The pass of features that left in that order of rows; its leave() restores the order of the image's own tokens
  /// and features.
  permute::PermutedPass pass(const Tensor& order) const;
};

} // namespace eg::attacks
