#pragma once
// Reads options and metrics from a run folder.

#include "data/dataset.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace eg::pages {

/// One metric over a run.
struct Curve {
  std::vector<double> step, seconds, value;
};

struct RunFolder {
  std::string path;
  std::string name;       ///< its name on pages: the folder's own name, or more of its path to distinguish runs
  std::string model;      ///< "vit", "bert", "gpt2", ...
  nlohmann::json options; ///< of config.json
  /// By split and metric, named as by training::each_metric with "."; numbers alone.
  std::map<std::pair<data::Split, std::string>, Curve> curves;
  std::int64_t step = 0;      ///< last one that was recorded
  std::int64_t skipped = 0;   ///< steps whose update was left out
  double seconds = 0.0;       ///< of the last record; 0 where records lack it
  std::int64_t best_step = 0; ///< of the checkpoint that is marked as the best one; 0: none
  std::string note;           ///< one sentence on a mark of the best one that was passed over as damaged; "": none was

  /// The curve, or an empty one.
  const Curve& curve(data::Split split, const std::string& metric) const;
};

/// Reads a run folder. A last line of metrics that is torn, as a killed run leaves it, is left out. Throws FileError
/// when the folder does not exist, it holds no run, or a line of its metrics is malformed (which).
RunFolder read_run(const std::string& path);

/// Reads several and gives them distinct names. Throws the same, and ValueError when one is given twice.
std::vector<RunFolder> read_runs(const std::vector<std::string>& paths);

} // namespace eg::pages
