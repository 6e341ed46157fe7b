#pragma once
// A run's options and final model, for figures.

#include "data/bytes.h"
#include "data/tokenizer.h"
#include "hub/folder.h"
#include "runs/figures.h"

#include <memory>
#include <string>

namespace eg::runs {

/// The options that a run's config.json holds, over `options`; samples are looked for where the figures' options say.
template <class Options> Options options_in(const RunFolder& run, Options options, const FigureOptions& o) {
  apply_options(options, nlohmann::json::parse(run.options.dump()), data::join_path(run.path, "config.json"));
  if (!o.data_dir.empty()) options.data_dir = o.data_dir;
  return options;
}

/// The final model of a run on texts, in evaluation. Throws FileError while there is none.
std::unique_ptr<hub::Model> text_model_of(const RunFolder& run);
/// And its tokenizer.
data::Tokenizer tokenizer_of(const RunFolder& run);

/// Throws Interrupted when o.stop is set.
void leave_if_stopped(const FigureOptions& o);
/// Tells o.tell, if there is one.
void tell(const FigureOptions& o, const std::string& what);

} // namespace eg::runs
