#pragma once
// Marks a model whose blocks a run left permuted (permuted_blocks.json); undo_blocks() restores them with the key.

#include "core/base/function_ref.h"
#include "nn/hub/model.h"
#include "permute/axes.h"
#include "permute/blocks_key.h"
#include "permute/key.h"

#include <optional>
#include <string>

namespace eg::training {

/// FOLDER/permuted_blocks.json of a model folder, and of the run folder of a ViT: the blocks beside it carry a key of
/// training (BlocksKey), and without it the model is another function. The key itself is nowhere in it.
struct BlocksMark {
  std::string key; ///< fingerprint; "" where the permutations were drawn from the run's seed
  permute::KeyForm form = permute::KeyForm::decoupled;
};

/// The mark of a folder; nothing where there is none. Throws FileError for one that cannot be read.
std::optional<BlocksMark> read_blocks_mark(const std::string& folder);
/// Writes the mark, or with none removes the one that is there. Throws FileError.
void write_blocks_mark(const std::string& folder, const std::optional<BlocksMark>& mark);

/// Writes a model into `folder` by save(), marked or not. A mark is there before the weights, so that a process which
/// is killed leaves no permuted weights without it. Throws FileError.
void write_marked(const std::string& folder, const std::optional<BlocksMark>& mark, FunctionRef<void()> save);

/// Restores the plain blocks of a ViT, DeiT, BERT, GPT-2 or Llama with that mark. Throws ValueError for another key and
/// for another kind of model.
void undo_blocks(hub::Model& model, const BlocksMark& mark, const permute::SecretKey& key);

} // namespace eg::training
