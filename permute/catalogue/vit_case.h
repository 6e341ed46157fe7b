#pragma once
// Builds a small nn::Vit with dense random parameters, and runs Algorithm 1's forward pass through it.

#include "permute/catalogue/stack.h"

namespace eg::permute {

/// Patch 4 on a square image with about the case's number of tokens; learned positions.
nn::VitConfig vit_config(const Case& c, nn::Pooling pooling = nn::Pooling::cls);
std::unique_ptr<nn::Vit> draw_vit(Case& c, const nn::VitConfig& config);
/// A copy whose encoder the key has moved; a null key: a plain copy.
std::unique_ptr<nn::Vit> vit_copy(const nn::Vit& vit, const BlocksKey* key, KeyScope scope = KeyScope::encoder);

/// Images, labels, and one row permutation for each image over all tokens, the class token among them; no permutation
/// leaves token 0 at its place.
struct VitBatch {
  Tensor images, labels, rows;
};
VitBatch draw_batch(Case& c, const nn::VitConfig& config);

struct VitPass {
  Tensor z0;     ///< output of F1
  Tensor z;      ///< what the encoder gets
  Tensor output; ///< what F2 gets
  Tensor logits;
  Tensor loss; ///< cross entropy
};
/// Algorithm 1: embed, permute, encode, permute back, head.
VitPass run_vit(const nn::Vit& vit, const VitBatch& batch, const Permuting& permuting = {});

} // namespace eg::permute
