#pragma once
// Vision transformer (Dosovitskiy et al., "An image is worth 16x16 words", ICLR 2021).

#include "nn/layers.h"

namespace eg::nn {

enum class Pooling : std::uint8_t { cls, mean };
enum class PositionEmbedding : std::uint8_t { learned, sinusoidal, none };

struct VitConfig {
  std::int64_t image = 32;   ///< height = width, pixels
  std::int64_t channels = 3;
  std::int64_t patch = 4;
  std::int64_t classes = 10;
  std::int64_t layers = 6;
  EncoderConfig encoder;
  Pooling pooling = Pooling::cls;
  PositionEmbedding position = PositionEmbedding::learned;

  /// Tokens that pass through the encoder: patches, and the class token if there is one.
  std::int64_t tokens() const;
};

/// Throws ValueError that names the field when a config makes no model (patch does not divide image, ...).
void check(const VitConfig& config);

/// Between the patch embedding and the head, an encoder works on [B, T, dim]; a hook there sees (and may permute) what
/// goes in and what comes out: `before(z)` after position embedding, `after(z)` before the final norm.
class Vit : public Module {
public:
  /// timm's ViT initialisation: trunc_normal(0.02) weights, zero biases, class token normal(1e-6).
  Vit(const VitConfig& config, RandomKey key);

  /// images [B, C, H, W] -> logits [B, classes]
  Tensor operator()(const Tensor& images, RandomKey dropout_key = {}) const;
  /// The three parts of it: F1, the encoder, F2 (papers 000 and 001).
  Tensor embed(const Tensor& images) const;                     ///< [B, C, H, W] -> Z [B, T, dim]
  Tensor encode(const Tensor& z, RandomKey key = {}) const;     ///< Z -> [B, T, dim], all blocks
  Tensor head(const Tensor& z) const;                           ///< final norm, pooling, linear -> [B, classes]

  const VitConfig config;
  Linear patch_embedding;            ///< [dim, C p p]
  Tensor cls_token;                  ///< [1, 1, dim], undefined for mean pooling
  Tensor position_embedding;         ///< [1, T, dim]; a constant when sinusoidal; undefined for none
  std::vector<std::unique_ptr<EncoderBlock>> blocks;
  LayerNorm norm;
  Linear classifier;                 ///< [classes, dim]
};

} // namespace eg::nn
