#pragma once
// Passes hidden states through a function with tokens and features permuted: P_R^T f(P_R Z P_C) P_C^T.

#include "core/base/function_ref.h"
#include "permute/permutation.h"

#include <cstdint>
#include <string_view>

namespace eg::permute {

/// What is permuted while hidden states pass through the blocks: nothing, tokens (a fresh P_R for every sample and
/// step), features (one P_C, with the weights coupled to it), or both.
enum class PermuteMode : std::uint8_t { none, rows, columns, both };
/// "none", "rows", "columns" or "both". Throws ValueError that lists them.
PermuteMode permute_mode_named(std::string_view name);
std::string_view name_of(PermuteMode mode);
constexpr bool permutes_rows(PermuteMode mode) { return mode == PermuteMode::rows || mode == PermuteMode::both; }
constexpr bool permutes_columns(PermuteMode mode) { return mode == PermuteMode::columns || mode == PermuteMode::both; }

/// The two permutations of one pass. If the weights of an encoder are coupled to P_C, the pass gives what the plain
/// encoder gives: theorems 4.1 and 4.4 of Xu et al. (CVPR 2024), theorem 3 of paper 001. Members throw ShapeError where
/// a permutation does not fit the tensor.
struct PermutedPass {
  Tensor rows = {};                     ///< P_R, i64 [B, T]: the order of each sample's tokens; undefined: not permuted
  const Permutation* columns = nullptr; ///< P_C over features, must outlive this; null: not permuted

  /// P_R Z P_C of Z [B, T, C].
  Tensor enter(const Tensor& z) const;
  /// The mask [B, T] of padding, moved along with the tokens; an undefined one stays undefined.
  Tensor enter_mask(const Tensor& mask) const;
  /// P_R^T Y P_C^T of Y [B, T, C].
  Tensor leave(const Tensor& y) const;
  /// leave(f(enter(z))), where f keeps the shape [B, T, C].
  Tensor through(const Tensor& z, FunctionRef<Tensor(const Tensor& z)> f) const { return leave(f(enter(z))); }
};

} // namespace eg::permute
