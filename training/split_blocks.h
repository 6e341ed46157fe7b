#pragma once
// What runs with their blocks elsewhere have in common, whatever the model. For the trainers of this folder.

#include "core/base/function_ref.h"
#include "nn/module.h"
#include "permute/axes.h"
#include "permute/key.h"
#include "training/blocks_mark.h"
#include "training/vit_trainer.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace eg::permute {

/// Whether a parameter is one of the blocks'.
bool is_block(const std::string& parameter);
/// Of the `learning` parameters of a whole model those beside its blocks. Throws ValueError when some of the blocks'
/// are not among them (who has the blocks trains them all), or nothing before the blocks is: only then does a gradient
/// pass through them.
std::vector<std::string> learning_beside_blocks(std::vector<std::string> learning, const nn::Module& whole);
/// Throws ValueError when the blocks of a checkpoint are elsewhere and those of the run here, or the reverse.
void require_same_place(const nlohmann::json& state, const std::string& checkpoint, bool elsewhere);
/// Adds to a checkpoint's state which run at the other party it belongs to, and what it is to leave.
void remember_place(nlohmann::ordered_json& state, const SplitTraining& split);
/// Where split.ending moves blocks that `columns` have moved; `of_key`: the permutations of the next holder's key.
/// Empty: nowhere. Throws FileError.
PermutationSet moves_of_ending(const SplitTraining& split, const PermutationSet& columns,
                               FunctionRef<PermutationSet(const SecretKey&)> of_key);

/// What the model folder of a run that permutes columns says of its blocks, here (no encoder) or behind split.ending;
/// nothing when they are plain again. `secret`: null where the seed draws. Throws FileError.
std::optional<BlocksMark> mark_of(const SplitTraining& split, KeyForm form, const SecretKey* secret);

} // namespace eg::permute
