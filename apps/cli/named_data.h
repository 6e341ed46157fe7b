#pragma once
// Distinguishes names of data sets from paths.

#include <string>

namespace eg::cli {

/// Whether --data of `train MODEL` is the name of a data set, and so no path, whatever lies at it.
bool names_data_set(const std::string& model, const std::string& data);
/// `data`, or "" where it names a data set.
std::string data_path(const std::string& model, const std::string& data);

} // namespace eg::cli
