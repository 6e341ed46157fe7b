// DifmOptions: defaults, checks, to and from JSON.

#include "training/difm_task.h"
#include "training/option_fields.h"
#include "training/run.h"

namespace eg::permute {
namespace {

/// The one list that reading and writing share: see training/option_fields.h.
template <class Visit> void each_option(DifmOptions& o, Visit&& visit) {
  data::TabularOptions& t = o.table;
  visit("data", o.data);
  visit("data_dir", o.data_dir);
  visit("validation", t.validation);
  visit("held_out", t.held_out);
  visit("train_limit", t.train_limit);
  visit("test_limit", t.test_limit);
  visit("header", t.header);
  visit("label", t.label);
  visit("positive", t.positive);
  visit("dense", t.dense);
  visit("categorical", t.categorical);
  visit.word("scale", data::name_of(t.scale),
             [&](const std::string& word) { t.scale = data::number_scale_named(word); });
  visit("min_count", t.min_count);
  visit("buckets", t.buckets);
  visit("dim", o.dim);
  visit("heads", o.heads);
  visit("head_dim", o.head_dim);
  visit("hidden", o.hidden);
  visit.word("activation", nn::name_of(o.activation),
             [&](const std::string& word) { o.activation = nn::activation_named(word); });
  visit("dropout", o.dropout);
  visit.word("permute", name_of(o.permute), [&](const std::string& word) { o.permute = train_mode_named(word); });
  visit("key", o.key);
  training::each_fine_tuning_option(o.start, visit);
  training::each_run_option(o, visit);
}

} // namespace

DifmOptions::DifmOptions() {
  data = "criteo";
  batch = 64;
  lr = 1e-3;
}

void check(const DifmOptions& o) {
  using training::need;
  check_run_options(o);
  need(!o.data.empty(), "data", "must name a table");
  need(!o.table.label.empty(), "label", "must name a column");
  training::need_share("held_out", o.table.held_out);
  training::need_not_negative("train_limit", o.table.train_limit);
  training::need_not_negative("test_limit", o.table.test_limit);
  training::need_positive("min_count", o.table.min_count);
  need(o.table.buckets == 0 || o.table.buckets >= 2, "buckets",
       fmt::format("must be 0, or 2 and more, not {}", o.table.buckets));
  training::need_at_most("buckets", o.table.buckets, 1 << 28);
  for (const auto& [name, value] : {std::pair{"dim", o.dim}, {"heads", o.heads}, {"head_dim", o.head_dim}}) {
    training::need_positive(name, value);
    training::need_at_most(name, value, 1 << 16);
  }
  training::need_probability("dropout", o.dropout);
  need(o.permute == TrainMode::none || o.permute == TrainMode::rows, "permute",
       fmt::format("must be none or rows, not {}: the fields are the rows", name_of(o.permute)));
  training::check(o.start, o.out);
  need(o.key.empty() || o.permute == TrainMode::rows, "key", "is given, but nothing is permuted");
}

nlohmann::ordered_json options_json(const DifmOptions& options) {
  nlohmann::ordered_json out{{"model", "difm"}};
  DifmOptions copy = options;
  each_option(copy, training::OptionWriter{out});
  return out;
}

void apply_options(DifmOptions& options, const nlohmann::json& json, const std::string& source) {
  DifmOptions changed = options;
  training::OptionReader reader(json, source);
  reader.require_model("difm");
  each_option(changed, reader);
  reader.require_all_known();
  options = changed;
}

DifmOptions difm_options_of_run(const std::string& folder) {
  return training::options_to_resume(folder, "difm", DifmOptions());
}

} // namespace eg::permute
