#pragma once
// Models the cloud's view and the attacker's knowledge, for the attacks.

#include "apps/attacks/attack.h"

namespace eg::attacks {

/// A setting with the model as the cloud holds it and as the attacker knows it.
struct Scene {
  explicit Scene(const Setting& setting);

  const Setting& s;
  permute::BlockWeights known;    ///< what the attacker knows
  permute::ObfuscatedModel cloud; ///< what the cloud holds

  bool rows() const { return s.scheme.rows; }
  bool moves_features() const { return s.scheme.columns != permute::Columns::plain; }
  bool moves_inside() const {
    return s.scheme.columns == permute::Columns::within_heads || s.scheme.columns == permute::Columns::decoupled ||
           s.scheme.columns == permute::Columns::tied;
  }
  /// Whether all is recovered by theory: the weights are public and nothing but permutations was done.
  std::optional<double> all_if(bool exact) const {
    return exact && s.base == Base::published ? std::optional(1.0) : std::nullopt;
  }
  /// The secret order of one query's tokens; the identity where the scheme leaves them.
  permute::Permutation order(std::int64_t tokens, std::uint64_t query) const;
  /// Features of one query as they enter the cloud: the key, or a fresh P_C where keys are fresh; noise where the
  /// scheme adds it. Rows stay.
  Tensor enter(const Tensor& z, std::uint64_t query) const;
  /// The P_C of one query; the key's, or a fresh one.
  permute::Permutation columns(std::uint64_t query) const;
  Tensor noisy(const Tensor& z, std::uint64_t query) const;

  /// i64 [count, tokens], the same for the same setting.
  Tensor texts(std::int64_t count) const;
};

/// z through the first blocks.
Tensor through(const nn::Blocks& blocks, std::int64_t count, const Tensor& z);
/// Uniform images in [-1, 1] as patches [N, T', p].
Tensor random_patches(const permute::PictureInput& input, std::int64_t count, RandomKey key);
/// Generated shapes in [-1, 1], [N, C, side, side].
Tensor shape_pictures(const permute::PictureInput& input, std::int64_t count, std::uint64_t seed);
Findings nothing(std::string because);

extern const Attack weights_attack, gains_attack, linear_map_attack;                  // attacks_weights.cpp
extern const Attack vocabulary_attack, cache_attack, mask_attack;                     // attacks_text.cpp
extern const Attack attention_attack, alignment_attack;                               // attacks_rows.cpp
extern const Attack linear_attack, positions_attack, labels_attack, gradients_attack; // attacks_pictures.cpp

extern const Attack decoder_attack, white_box_attack, gradient_inversion_attack; // attacks_learnt.cpp
extern const Attack jigsaw_attack, columns_attack, rounds_attack;                // attacks_learnt.cpp

} // namespace eg::attacks
