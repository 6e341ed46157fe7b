#include "runs/run_model.h"

#include "core/error.h"

namespace eg::runs {

std::unique_ptr<hub::Model> text_model_of(const RunFolder& run) {
  const std::string folder = data::join_path(run.path, "model");
  if (!data::file_exists(data::join_path(folder, "config.json")))
    throw FileError(run.path + ": has no final model yet; it is written when training is done");
  return hub::load_model(folder).model;
}

data::Tokenizer tokenizer_of(const RunFolder& run) { return data::Tokenizer::open(data::join_path(run.path, "model")); }

void leave_if_stopped(const FigureOptions& o) {
  if (o.stop != nullptr && o.stop->load()) throw Interrupted("report: interrupted");
}

void tell(const FigureOptions& o, const std::string& what) {
  if (o.tell) o.tell(what);
}

} // namespace eg::runs
