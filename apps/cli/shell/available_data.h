#pragma once
// Distinguishes names of data sets from paths, and finds the images that exist.

#include <string>

namespace eg::cli {

/// "cifar10" where that folder is in `data_dir` (empty: EQUIGRAD_DATA), "shapes" (generated) where it is not. Throws
/// FileError when `data_dir` is given and is no folder.
std::string available_data(const std::string& data_dir);

/// Whether --data of `train MODEL` is the name of a data set, and so no path, whatever lies at it.
bool names_data_set(const std::string& model, const std::string& data);
/// `data`, or "" where it names a data set.
std::string data_path(const std::string& model, const std::string& data);

} // namespace eg::cli
