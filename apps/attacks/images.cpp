#include "apps/attacks/images.h"

#include "permute/least_squares.h"
#include "permute/recovery/matching.h"

#include "core/call.h"
#include "core/ops.h"

#include <fmt/format.h>

namespace eg::attacks {

Tensor LinearInversion::with_places(const Tensor& features) const {
  const std::int64_t n = features.size(0), tokens = features.size(1), dim = features.size(2);
  const Tensor marks = places_ == Places::known ? eye(tokens, -1, DType::f64) : Tensor::ones({tokens, 1}, DType::f64);
  const Tensor all = expand(marks.unsqueeze(0), {n, tokens, marks.size(1)});
  return concat({features.to(DType::f64), all}, 2).reshape({n * tokens, dim + marks.size(1)});
}

LinearInversion::LinearInversion(const Tensor& features, const Tensor& patches, Places places) : places_(places) {
  if (features.rank() != 3 || patches.rank() != 3 || features.size(0) != patches.size(0) ||
      features.size(1) != patches.size(1))
    throw ShapeError(fmt::format("linear inversion: features are [N, T, d] and patches [N, T, p], not {} and {}",
                                 features.shape().str(), patches.shape().str()));
  const PauseRecording pause;
  const Tensor right = patches.to(DType::f64).reshape({patches.size(0) * patches.size(1), patches.size(2)});
  map_ = permute::PivotedQr(with_places(features)).solve(right);
}

Tensor LinearInversion::operator()(const Tensor& features) const {
  if (features.rank() != 3 || features.size(2) + (places_ == Places::known ? features.size(1) : 1) != map_.size(0))
    throw ShapeError(fmt::format("linear inversion: features are {}, it was fitted to others: its map is {}",
                                 features.shape().str(), map_.shape().str()));
  const PauseRecording pause;
  return matmul(with_places(features), map_).reshape({features.size(0), features.size(1), map_.size(1)});
}

permute::Permutation rows_by_positions(const Tensor& features, const Tensor& patch_weight, const Tensor& plain) {
  if (features.rank() != 2 || !(features.shape() == plain.shape()) || patch_weight.rank() != 2 ||
      patch_weight.size(0) != features.size(1))
    throw ShapeError(
        fmt::format("positions: features {} and plain rows {} are [T, d], the patch embedding {} is [d, p]",
                    features.shape().str(), plain.shape().str(), patch_weight.shape().str()));
  const PauseRecording pause;
  const Tensor null = permute::PivotedQr(patch_weight).null_space();
  if (null.size(1) == 0)
    throw ValueError(fmt::format("positions: the patch embedding {} fills all features: nothing is free of the picture",
                                 patch_weight.shape().str()));
  return permute::Permutation(permute::best_match(
      permute::squared_distances(matmul(features.to(DType::f64), null), matmul(plain.to(DType::f64), null))));
}

} // namespace eg::attacks
