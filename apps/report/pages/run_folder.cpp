#include "apps/report/pages/run_folder.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "training/best.h"
#include "training/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

namespace eg::pages {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

double number_in(const Json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_number() ? found->get<double>() : 0.0;
}

void add_record(RunFolder& run, const Json& record) {
  const data::Split split = training::is_test_record(record) ? data::Split::test : data::Split::train;
  run.step = std::max(run.step, record.at("step").get<std::int64_t>());
  run.seconds = number_in(record, "seconds");
  if (record.contains("skipped")) ++run.skipped;
  training::each_metric(record, ".", [&](const std::string& name, const Json& value) {
    if (!value.is_number() || name == "step" || name == "epoch" || name == "seconds") return;
    Curve& curve = run.curves[{split, name}];
    curve.step.push_back(record.at("step").get<double>());
    curve.seconds.push_back(run.seconds);
    curve.value.push_back(value.get<double>());
  });
}

/// Throws FileError when reading has ended before a line that was whole when it began, and the file had `size` bytes:
/// `read` bytes in `lines` lines. A running training may have written more since.
void require_all_read(const std::string& path, std::size_t size, std::size_t read, std::size_t lines) {
  const Bytes bytes = read_file(path);
  const std::size_t known = std::min(size, bytes.size());
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(std::min(read, known));
  const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(known);
  if (std::find(begin, end, '\n') != end)
    throw FileError(fmt::format("{}: line {} is no record of training", path, lines + 1));
}

/// The last `parts` parts of a path.
std::string tail_of(const std::string& path, int parts) {
  fs::path at = fs::path(path).lexically_normal();
  if (!at.has_filename()) at = at.parent_path();
  fs::path out = at.filename();
  for (int i = 1; i < parts && at.has_parent_path() && at != at.parent_path(); ++i) {
    at = at.parent_path();
    out = at.filename() / out;
  }
  return out.string();
}

bool all_differ(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return std::adjacent_find(names.begin(), names.end()) == names.end();
}

} // namespace

const Curve& RunFolder::curve(data::Split split, const std::string& metric) const {
  static const Curve none;
  const auto found = curves.find({split, metric});
  return found == curves.end() ? none : found->second;
}

RunFolder read_run(const std::string& path) {
  if (!folder_exists(path)) throw FileError(path + ": no such folder");
  const std::string metrics = join_path(path, "metrics.jsonl"), config = join_path(path, "config.json");
  for (const std::string& file : {metrics, config})
    if (!file_exists(file))
      throw FileError(fmt::format("{}: holds no run: there is no {}", path, fs::path(file).filename().string()));
  RunFolder run;
  run.path = path;
  run.name = tail_of(path, 1);
  run.options = read_json(config);
  if (!run.options.is_object()) throw FileError(config + ": holds no options");
  // Runs of `train vit` may not name it.
  const auto model = run.options.find("model");
  run.model = model != run.options.end() && model->is_string() ? model->get<std::string>() : "vit";
  const std::size_t size = fs::file_size(metrics);
  std::size_t read = 0, lines = 0;
  training::each_metrics_line(metrics, std::numeric_limits<std::int64_t>::max(),
                              [&](std::string_view line, const Json& record) {
                                read += line.size();
                                ++lines;
                                add_record(run, record);
                              });
  require_all_read(metrics, size, read, lines);
  if (const auto best = training::read_best_mark(path, run.note)) run.best_step = best->step;
  return run;
}

std::vector<RunFolder> read_runs(const std::vector<std::string>& paths) {
  std::vector<RunFolder> runs;
  for (const std::string& path : paths) {
    runs.push_back(read_run(path));
    std::error_code code;
    for (std::size_t i = 0; i + 1 < runs.size(); ++i)
      if (fs::equivalent(runs[i].path, path, code)) throw ValueError(path + ": is given twice");
  }
  std::vector<std::string> names;
  for (int parts = 1; parts <= 64 && (names.empty() || !all_differ(names)); ++parts) {
    names.clear();
    for (const RunFolder& run : runs) names.push_back(tail_of(run.path, parts));
  }
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].name = names[i];
  return runs;
}

} // namespace eg::pages
