#pragma once
// Measures the theorems on the blocks of a given model, with its trained weights.

#include "nn/block.h"
#include "permute/catalogue/catalogue.h"

#include <vector>

namespace eg::permute {

/// Rows thm4.1, thm4.2 (blocks that are not causal), thm4.4, thm4.5 and lem9.4 for these blocks and Z [batch, tokens,
/// dim], which a model's embeddings gave: copies of the blocks in each dtype see Z, P_R Z or Z P_C, without dropout.
/// Tokens of each sample move by a permutation of their own; rotary blocks that are not causal are refused. The blocks
/// must live as long as the identities. Throws ShapeError when Z does not fit the blocks, ValueError when there is
/// none.
std::vector<Identity> block_identities(const nn::Blocks& blocks, const Tensor& z);

} // namespace eg::permute
