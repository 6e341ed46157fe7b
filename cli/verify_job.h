#pragma once
// Running the catalogue with a progress line and a table for people: shared by `verify` and the main job.

#include "permute/catalogue/catalogue.h"

#include <string>
#include <vector>

namespace eg::cli {

/// Checks every identity that options.filter means, for each dtype in turn. Throws Interrupted on Ctrl-C.
std::vector<permute::VerifyResult> verify_all(permute::VerifyOptions options, const std::vector<DType>& dtypes,
                                              bool show_progress);

/// One line a result, then how many passed.
void print_table(const std::vector<permute::VerifyResult>& results);

/// Number of results that failed.
int failures(const std::vector<permute::VerifyResult>& results);

} // namespace eg::cli
