#include "apps/cli/train_lines.h"

#include "apps/cli/shell/output.h"

#include "core/base/bytes.h"
#include "training/checkpoint.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <fstream>

namespace eg::cli {
namespace {

/// Bytes in memory now; 0 where the system does not say.
double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  return file >> total >> resident ? resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) : 0.0;
}

std::string checkpoint_path(const std::string& out, std::int64_t step) {
  return join_path(out, "checkpoints/" + training::checkpoint_name(step));
}

} // namespace

ProgressField memory_field() {
  const double bytes = resident_bytes();
  return {bytes < 1e9 ? fmt::format("{:.0f} MB", bytes / 1e6) : fmt::format("{:.1f} GB", bytes / 1e9), 8};
}

std::string skipped_line(std::int64_t step, const std::string& why) {
  return fmt::format("skip   step {:>6}  {}\n", step, why);
}

void say_note(const CommonOptions& common, const std::string& sentence) {
  if (common.talks() && !sentence.empty()) say(fmt::format("note: {}\n", sentence));
}

void add_run_fields(nlohmann::json& json, std::int64_t skipped, std::optional<std::int64_t> best,
                    const std::string& out) {
  json["skipped_steps"] = skipped;
  json["best"] = nullptr;
  if (best) json["best"] = {{"step", *best}, {"checkpoint", checkpoint_path(out, *best)}};
}

std::string best_words(std::optional<std::int64_t> best, std::int64_t steps, const std::string& out) {
  return best && *best != steps ? ", best checkpoint " + checkpoint_path(out, *best) : std::string();
}

} // namespace eg::cli
