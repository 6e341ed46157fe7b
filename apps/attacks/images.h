#pragma once
// Recovers images from what a vision transformer's cloud sees: Z' = P_R (X E^T + b + PE) P_C.

#include "core/tensor.h"
#include "permute/permutation.h"

namespace eg::attacks {

/// Whether pairs of patches and features include the position of a token in its image.
enum class Places : std::uint8_t { known, unknown };

/// Linear inversion: x = A^T z' + c_t for each place t of a patch (one c where places are unknown), fitted to pairs by
/// least squares. P_C is one more
/// linear map to learn, and so is any other invertible one: it protects nothing here.
/// Sees: pairs (patches, features) of the attacker's own images under the same key. Exact when the patch embedding E
/// [d, p] has rank p, so when d >= p and E is generic (where places are unknown: when d >= p + T - 1, so that the
/// position embeddings can be projected away too); else the best linear estimate. With tokens in an unknown order the
/// attacker sends images whose patches are all alike; what comes back of others is a jigsaw. O(N T (d + T)^2). Related
/// to the learned decoders of CVPR's Table 6, which it makes unnecessary.
class LinearInversion {
public:
  /// features [N, T, d], patches [N, T, p] (core/ops.h: patchify), without special tokens. Throws ShapeError.
  LinearInversion(const Tensor& features, const Tensor& patches, Places places = Places::known);
  /// Features [N, T, d] under the same key -> patches [N, T, p], f64.
  Tensor operator()(const Tensor& features) const;

private:
  /// Features and an indicator of the place (or a one), [N T, d + T].
  Tensor with_places(const Tensor& features) const;
  Places places_;
  Tensor map_; ///< [d + T, p]; places unknown: [d + 1, p]
};

/// P_R of one image from its features [T, d] by the fingerprints of the position embeddings: with N the null space of
/// E^T (d - p dimensions), N^T z_i = N^T (b + PE_r(i)) whatever the image. `plain` [T, d] is what row i has beside the
/// image: b + PE_i, for a class token cls + PE_0. Assignment of rows to rows. Sees: features of one image, rows
/// permuted, columns plain (P_C undone). Knows: E [d, p], b, PE. Exact when d > p and no two projected rows are equal.
/// O(d p^2 + T^2 d), the assignment O(T^3) at worst. Own; compare MJP (Ren et al., arXiv 2205.12551). Throws
/// ShapeError, ValueError when E leaves no null space (d <= p).
permute::Permutation rows_by_positions(const Tensor& features, const Tensor& patch_weight, const Tensor& plain);

} // namespace eg::attacks
