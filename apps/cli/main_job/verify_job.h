#pragma once
// Runs the catalogue with a progress line and a table: shared by `verify` and the main job.

#include "permute/catalogue/catalogue.h"

#include <string>
#include <vector>

namespace eg::cli {

/// The rows that a filter means, in the catalogue's order. Throws UsageError with the nearest ids when it means none.
std::vector<const permute::Identity*> identities_meant(const std::string& filter);

/// Checks every identity that options.filter means, for each dtype in turn. Throws Interrupted on Ctrl-C.
std::vector<permute::VerifyResult> verify_all(permute::VerifyOptions options, const std::vector<DType>& dtypes,
                                              bool show_progress);

/// One line a result, then how many passed. On a terminal too narrow for it titles are shortened in their middle.
void print_table(const std::vector<permute::VerifyResult>& results);

/// Number of results that failed.
int failures(const std::vector<permute::VerifyResult>& results);

} // namespace eg::cli
