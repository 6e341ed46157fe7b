#include "apps/reproduce/texts.h"

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "permute/blocks_key.h"
#include "permute/hub_symmetries.h"
#include "training/language/classify.h"
#include "training/language/difm_task.h"
#include "training/language/language.h"
#include "training/run.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace eg::reproduce {
namespace {

template <class Options>
Options with_plan(Options options, const Plan& plan, const RunContext& work, const TextRun& run) {
  apply_options(options, parse_json(plan.text(run.model), plan.source), plan.source);
  apply_options(options, parse_json(run.changes, plan.source), plan.source);
  options.seed = run.seed;
  options.data_dir = work.data_dir;
  options.out = run.folder;
  return options;
}

} // namespace

std::unique_ptr<training::Trainer> text_trainer(const Plan& plan, const RunContext& work, const TextRun& run) {
  if (run.model == "bert") {
    auto options = with_plan(training::ClassifyOptions(), plan, work, run);
    if (run.permuted_rows) options.permute = permute::PermuteMode::rows;
    training::resume_or_restart(options, training::classify_options_of_run);
    return training::bert_trainer(options, work.stop);
  }
  if (run.model != "gpt2") throw FileError(plan.source + ": text models are bert and gpt2, not " + run.model);
  constexpr auto kind = training::LanguageModel::gpt2;
  auto options = with_plan(training::language_defaults(kind), plan, work, run);
  training::resume_or_restart(options,
                              [](const std::string& at) { return training::language_options_of_run(at, kind); });
  return training::language_trainer(options, work.stop);
}

std::unique_ptr<training::Trainer> table_trainer(const Plan& plan, const RunContext& work, std::uint64_t seed,
                                                 permute::PermuteMode mode, const std::string& folder) {
  auto options = with_plan(training::DifmOptions(), plan, work, {.model = "difm", .seed = seed, .folder = folder});
  options.permute = mode;
  training::resume_or_restart(options, training::difm_options_of_run);
  return training::difm_trainer(options, work.stop);
}

double score(const training::Record& r) { return std::isnan(r.accuracy) ? std::exp(r.loss) : 100.0 * r.accuracy; }

Line score_line(const std::string& model, const std::string& what, const std::string& paper, Kind kind) {
  const bool accuracy = model == "bert";
  return {.what = fmt::format("{}, {}: {}", accuracy ? "BERT" : "GPT-2", what, accuracy ? "accuracy" : "perplexity"),
          .paper = paper,
          .ours = {},
          .unit = accuracy ? "%" : "",
          .decimals = accuracy ? 2 : 4,
          .kind = kind};
}

double relative_difference(double a, double b) { return std::abs(a - b) / std::max(std::abs(b), 1e-300); }

void finish(training::Trainer& trainer, const RunContext& work, const std::function<void(double)>& on_progress) {
  const auto total = static_cast<double>(trainer.total_steps());
  training::Callbacks callbacks;
  callbacks.step = [&](const training::Record& r) { on_progress(static_cast<double>(r.step) / total); };
  trainer.run(callbacks, work.stop); // also at its last step: whoever was interrupted may owe the test and the model
}

TextKey::TextKey(hub::Model& model, std::uint64_t seed) {
  const permute::ModelSymmetries symmetries = permute::symmetries_of(model, permute::TensorNames::parameters);
  std::set<std::string> inner;
  for (const permute::SymmetryGroup& group : symmetries.groups())
    if (group.is_secret() && !group.moves_outside) inner.insert(group.name);
  std::tie(axes_, permutations_) =
      symmetries.axis_map(symmetries.element(inner, permute::public_source(RandomKey{seed, 1})));
}

void TextKey::move_blocks(hub::Model& model) const {
  permute::AxisMap blocks = axes_;
  std::erase_if(blocks, [](const permute::ParameterAxes& p) { return !p.parameter.starts_with("blocks."); });
  permute::transform_module(model.module(), blocks, permutations_);
}

} // namespace eg::reproduce
