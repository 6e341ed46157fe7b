#pragma once
// Shares what the attacks on images have in common: the view behind the edge and the measures of success.

#include "apps/attacks/attack_views.h"

namespace eg::attacks {

/// What the cloud sees of images, the class token removed, and the order of their patches.
struct Observation {
  Tensor features; ///< [N, T', d]
  std::vector<permute::Permutation> orders;
};

/// The black-box attacker's view: own images and others' through the same edge.
class ImageView {
public:
  explicit ImageView(const Scene& scene);
  /// Patches [N, T', p] as they are seen behind the setting's protection, query numbers from `query` on. Fresh keys are
  /// aligned by the class token.
  Observation observe(const Tensor& patches, std::uint64_t query) const;

private:
  Tensor protect(const Tensor& patches, std::uint64_t query) const;
  Tensor without_token(const Tensor& z, const permute::Permutation& order, Observation& seen) const;

  const Scene& scene_;
  const permute::PictureInput& input_;
  Tensor token_;
};

/// Patches [N, T', p] -> [N, C, side, side].
Tensor as_pictures(const permute::PictureInput& input, const Tensor& patches);
/// The first `count` images of a set from number `first` on, in [-1, 1], f64 [N, C, H, W]; fewer where there are
/// fewer.
Tensor signed_pictures(const data::ImageDataset& images, std::int64_t first, std::int64_t count);
/// Both lists of images in turn, at most six of each.
void add_pictures(Findings& f, const Tensor& truth, const Tensor& found, const std::string& how = "recovered");
/// Means of SSIM, PSNR with both peaks and, where the setting has images, F-SIM.
void add_quality(Findings& f, const Setting& s, const Tensor& truth, const Tensor& found, const std::string& what = "");

} // namespace eg::attacks
