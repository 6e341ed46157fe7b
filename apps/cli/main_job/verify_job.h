#pragma once
// Runs the catalogue with a progress line and a table: shared by `verify` and the main job.

#include "apps/cli/shell/verb.h"
#include "permute/catalogue/catalogue.h"

#include <string>
#include <vector>

namespace eg::cli {

/// The rows that a filter means, in the catalogue's order. Throws UsageError with the nearest ids when it means none.
std::vector<const permute::Identity*> identities_meant(const std::string& filter);

/// Those of them that options.device cannot compute.
std::vector<const permute::Identity*> identities_left_out(const permute::VerifyOptions& options);

/// Checks `rows` for each dtype in turn. Processes share them, several the dearest first. Throws Interrupted on Ctrl-C.
std::vector<permute::VerifyResult> verify_rows(const std::vector<const permute::Identity*>& rows,
                                               const permute::VerifyOptions& options, const std::vector<DType>& dtypes,
                                               const CommonOptions& common);

/// The same for every identity that options.filter means and options.device can compute. Throws UsageError when there
/// is none, ValueError for sizes out of range.
std::vector<permute::VerifyResult> verify_all(const permute::VerifyOptions& options, const std::vector<DType>& dtypes,
                                              const CommonOptions& common);

/// One line a result, then how many passed. On a terminal too narrow for it titles are shortened in their middle.
void print_table(const std::vector<permute::VerifyResult>& results);

/// Number of results that failed.
int failures(const std::vector<permute::VerifyResult>& results);

} // namespace eg::cli
