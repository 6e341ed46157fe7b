// ClassifyOptions: defaults, checks, to and from JSON.

#include "training/classify.h"
#include "training/option_fields.h"

namespace eg::training {
namespace {

/// The one list that reading and writing share: see option_fields.h.
template <class Visit> void each_option(ClassifyOptions& o, Visit&& visit) {
  visit.word("task", name_of(o.task), [&](const std::string& word) { o.task = bert_task_named(word); });
  visit("data", o.data);
  visit("data_dir", o.data_dir);
  visit("validation", o.validation);
  visit("held_out", o.held_out);
  visit("train_limit", o.train_limit);
  visit("test_limit", o.test_limit);
  visit("tokenizer", o.tokenizer);
  visit("vocabulary", o.vocabulary);
  visit("context", o.context);
  visit("dim", o.dim);
  visit("layers", o.layers);
  visit("heads", o.heads);
  visit("mlp", o.mlp);
  visit("dropout", o.dropout);
  visit("attention_dropout", o.attention_dropout);
  visit("mask_share", o.mask_share);
  visit.word("permute", name_of(o.permute),
             [&](const std::string& word) { o.permute = permute::train_mode_named(word); });
  visit.word("key_form", name_of(o.key_form),
             [&](const std::string& word) { o.key_form = permute::key_form_named(word); });
  visit("key", o.key);
  each_fine_tuning_option(o.start, visit);
  each_run_option(o, visit);
}

} // namespace

ClassifyOptions::ClassifyOptions() {
  data = "imdb";
  batch = 32;
  lr = 5e-4;
  warmup = 200;
  weight_decay = 0.05;
  clip = 1.0;
}

ClassifyOptions split_bert_defaults() {
  ClassifyOptions options;
  options.clip = 0.0;
  return options;
}

BertTask bert_task_named(std::string_view name) {
  for (const BertTask task : {BertTask::classify, BertTask::mlm})
    if (name_of(task) == name) return task;
  throw ValueError(fmt::format("task: '{}' is neither classify nor mlm", name));
}

std::string_view name_of(BertTask task) { return task == BertTask::classify ? "classify" : "mlm"; }

void check(const ClassifyOptions& o) {
  check_run_options(o);
  need(!o.data.empty(), "data", "must name labelled texts");
  need_share("held_out", o.held_out);
  need_not_negative("train_limit", o.train_limit);
  need_not_negative("test_limit", o.test_limit);
  need(o.vocabulary >= 6 && o.vocabulary <= 1 << 24, "vocabulary",
       fmt::format("must be from 6 to {}, not {}", 1 << 24, o.vocabulary));
  need(o.context >= 4 && o.context <= 1 << 16, "context",
       fmt::format("must be from 4 to {}, not {}", 1 << 16, o.context));
  need_share("mask_share", o.mask_share);
  check(o.start, o.out);
  if (!o.start.begins()) check_body(o.dim, o.layers, o.heads, o.mlp);
  need_probability("dropout", o.dropout);
  need_probability("attention_dropout", o.attention_dropout);
  need(o.key.empty() || o.permute != permute::TrainMode::none, "key", "is given, but nothing is permuted");
}

nlohmann::ordered_json options_json(const ClassifyOptions& options) {
  nlohmann::ordered_json out{{"model", "bert"}};
  ClassifyOptions copy = options;
  each_option(copy, OptionWriter{out});
  return out;
}

void apply_options(ClassifyOptions& options, const nlohmann::json& json, const std::string& source) {
  ClassifyOptions changed = options;
  OptionReader reader(json, source);
  reader.require_model("bert");
  each_option(changed, reader);
  reader.require_all_known();
  options = changed;
}

ClassifyOptions classify_options_of_run(const std::string& folder) {
  return options_to_resume(folder, "bert", ClassifyOptions());
}

} // namespace eg::training
