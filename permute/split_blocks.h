#pragma once
// What runs with their blocks elsewhere have in common, whatever the model. For the trainers of this folder.

#include "core/function_ref.h"
#include "permute/axes.h"
#include "permute/key.h"
#include "permute/training.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace eg::permute {

/// Whether a parameter is one of the blocks'.
bool is_block(const std::string& parameter);
/// Throws ValueError unless something before the blocks learns: only then does a gradient pass through them.
void require_gradient(bool learns_before_blocks);
/// Throws ValueError when the blocks of a checkpoint are elsewhere and those of the run here, or the reverse.
void require_same_place(const nlohmann::json& state, const std::string& checkpoint, bool elsewhere);
/// Where split.ending moves blocks that `columns` have moved; `of_key`: the permutations of the next holder's key.
/// Empty: nowhere. Throws FileError.
PermutationSet moves_of_ending(const SplitTraining& split, const PermutationSet& columns,
                               FunctionRef<PermutationSet(const SecretKey&)> of_key);

} // namespace eg::permute
