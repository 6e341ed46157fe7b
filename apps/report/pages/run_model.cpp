#include "apps/report/pages/run_model.h"

#include "core/base/error.h"
#include "training/blocks_mark.h"
#include "training/checkpoint_state.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eg::pages {

std::unique_ptr<hub::Model> text_model_of(const RunFolder& run) {
  const std::string folder = join_path(run.path, "model");
  if (!file_exists(join_path(folder, "config.json")))
    throw FileError(run.path + ": has no final model yet; it is written when training is done");
  return hub::load_model(folder).model;
}

bool carries_key(const std::string& folder, const std::string& key) {
  const std::optional<training::BlocksMark> mark = training::read_blocks_mark(folder);
  if (!mark) return false;
  if (mark->key != (key.empty() ? "" : permute::SecretKey::load(key).fingerprint()))
    throw ValueError(
        fmt::format("{}: its blocks carry another key than the run's or the one given, {}, and are another "
                    "function without it",
                    folder, mark->key.empty() ? "drawn from a seed" : mark->key));
  return true;
}

data::Tokenizer tokenizer_of(const RunFolder& run) { return data::Tokenizer::open(join_path(run.path, "model")); }

void require_test_data(const RunFolder& run, const std::string& print) {
  const nlohmann::json state = training::newest_state(run.path);
  const std::string then = state.is_object() ? state.value("test_data", print) : print;
  if (then != print)
    throw ValueError(
        fmt::format("{}: its test data has changed since it was tested: {}; now {}", run.path, then, print));
}

void leave_if_stopped(const FigureOptions& o) {
  if (o.stop != nullptr && o.stop->load()) throw Interrupted("report: interrupted");
}

void report_progress(const FigureOptions& o, const std::string& what) {
  if (o.on_progress) o.on_progress(what);
}

} // namespace eg::pages
