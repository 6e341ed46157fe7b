#pragma once
// Holds the transformer blocks of a model of any family, and what turns a text or an image into their input.

#include "nn/block.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace eg::permute {

/// How images become rows: Z = X E^T + plain, X [T', p] the patches.
struct PictureInput {
  Tensor patch_weight;      ///< E [d, p]
  Tensor plain;             ///< [T, d]: b + PE_i; the class token's row is cls + PE_0
  std::int64_t special = 0; ///< rows before the patches
  std::int64_t channels = 3, side = 32, patch = 4;
  bool has_positions = true;
  nn::StateDict head; ///< "norm.weight", "norm.bias", "weight" [C, d], "bias" [C]: what reads row 0
  double norm_eps = 1e-6;

  std::int64_t patch_elements() const { return channels * patch * patch; }
  /// Patches [N, T', p] -> Z [N, T, d].
  Tensor embed(const Tensor& patches) const;
  /// The blocks' output [N, T, d] -> logits [N, C].
  Tensor classify(const Tensor& z) const;
};

/// How texts become rows.
struct TextInput {
  std::int64_t vocabulary = 0;
  std::function<Tensor(const Tensor& ids)> embed; ///< i64 [B, T] -> [B, T, d]
  bool drawn = false;                             ///< the embeddings were not in the files and are random
};

/// A model in f64.
struct BlockWeights {
  std::string name;
  nn::BlockConfig block; ///< of every block
  std::int64_t layers = 0;
  /// "blocks.L.q", "k", "v" (rows: heads, features of a head), "o", "gate" (if gated), "up", "down", each with ".bias"
  /// if it has one, "norm1.weight", "norm1.bias", "norm2...".
  nn::StateDict weights;
  std::optional<PictureInput> pictures;
  std::optional<TextInput> text;

  std::int64_t inner() const { return block.heads * block.width_of_head(); }
  std::int64_t kv_heads() const { return block.kv_heads > 0 ? block.kv_heads : block.heads; }
};

/// The parameters of blocks under a BlockWeights's names, copies.
nn::StateDict separate_weights(const nn::Blocks& blocks, DType dtype = DType::f64);
/// Blocks in evaluation that compute with `weights`, in their type. Throws ValueError for a weight that is missing.
nn::Blocks blocks_with(const nn::BlockConfig& config, std::int64_t layers, const nn::StateDict& weights);
/// The weight of that name. Throws ValueError.
const Tensor& weight_named(const nn::StateDict& weights, const std::string& name);

/// Drawn models of two blocks and 64 features: a causal text model with RMSNorm, SwiGLU and rotary positions (a Llama)
/// over 512 ids, and a vision transformer with LayerNorm for side x side pixels in patches of 4. Matrices are
/// normal(1/sqrt(in)), gains about 1, embeddings normal(1).
BlockWeights random_text_model(RandomKey key);
/// Throws ValueError for the second unless patches tile a side.
BlockWeights random_image_model(RandomKey key, std::int64_t side = 16, std::int64_t channels = 3);

/// Trained weights: a model folder of Hugging Face's format (BERT, GPT-2, Llama, ViT, DeiT), also one without its
/// embeddings, which are drawn from `key` then; a checkpoint of llama2.c, or a folder with one; the folder of the
/// small MNIST ViT "shallow ViT, MNIST". Throws FileError for anything else, and for a model without blocks.
BlockWeights open_block_weights(const std::string& path, RandomKey key);

/// A model of the same shape with new random weights: what an attacker has without knowing them. Embeddings of texts,
/// of images and positions are random too.
BlockWeights reinitialised(const BlockWeights& model, RandomKey key);
/// The same model before it was tuned: every weight differs by normal numbers of `delta` times its tensor's deviation.
BlockWeights before_tuning(const BlockWeights& model, double delta, RandomKey key);

} // namespace eg::permute
