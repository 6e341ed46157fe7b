#pragma once
// Keeps secrets out of core dumps.

namespace eg::cli {

/// Sets the process's limit for core dumps to 0, so that a crash does not write permutations drawn from a secret key to
/// disk. The key itself is never in a dump (permute/key.h). For verbs that read or make a key.
void disable_core_dumps();

} // namespace eg::cli
