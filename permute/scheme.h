#pragma once
// Lists the transformations of weights and features before they reach a cloud.

#include "permute/axes.h"
#include "permute/block_weights.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace eg::permute {

enum class Scheme : std::uint8_t { none, row, tied, decoupled, both, stip1, stip2, orthogonal, noise, stip2_noise };

/// How features are moved.
enum class Columns : std::uint8_t {
  plain,
  residual,     ///< P_C on the residual stream alone: inner axes stay (STIP's first version)
  tied,         ///< W' = P_C^T W P_C with P_C in S_head wr S_heads (the papers' blind training, read in full)
  within_heads, ///< any P_C; Q and K, V, and the hidden axis have permutations of their own (STIP's second version)
  decoupled,    ///< the same, and whole heads move
  orthogonal,   ///< an orthogonal map of the residual stream, gains folded into weights (RMSNorm alone)
};

struct SchemeInfo {
  Scheme scheme;
  const char* name;
  const char* what;
  bool rows; ///< tokens in a fresh order for every query
  Columns columns;
  bool noise = false; ///< Gaussian noise on the features that leave the edge
};
/// All of them, in the order above.
std::span<const SchemeInfo> schemes();
const SchemeInfo& info_of(Scheme scheme);
/// Throws ValueError that lists the names.
const SchemeInfo& scheme_named(const std::string& name);

/// Why a model has no key of this kind; "" where it has. tied needs heads * head_dim = dim and unshared key heads
/// without rotary positions, orthogonal RMSNorm before every branch without biases.
std::string incompatible_because(const BlockWeights& model, Columns columns);

/// The groups of a model's weights under a scheme: "residual", "blocks.L.qk", "blocks.L.v", "blocks.L.hidden", and
/// "blocks.L.o" for the columns of "o" where key heads are shared. Throws ValueError with
/// incompatible_because(). With rotary positions or shared key heads Q and K stay as they are within heads, and heads
/// where they are.
AxisMap axes_of(const BlockWeights& model, Columns columns);

/// log2 of the number of keys.
double log2_count(const BlockWeights& model, Columns columns);

/// A model as a cloud holds it, with the secret that made it so.
struct ObfuscatedModel {
  nn::StateDict weights;
  AxisMap axes;
  PermutationSet key;
  Tensor map; ///< [d, d] of an orthogonal scheme, else undefined

  /// Features [..., d] as they enter the cloud.
  Tensor enter(const Tensor& z) const;
};
/// Draws the key from `source` (an orthogonal map from `key`, which is not secret: it is a stand-in for measurements)
/// and moves the weights. Throws as axes_of.
ObfuscatedModel obfuscate(const BlockWeights& model, Columns columns, const PermutationSource& source, RandomKey key);
/// Weights with every gain folded into the matrices that read what it scales, gains of one: the same function.
nn::StateDict folded_gains(const BlockWeights& model);

} // namespace eg::permute
