#include "apps/cli/shell/available_data.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "data/dataset.h"

namespace eg::cli {

std::string available_data(const std::string& data_dir, const std::string& wanted, const std::string& generated) {
  if (!data_dir.empty() && !folder_exists(data_dir)) throw FileError(data_dir + ": no such folder (--data-dir)");
  const std::string folder = join_path(data_dir.empty() ? data::default_data_dir() : data_dir, wanted);
  return folder_exists(folder) ? wanted : generated;
}

} // namespace eg::cli
