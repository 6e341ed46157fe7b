#pragma once
// Reads and writes permutations as JSON, for people and scripts: they are not secret. Secret keys use permute/key.h.

#include "permute/axes.h"

#include <filesystem>

namespace eg::permute {

/// Writes {"format": "equigrad-permutations", "version": 1, "groups": {NAME: [gather], ...}}. Throws FileError.
void save_permutations(const std::filesystem::path& path, const PermutationSet& permutations);

/// Reads it back. Throws FileError, naming the path, for a file that is missing, is not such JSON, has another version,
/// or holds a list that is not a permutation.
PermutationSet load_permutations(const std::filesystem::path& path);

} // namespace eg::permute
