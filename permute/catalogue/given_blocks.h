#pragma once
// Measures the theorems on the blocks of a given model, with its trained weights.

#include "nn/block.h"
#include "nn/hub/model.h"
#include "permute/catalogue/catalogue.h"

#include <vector>

namespace eg::permute {

/// Rows thm4.1, thm4.2 (blocks that are not causal), thm4.4, thm4.5 and lem9.4 for these blocks and Z [batch, tokens,
/// dim], which a model's embeddings gave: copies of the blocks in each dtype see Z, P_R Z or Z P_C, without dropout.
/// Tokens of each sample move by a permutation of their own; rotary blocks that are not causal are refused. The blocks
/// must live as long as the identities. Throws ShapeError when Z does not fit the blocks, ValueError when there is
/// none.
std::vector<Identity> block_identities(const nn::Blocks& blocks, const Tensor& z);

/// Token ids that the model's embedding has. Throws ValueError for a model of images.
std::int64_t vocabulary_of(const hub::Model& model);

/// The same for a model and the Z that its embeddings make of random images or ids: [options.batch, options.tokens]
/// ids, or fewer where the model has fewer positions. Made where the model is (current_device). Throws ValueError for a
/// model without blocks.
std::vector<Identity> model_rows(const hub::Model& model, const VerifyOptions& options);

} // namespace eg::permute
