#pragma once
// Draws a vision transformer's attention on its images.

#include "core/tensor.h"
#include "nn/vit.h"

#include <vector>

namespace eg::pages {

/// Attention rollout (Abnar and Zuidema, "Quantifying attention flow in transformers", ACL 2020): with A_l the mean of
/// the heads of layer l and each row of A_l + I divided by its sum, the product (A_L + I) ... (A_1 + I). scores: one
/// [B, heads, T, T] a layer -> [B, T, T], each row summing to 1, in f64. Throws ShapeError when there is none or sizes
/// differ.
Tensor attention_rollout(const std::vector<Tensor>& scores);

/// What the token that is classified takes from each patch, [height / patch, width / patch]: its row of attention
/// [T, T] without the special tokens, or with mean pooling the mean of all rows. Throws ShapeError.
Tensor patch_map(const Tensor& attention, const nn::VitConfig& config);

} // namespace eg::pages
