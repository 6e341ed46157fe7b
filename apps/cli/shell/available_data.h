#pragma once
// Finds the images that exist.

#include <string>

namespace eg::cli {

/// "cifar10" where that folder is in `data_dir` (empty: EQUIGRAD_DATA), "shapes" (generated) where it is not. Throws
/// FileError when `data_dir` is given and is no folder.
std::string available_data(const std::string& data_dir);

} // namespace eg::cli
