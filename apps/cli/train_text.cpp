// equigrad train bert, train gpt2 and train llama: models of text; and what training one model looks like.

#include "apps/cli/model_files.h"
#include "apps/cli/named_data.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/train_job.h"
#include "apps/cli/train_lines.h"

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "data/text/text.h"
#include "distributed/communicator.h"
#include "training/checkpoint.h"
#include "training/language/classify.h"
#include "training/language/dropout_note.h"
#include "training/language/language.h"
#include "training/new_run.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg::cli {
namespace {

using training::Record;
using training::Trainer;
using training::VariantRecord;

std::string values_text(double loss, double accuracy, double auc = training::not_measured) {
  std::string text = fmt::format("loss {:.4f}", loss);
  if (!std::isnan(accuracy)) text += fmt::format(" accuracy {:.2f} %", 100 * accuracy);
  if (!std::isnan(auc)) text += fmt::format(" AUC {:.4f}", auc);
  return text;
}

/// "[none] " before what is said of one model of several.
std::string name_among(const Record& record, const VariantRecord& v) {
  return record.variants.size() > 1 ? fmt::format("[{}] ", name_of(v.mode)) : "";
}

std::string test_text(const Record& record) {
  std::string text;
  for (const VariantRecord& v : record.variants) {
    text += "  " + name_among(record, v) + values_text(v.loss, v.accuracy, v.auc);
    if (!std::isnan(v.drift)) text += fmt::format(" drift {:.1e}", v.drift);
    if (!std::isnan(v.ema_loss)) text += "  average: " + values_text(v.ema_loss, v.ema_accuracy);
  }
  return text;
}

/// Of every model the loss, the drift that was measured last and the accuracy; the main model's stay longest.
std::vector<ProgressField> progress_fields(const Record& record, const Trainer& trainer,
                                           const std::vector<double>& drift) {
  std::vector<ProgressField> fields = {{fmt::format("step {}/{}", record.step, trainer.total_steps()), 1}};
  for (std::size_t i = 0; i < record.variants.size(); ++i) {
    const VariantRecord& v = record.variants[i];
    const bool main = i + 1 == record.variants.size();
    const std::string name = name_among(record, v);
    fields.push_back({fmt::format("{}loss {:.4f}", name, v.loss), main ? 3 : 5});
    if (!std::isnan(drift[i])) fields.push_back({fmt::format("{}drift {:.1e}", name, drift[i]), main ? 4 : 6});
    if (!std::isnan(v.accuracy))
      fields.push_back({fmt::format("{}accuracy {:.2f} %", name, 100 * v.accuracy), main ? 7 : 8});
  }
  fields.push_back({fmt::format("{:.0f} {}/s", record.per_s, trainer.unit()), 8});
  fields.push_back(memory_field());
  return fields;
}

training::Callbacks callbacks(Progress& progress, const Trainer& trainer, bool talks, const SplitJob* split) {
  training::Callbacks callbacks;
  callbacks.step = [&progress, &trainer, split, drift = std::vector<double>()](const Record& r) mutable {
    drift.resize(r.variants.size(), training::not_measured);
    for (std::size_t i = 0; i < drift.size(); ++i)
      if (!std::isnan(r.variants[i].drift)) drift[i] = r.variants[i].drift;
    std::vector<ProgressField> fields = progress_fields(r, trainer, drift);
    if (split != nullptr) fields.push_back(split->progress());
    progress.show(static_cast<double>(r.step), static_cast<double>(trainer.total_steps()), fields);
  };
  callbacks.test = [&progress, talks](const Record& r) {
    progress.clear();
    if (talks) say(fmt::format("test   step {:>6}{}\n", r.step, test_text(r)));
  };
  callbacks.skipped = [&progress, &trainer, talks](const std::string& why) {
    progress.clear();
    if (talks) say(skipped_line(trainer.step(), why));
  };
  callbacks.testing = [&progress, &trainer](double share) {
    progress.show(static_cast<double>(trainer.step()), static_cast<double>(trainer.total_steps()),
                  {{fmt::format("step {}/{}", trainer.step(), trainer.total_steps()), 1},
                   {fmt::format("testing {:.0f} %", 100 * share), 2}});
  };
  callbacks.checkpoint = [&progress, talks](const std::string& folder) {
    progress.clear();
    if (talks) say(fmt::format("saved  {}\n", folder));
  };
  return callbacks;
}

} // namespace

void add_variants(nlohmann::json& json, const training::Result& result) {
  const double drift = result.test.drift;
  json["drift"] = std::isnan(drift) ? nlohmann::json() : nlohmann::json(drift);
  json["variants"] = nlohmann::json::array();
  for (std::size_t i = 0; i < result.test.variants.size(); ++i) {
    const VariantRecord& v = result.test.variants[i];
    const bool trained = i < result.train.variants.size();
    nlohmann::json one = {{"permute", name_of(v.mode)},
                          {"train_loss", trained ? nlohmann::json(result.train.variants[i].loss) : nlohmann::json()},
                          {"loss", v.loss}};
    for (const auto& [key, value] :
         {std::pair{"accuracy", v.accuracy}, {"ema_loss", v.ema_loss}, {"ema_accuracy", v.ema_accuracy}})
      if (!std::isnan(value)) one[key] = value;
    json["variants"].push_back(std::move(one));
  }
}

namespace {

nlohmann::json result_json(const training::Result& result, const Trainer& trainer, const std::string& out) {
  nlohmann::json json = {{"steps", result.steps},
                         {"loss", result.test.loss},
                         {"train_loss", result.train.step > 0 ? nlohmann::json(result.train.loss) : nlohmann::json()},
                         {"seconds", result.seconds},
                         {fmt::format("{}_per_s", trainer.unit()), result.per_s}};
  for (const auto& [key, value] : {std::pair{"accuracy", result.test.accuracy},
                                   {"auc", result.test.auc},
                                   {"ema_loss", result.test.ema_loss},
                                   {"ema_accuracy", result.test.ema_accuracy}})
    if (!std::isnan(value)) json[key] = value;
  if (result.test.variants.size() > 1) add_variants(json, result);
  add_run_fields(json, result.skipped, result.best, out);
  return json;
}

bool is_there(const std::string& path) { return file_exists(path) || folder_exists(path); }

/// Whether an error's words begin with a path, or with one below it.
bool begins_with_path(std::string_view words, std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return !path.empty() && words.starts_with(path) && words.size() > path.size() &&
         (words[path.size()] == ':' || words[path.size()] == '/');
}

} // namespace

void reading(const TrainRequest& request, const Sources& sources, FunctionRef<void()> read) {
  try {
    naming_config(request.config, request.given, read);
  } catch (const FileError& e) {
    if (!request.gives(&training::RunOptions::resume)) throw;
    for (const auto& [option, place] : sources)
      if (begins_with_path(e.what(), place) && !is_there(place) && !request.given.contains(option))
        throw FileError(
            fmt::format("{}; if it has moved since the run began, name its place with --{}", e.what(), option));
    throw;
  }
}

std::unique_ptr<Trainer> opened(const TrainRequest& request, const std::string& data,
                                FunctionRef<std::unique_ptr<Trainer>()> make) {
  Progress progress(!request.common.quiet);
  progress.show(0.0, 1.0, {{"reading " + data, 1}});
  return make();
}

namespace {

/// False also where a failing disk cannot be read: then the first failure is reported.
bool has_checkpoint(const std::string& run) {
  try {
    return !training::checkpoint_steps(run).empty();
  } catch (const FileError&) {
    return false;
  }
}

} // namespace

std::string blocks_words(const SplitJob* split) { return split == nullptr ? "" : "; the blocks are in the cloud"; }

void with_resume_hint(const TrainRequest& request, const SplitJob* split, const std::string& out,
                      FunctionRef<void()> train) {
  const std::string way =
      fmt::format("go on with: {} --resume {}", split != nullptr ? split->command : "equigrad train " + request.model,
                  shell_word(out));
  try {
    train();
  } catch (const Interrupted& e) {
    throw Interrupted(fmt::format("{}; {}", e.what(), way));
  } catch (const Error& e) {
    const bool may_mend = split != nullptr || dynamic_cast<const FileError*>(&e) != nullptr;
    if (!may_mend || !has_checkpoint(out)) throw;
    throw Error(fmt::format("{}; the last checkpoint is kept, {}", e.what(), way));
  }
  if (output_is_lost())
    throw FileError(fmt::format("standard output: cannot be written; the run is complete, in {}", out));
}

namespace {

/// What the encoder gives to a holder who lacks the key.
void add_without_key(nlohmann::json& json, Trainer& trainer, bool talks) {
  json["without_key"] = nullptr;
  if (!trainer.hides_columns()) return;
  const Record r = trainer.test_without_key(&stop_flag());
  json["without_key"] = {{"loss", r.loss}};
  if (!std::isnan(r.accuracy)) json["without_key"]["accuracy"] = r.accuracy;
  if (talks) say(fmt::format("without the key: {}\n", values_text(r.loss, r.accuracy)));
}

/// What several processes cost this one.
void add_traffic(nlohmann::json& json, const CommonOptions& common) {
  if (common.processes == nullptr || common.processes->alone()) return;
  const distributed::Communicator::Traffic traffic = common.processes->traffic();
  json["processes"] = common.processes->size();
  json["waited_seconds"] = traffic.waited;
  json["sent_bytes"] = traffic.sent;
}

} // namespace

int train_to_end(Trainer& trainer, const TrainRequest& request, const std::string& out, const std::string& model,
                 const SplitJob* split, const ResultJson& result_of) {
  const CommonOptions& common = request.common;
  const bool speaks = common.processes == nullptr || common.processes->first();
  for (const std::string& note : trainer.notes())
    if (speaks) std::fputs(fmt::format("equigrad: {}\n", note).c_str(), stderr);
  if (common.talks())
    say(fmt::format("{}{}; {} steps{}\n", trainer.summary(), blocks_words(split), trainer.total_steps(),
                    trainer.step_words()));
  say_note(common, training::dropout_note(trainer.options_json()));
  const bool complete = trainer.step() == trainer.total_steps();
  Progress progress(!common.quiet);
  with_resume_hint(request, split, out, [&] {
    const training::Result result = trainer.run(callbacks(progress, trainer, common.talks(), split), &stop_flag());
    progress.clear();
    const std::string how =
        complete ? "tested; training was already complete"
                 : fmt::format("done in {}: {:.0f} {}/s", clock_time(result.seconds), result.per_s, trainer.unit());
    if (common.talks())
      say(fmt::format("{}, run folder {}{}{}{}\n", how, out, model.empty() ? "" : ", model ", model,
                      best_words(result.best, result.steps, out)));
    nlohmann::json json = result_of ? result_of(result) : result_json(result, trainer, out);
    add_traffic(json, common);
    if (split != nullptr) {
      add_without_key(json, trainer, common.talks());
      split->result(json);
    }
    write_json(common, json);
  });
  return done;
}

namespace {

/// Files that a run on text reads, and that its results must spare. `text`: what --data stands for.
std::vector<std::string> files_read(const std::string& text, const std::string& validation,
                                    const std::string& tokenizer, const training::FineTuning& start) {
  return {text, validation, tokenizer, start.begins() ? training::start_folder(start) : std::string()};
}

/// The longest text that nobody asked for is not longer than what the model takes that the run begins from.
template <class Options> void fit_context(const TrainRequest& request, Options& o) {
  const bool asked = request.given.contains(training::option_key(o, o.context)) ||
                     request.gives(&training::RunOptions::resume) || !request.config.empty();
  if (asked || !o.start.begins()) return;
  if (const std::int64_t most = training::positions_of_start(o.start); most > 0) o.context = std::min(o.context, most);
}

} // namespace

int train_language(const TrainRequest& request) {
  const auto model = request.model == "gpt2" ? training::LanguageModel::gpt2 : training::LanguageModel::llama;
  training::LanguageOptions options =
      options_for(request, training::language_defaults(model),
                  [&](const std::string& folder) { return training::language_options_of_run(folder, model); });
  std::unique_ptr<Trainer> trainer;
  reading(request, sources_of(options), [&] {
    const std::string text = data::find_text(options.data, options.data_dir);
    fit_context(request, options);
    if (options.start.begins()) warn_of_key(training::start_folder(options.start));
    training::in_run_folder(request.model, options, request.common.processes, [&] {
      std::vector<std::string> read = files_read(text, options.validation, options.tokenizer, options.start);
      read.push_back(options.key);
      add_files(request, read, options);
      trainer = opened(request, options.data,
                       [&] { return training::language_trainer(options, &stop_flag(), request.common.processes); });
    });
  });
  return train_to_end(*trainer, request, options.out, join_path(options.out, "model"));
}

int train_bert(const TrainRequest& request, const SplitJob* split) {
  training::ClassifyOptions options =
      options_for(request, split != nullptr ? training::split_bert_defaults() : training::ClassifyOptions(),
                  training::classify_options_of_run);
  std::unique_ptr<Trainer> trainer;
  reading(request, sources_of(options), [&] {
    const bool masked = options.task == training::BertTask::mlm;
    const std::string data =
        masked ? data::find_text(options.data, options.data_dir) : data_path(request.model, options.data);
    std::vector<std::string> read = files_read(data, options.validation, options.tokenizer, options.start);
    read.push_back(options.key);
    fit_context(request, options);
    if (options.start.begins()) warn_of_key(training::start_folder(options.start));
    if (split != nullptr) read.push_back(split->training.next_key);
    training::in_run_folder(split != nullptr ? "edge-bert" : request.model, options, request.common.processes, [&] {
      add_files(request, read, options);
      trainer = opened(request, options.data, [&] {
        return training::bert_trainer(options, &stop_flag(),
                                      split != nullptr ? split->training : training::SplitTraining(),
                                      request.common.processes);
      });
    });
  });
  return train_to_end(*trainer, request, options.out, join_path(options.out, "model"), split);
}

} // namespace eg::cli
