#pragma once
// Defines keys of any stack of transformer blocks (ViT, BERT, GPT-2, Llama), and the axis maps that carry them to
// parameters. A key has permutations for the residual, the inner attention axes and the MLP's hidden axis.

#include "nn/vit.h"
#include "permute/axes.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace eg::permute {

/// How the permutations of one model are tied together.
enum class KeyForm : std::uint8_t {
  /// The papers' released key generator: P_C = one within-head permutation repeated in every head, and whole heads
  /// move; every inner axis uses P_C; the MLP's hidden axis stays. heads * head_dim must be dim.
  paper,
  /// W' = P_C^T W P_C for Q, K, V, O with P_C block-structured: within-head permutations differ from head to head.
  tied,
  /// Any P_C on the residual; Q/K and V/O inner axes have block permutations of their own with a common head map; the
  /// MLP's hidden axis has its own.
  decoupled,
  /// Any P_C on the residual, all inner axes stay.
  residual,
};

/// "paper", "tied", "decoupled" or "residual". Throws ValueError that lists them.
KeyForm key_form_named(std::string_view name);
std::string_view name_of(KeyForm form);

/// How far a ViT's key reaches.
enum class KeyScope : std::uint8_t {
  /// The encoder's blocks alone, as in the papers: P_C is applied to Z before the encoder and undone after it.
  encoder,
  /// P_C is also folded into patch embedding, class token, position embedding, final norm and classifier: images to
  /// logits without a permutation in between.
  model,
};

/// Whole heads move by head_map, elements within head h by within[h]: result[h D + i] = head_map[h] D + within[h][i].
/// Throws ValueError when sizes do not fit.
Permutation block_permutation(const Permutation& head_map, const std::vector<Permutation>& within);

/// True when p maps blocks of `block` consecutive elements onto blocks: p is in S_block wr S_(size/block).
bool is_block_permutation(const Permutation& p, std::int64_t block);

/// One block's permutations. Sizes: qk and v are heads * head_dim, hidden is the MLP's width.
struct BlockKey {
  Permutation qk;     ///< rows of W_Q and W_K: block-structured; with rotary positions whole heads alone move
  Permutation v;      ///< rows of W_V, columns of W_O: block-structured with qk's head map
  Permutation hidden; ///< rows of W_1 (of a gated MLP: of gate and up alike), columns of W_2
};

/// Permutations of a stack of encoder blocks that share the residual axis.
struct BlocksKey {
  Permutation residual; ///< P_C, size dim
  std::vector<BlockKey> blocks;

  /// Draws a key that is nowhere the identity (axes of extent 1, and axes that the form leaves alone, excepted). Where
  /// heads share keys and values, groups of heads move onto groups, and all heads of a group move alike within. Throws
  /// ValueError when the form needs heads * head_dim == dim and they differ, and for the forms paper and tied of blocks
  /// with shared keys, rotary positions or a gated MLP.
  static BlocksKey draw(const nn::BlockConfig& config, std::int64_t layers, KeyForm form,
                        const PermutationSource& source);
  static BlocksKey random(const nn::BlockConfig& config, std::int64_t layers, KeyForm form, RandomKey key);
  /// All identity.
  static BlocksKey identity(const nn::BlockConfig& config, std::int64_t layers);

  BlocksKey inverse() const;
  /// The permutations by group name, as the axis maps below name them. Throws ValueError when a size does not fit.
  PermutationSet permutations(const nn::BlockConfig& config) const;
  /// Z P_C and its undoing, along the last axis.
  Tensor apply_columns(const Tensor& z) const;
  Tensor undo_columns(const Tensor& z) const;
};

/// Axis map of one nn::Block whose parameters are named `prefix` + "norm1.weight" and so on. The rows of the
/// fused qkv.weight [3 heads head_dim, dim] are (which, head, inner): their group is the concatenation of qk, qk and v.
AxisMap block_axes(std::int64_t layer = 0, std::string_view prefix = "");
/// Axis map of `layers` blocks of that config, named "blocks.0.norm1.weight" and so on: of a ViT, BERT, GPT-2 or Llama.
AxisMap blocks_axes(const nn::BlockConfig& config, std::int64_t layers);

/// Axis map of an nn::Vit. Throws ValueError for KeyScope::model with a sinusoidal position embedding, which is a
/// constant of the model and cannot be moved.
AxisMap vit_axes(const nn::VitConfig& config, KeyScope scope = KeyScope::encoder);

/// log2 of the number of keys of a form: residual choices times the inner choices of every layer.
double log2_count(const nn::BlockConfig& config, std::int64_t layers, KeyForm form);

/// One row permutation for each of `samples` samples, none the identity: i64 [samples, tokens] for permute_rows.
/// Sample s depends on (key, s) alone.
Tensor row_permutations(std::int64_t samples, std::int64_t tokens, RandomKey key);

} // namespace eg::permute
