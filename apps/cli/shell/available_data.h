#pragma once
// Finds the images that exist.

#include <string>

namespace eg::cli {

/// `wanted`, a data set's name, where that folder is in `data_dir` (empty: EQUIGRAD_DATA), `generated` where it is not.
/// Throws FileError when `data_dir` is given and is no folder.
std::string available_data(const std::string& data_dir, const std::string& wanted = "cifar10",
                           const std::string& generated = "shapes");

} // namespace eg::cli
