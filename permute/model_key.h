#pragma once
// Defines a key for one model: which structure it fits and which of its groups it moves.

#include "permute/key.h"
#include "permute/symmetries.h"

#include <set>
#include <string>

namespace eg::permute {

/// 64 hexadecimal digits that identify a model's structure: BLAKE2b of the names, sizes and axes of all
/// groups. Weights do not enter.
std::string structure_digest(const ModelSymmetries& symmetries);

/// The groups that a list names: "all" (every group of a key), "inner" (those of them that leave inputs and outputs
/// alone), names, globs ("*.heads"), separated by commas. Throws ValueError for a word that fits no group, or fits
/// fixed groups alone: the message says what fixes them; and when nothing is left to move.
std::set<std::string> choose_groups(const ModelSymmetries& symmetries, const std::string& words);

/// A fresh key whose label holds the structure and the groups.
SecretKey make_model_key(const ModelSymmetries& symmetries, const std::set<std::string>& groups,
                         const std::string& architecture);

/// The groups that a key moves. Throws ValueError for a key that was made for another model (or for none), saying so.
std::set<std::string> groups_of(const SecretKey& key, const ModelSymmetries& symmetries,
                                const std::string& architecture);

/// The element of the model's group that the key represents.
SymmetryElement element_of(const SecretKey& key, const ModelSymmetries& symmetries, const std::string& architecture);

} // namespace eg::permute
