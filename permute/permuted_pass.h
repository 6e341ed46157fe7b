#pragma once
// Passes hidden states through a function with tokens and features permuted: P_R^T f(P_R Z P_C) P_C^T.

#include "core/base/function_ref.h"
#include "permute/permutation.h"

#include <cstdint>
#include <string_view>

namespace eg::permute {

/// What is permuted on the way through the blocks: nothing, tokens (a fresh P_R for every sample and step), features
/// (one P_C, with the weights coupled to it), or both.
enum class PermuteMode : std::uint8_t { none, rows, columns, both };
/// "none", "rows", "columns" or "both". Throws ValueError that lists them.
PermuteMode permute_mode_named(std::string_view name);
std::string_view name_of(PermuteMode mode);
constexpr bool permutes_rows(PermuteMode mode) { return mode == PermuteMode::rows || mode == PermuteMode::both; }
constexpr bool permutes_columns(PermuteMode mode) { return mode == PermuteMode::columns || mode == PermuteMode::both; }

/// The two permutations of one pass. Theorem 4.1 of Xu et al. (CVPR 2024) and of paper 001: with weights coupled to P_C
/// the pass through an encoder equals the plain one.
struct PermutedPass {
  Tensor rows = {};                     ///< P_R, i64 [B, T]: the order of each sample's tokens; undefined: as they are
  const Permutation* columns = nullptr; ///< P_C over features, which must outlive this; null: as they are

  /// P_R Z P_C of Z [B, T, C].
  Tensor enter(const Tensor& z) const;
  /// The mask [B, T] of padding, moved along with the tokens; an undefined one stays undefined.
  Tensor enter_mask(const Tensor& mask) const;
  /// P_R^T Y P_C^T of Y [B, T, C].
  Tensor leave(const Tensor& y) const;
  /// leave(f(enter(z))); with f an encoder whose weights are coupled to P_C, the plain encoder of z. Throws ShapeError
  /// where the permutations do not fit.
  Tensor through(const Tensor& z, FunctionRef<Tensor(const Tensor& z)> f) const { return leave(f(enter(z))); }
};

} // namespace eg::permute
