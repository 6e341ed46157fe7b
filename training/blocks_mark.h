#pragma once
// What a run says of blocks that it leaves permuted, and how who has the key takes them back.

#include "nn/bert.h"
#include "nn/hub/model.h"
#include "permute/axes.h"
#include "permute/key.h"
#include "permute/vit_key.h"

#include <optional>
#include <string>

namespace eg::permute {

/// The axis map of a BERT's blocks.
AxisMap bert_block_axes(const nn::BertConfig& config);

/// FOLDER/permuted_blocks.json of a model folder, and of the run folder of a ViT: the blocks beside it carry a key of
/// training (VitKey), and without it the model is another function. The key itself is nowhere in it.
struct BlocksMark {
  std::string key; ///< fingerprint; "" where the permutations were drawn from the run's seed
  KeyForm form = KeyForm::decoupled;
};

/// The mark of a folder; nothing where there is none. Throws FileError for one that cannot be read.
std::optional<BlocksMark> read_blocks_mark(const std::string& folder);
/// Writes the mark, or with none removes the one that is there. Throws FileError.
void write_blocks_mark(const std::string& folder, const std::optional<BlocksMark>& mark);

/// Takes the blocks of a ViT, DeiT or BERT with that mark back to the plain ones. Throws ValueError for another key and
/// for another kind of model.
void undo_blocks(hub::Model& model, const BlocksMark& mark, const SecretKey& key);

} // namespace eg::permute
