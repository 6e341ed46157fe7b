#pragma once
// Loads a run's options and final model, for figures.

#include "apps/report/pages/figures.h"
#include "core/base/bytes.h"
#include "data/text/tokenizer.h"
#include "nn/hub/folder.h"
#include "training/language/classify.h"

#include <memory>
#include <string>

namespace eg::pages {

/// Takes the paths of samples and key from the figures' options.
template <class Options> void override_data_paths(Options& options, const FigureOptions& o) {
  if (!o.data_dir.empty()) options.data_dir = o.data_dir;
  if (!o.data.empty()) options.data = o.data;
  if constexpr (requires { options.key; })
    if (!o.key.empty() && !options.key.empty()) options.key = o.key;
}

/// The options that a run's config.json holds, over `options`.
template <class Options> Options options_in(const RunFolder& run, Options options, const FigureOptions& o) {
  apply_options(options, run.options, join_path(run.path, "config.json"));
  override_data_paths(options, o);
  return options;
}

/// The final model of a run on texts, in evaluation. Throws FileError while there is none.
std::unique_ptr<hub::Model> text_model_of(const RunFolder& run);
/// Whether the blocks of a folder with weights are marked as permuted (training/blocks_mark.h). Throws ValueError when
/// they carry another key than that of the file `key` ("": the seed's), FileError.
bool carries_key(const std::string& folder, const std::string& key);
/// The same with plain blocks where the run left them permuted. Throws ValueError when the key is another one, or
/// another holder's.
template <class Options> std::unique_ptr<hub::Model> plain_model_of(const RunFolder& run, const Options& options) {
  std::unique_ptr<hub::Model> model = text_model_of(run);
  if (carries_key(join_path(run.path, "model"), options.key)) restore_blocks(model->module(), options);
  return model;
}
/// The tokenizer of such a run.
data::Tokenizer tokenizer_of(const RunFolder& run);

/// Throws ValueError when what a run was tested on had another fingerprint (training::DataFingerprint) than `print`.
void require_test_data(const RunFolder& run, const std::string& print);

/// Throws Interrupted when o.stop is set.
void leave_if_stopped(const FigureOptions& o);
/// Calls o.on_progress, if set.
void report_progress(const FigureOptions& o, const std::string& what);

} // namespace eg::pages
