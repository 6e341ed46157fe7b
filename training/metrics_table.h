#pragma once
// Writes metrics.csv, the records of metrics.jsonl as a table.

#include "core/base/append_file.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace eg::training {

/// A row a record, a column a metric (named as by each_metric with "."), an empty cell where a record lacks it. Quoted
/// as RFC 4180 says. When a record brings a new metric, the file is made anew with a further column.
class MetricsTable {
public:
  /// Makes the table of the records that `lines`, a metrics.jsonl, holds. Throws FileError.
  MetricsTable(std::string path, std::string lines);
  /// Adds a record, which `lines` holds already. Throws FileError.
  void write(const nlohmann::ordered_json& record);

private:
  void rebuild();

  std::string path_, lines_;
  std::vector<std::string> columns_;
  std::optional<AppendFile> file_; ///< none until there is a column
};

} // namespace eg::training
