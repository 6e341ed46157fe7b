#pragma once
// Secrets and crashes.

namespace eg::cli {

/// From now on a crash of this process leaves no core dump, in which permutations drawn from a secret key would lie
/// (the key itself is left out of dumps: permute/key.h). For verbs that read or make a key.
void disable_core_dumps();

} // namespace eg::cli
