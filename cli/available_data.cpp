#include "cli/available_data.h"

#include "core/error.h"
#include "data/bytes.h"
#include "data/dataset.h"

namespace eg::cli {

std::string available_data(const std::string& data_dir) {
  if (!data_dir.empty() && !data::folder_exists(data_dir)) throw FileError(data_dir + ": no such folder (--data-dir)");
  const std::string folder = data::join_path(data_dir.empty() ? data::default_data_dir() : data_dir, "cifar10");
  return data::folder_exists(folder) ? "cifar10" : "shapes";
}

} // namespace eg::cli
