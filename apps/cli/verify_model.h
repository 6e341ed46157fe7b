#pragma once
// Checks the theorems on a model folder's own weights, for `equigrad verify --model`.

#include "apps/cli/shell/verb.h"
#include "permute/catalogue/catalogue.h"

#include <string>
#include <vector>

namespace eg::cli {

/// Reads the folder, lets its embeddings make Z of random images or ids ([options.batch, options.tokens] ids, or fewer
/// where the model has fewer positions), and checks its blocks in each dtype on options.device. Processes share
/// the rows. Throws what
/// hub::load_model does, UsageError for a model without blocks of this library.
std::vector<permute::VerifyResult> verify_model(const std::string& folder, const permute::VerifyOptions& options,
                                                const std::vector<DType>& dtypes, const CommonOptions& common);

} // namespace eg::cli
