#pragma once
// Implements the vision transformer ViT, and with a distillation token DeiT. Dosovitskiy et al., "An image is worth
// 16x16 words", ICLR 2021; Touvron et al., "Training data-efficient image transformers & distillation through
// attention", ICML 2021.

#include "nn/block.h"

#include <optional>

namespace eg::nn {

enum class Pooling : std::uint8_t { cls, mean };
enum class PositionEmbedding : std::uint8_t { learned, sinusoidal, none };

/// "cls" or "mean". Throws ValueError.
Pooling pooling_named(std::string_view name);
/// "learned", "sinusoidal" or "none". Throws ValueError.
PositionEmbedding position_embedding_named(std::string_view name);
std::string_view name_of(Pooling pooling);
std::string_view name_of(PositionEmbedding position);

struct VitConfig {
  std::int64_t image = 32;      ///< height, pixels
  std::int64_t image_width = 0; ///< pixels; 0: as high as wide
  std::int64_t channels = 3;
  std::int64_t patch = 4;
  std::int64_t classes = 10; ///< 0: no classifier
  std::int64_t layers = 6;
  BlockConfig encoder;
  double embedding_dropout = 0.0; ///< of the tokens that enter the encoder
  Pooling pooling = Pooling::cls;
  PositionEmbedding position = PositionEmbedding::learned;
  bool distillation = false;     ///< DeiT: a second token after the class token
  bool distillation_head = true; ///< with a classifier of its own
  std::int64_t pooler = 0;       ///< width of a linear map of the class token followed by pooler_activation; 0: none
  Activation pooler_activation = Activation::tanh;

  std::int64_t height() const { return image; }
  std::int64_t width() const { return image_width > 0 ? image_width : image; }
  /// Patches of one image: (height / patch) (width / patch).
  std::int64_t patches() const { return (height() / patch) * (width() / patch); }
  /// Tokens before the patches: class token and distillation token.
  std::int64_t special_tokens() const { return (pooling == Pooling::cls ? 1 : 0) + (distillation ? 1 : 0); }
  /// Tokens that pass through the encoder.
  std::int64_t tokens() const { return patches() + special_tokens(); }
  /// Elements of one patch: channels patch^2.
  std::int64_t patch_elements() const { return channels * patch * patch; }
};

/// Throws ValueError that names the field when a config makes no model (patch does not divide image, ...).
void check(const VitConfig& config);

/// PE[t, 2i] = sin(t / 10000^(2i/dim)), PE[t, 2i+1] = cos(the same): [tokens, dim] (Vaswani et al., NeurIPS 2017).
/// Throws ValueError for an odd dim.
Tensor sinusoidal_positions(std::int64_t tokens, std::int64_t dim, DType dtype = DType::f32);

/// Images cut into patches, each projected: [B, C, H, W] -> [B, (H/p)(W/p), dim]. weight [dim, C p p], bias [dim].
/// Its weights are registered as its own ("patch_embedding.weight").
class PatchEmbedding : public Linear {
public:
  PatchEmbedding(std::int64_t channels, std::int64_t patch, std::int64_t dim, RandomKey key);
  Tensor operator()(const Tensor& images) const;
  std::int64_t patch;
};

/// Embedding (F1 in papers 000 and 001), encoder, head (F2). Whoever wants to see or permute what passes between them
/// calls the three parts.
class Vit : public Module {
public:
  /// timm's ViT initialisation: weights and position embedding trunc_normal(0.02), biases zero, class token
  /// normal(1e-6), norms one and zero. The patch embedding's weight keeps a Linear's uniform +-1/sqrt(C p p).
  /// Throws ValueError as check(config) does.
  Vit(const VitConfig& config, RandomKey key);

  /// images [B, C, H, W] -> logits [B, classes]; with a distillation token the mean of both classifiers'.
  /// Throws ValueError when there is no classifier.
  Tensor operator()(const Tensor& images, RandomKey dropout_key = {}) const;
  /// The three parts of it.
  Tensor embed(const Tensor& images, RandomKey key = {}) const; ///< [B, C, H, W] -> Z [B, T, dim]
  /// What the embeddings' dropout draws from, of the key of the whole model's.
  static RandomKey embedding_key(RandomKey dropout_key);
  Tensor encode(const Tensor& z, RandomKey key = {}) const; ///< Z -> [B, T, dim], all blocks
  Tensor head(const Tensor& z) const;                       ///< final norm, pooling, linear -> [B, classes]

  /// Logits of the class token and of the distillation token, [B, classes] each: a teacher trains the
  /// second (hard distillation: cross_entropy(distillation, teacher's class)).
  struct TwoLogits {
    Tensor classes, distillation;
  };
  /// Throws ValueError unless there is a distillation token.
  TwoLogits heads(const Tensor& z) const;
  /// activation(W z_0 + b) of the normed class token, [B, pooler]; z is the encoder's output [B, T, dim]. Throws
  /// ValueError when there is no pooler.
  Tensor pool(const Tensor& z) const;

  /// What every block's attention computed for these images, through the explicit path and without dropout.
  std::vector<MultiHeadAttention::Trace> trace(const Tensor& images) const;
  /// The same from Z on: blocks only, so that Z can be permuted first. `z` is replaced by the encoder's output.
  std::vector<MultiHeadAttention::Trace> trace_encoder(Tensor& z) const;

  const VitConfig config;
  PatchEmbedding patch_embedding; ///< weight [dim, C p p]
  Tensor cls_token;               ///< [1, 1, dim], undefined for mean pooling
  Tensor position_embedding;      ///< [1, T, dim]; a constant when sinusoidal; undefined for none
  Tensor distillation_token;      ///< [1, 1, dim], undefined without distillation
  Blocks blocks;
  Norm norm;
  std::optional<Linear> classifier; ///< [classes, dim]
  std::optional<Linear> distillation_classifier;
  std::optional<Linear> pooler; ///< [pooler, dim]
};

namespace init {
/// What Vit's constructor does, for a model that exists: fills every parameter from `key`.
void timm_vit(Vit& model, RandomKey key);
} // namespace init

} // namespace eg::nn
