#pragma once
// Options to and from one flat JSON object: a list of fields that reading and writing share. Not for users: they call
// options_json() and apply_options() of what they train.

#include "core/base/error.h"
#include "training/options.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace eg::training {

/// Calls visit(key, field) for every plain field and visit.word(key, name, assign) for every field that is one of a set
/// of words.
template <class Visit> void each_run_option(RunOptions& o, Visit&& visit) {
  visit("steps", o.steps);
  visit("epochs", o.epochs);
  visit("batch", o.batch);
  visit("accumulate", o.accumulate);
  visit("optimizer", o.optimizer);
  visit("lr", o.lr);
  visit.word("schedule", optim::name_of(o.schedule),
             [&](const std::string& word) { o.schedule = optim::schedule_named(word); });
  visit("warmup", o.warmup);
  visit("final_fraction", o.final_fraction);
  visit("drop_every", o.drop_every);
  visit("drop_factor", o.drop_factor);
  visit("weight_decay", o.weight_decay);
  visit.word("decay_on", name_of(o.decay_on), [&](const std::string& word) { o.decay_on = decay_on_named(word); });
  visit("layer_decay", o.layer_decay);
  visit("eps", o.eps);
  visit("clip", o.clip);
  visit("label_smoothing", o.label_smoothing);
  visit("ema", o.ema);
  visit.word("dtype", name_of(o.dtype), [&](const std::string& word) { o.dtype = dtype_named(word); });
  visit.word("precision", name_of(o.precision), [&](const std::string& word) { o.precision = products_named(word); });
  visit("seed", o.seed);
  visit("detect_anomaly", o.detect_anomaly);
  visit("evaluate_every", o.evaluate_every);
  visit("checkpoint_every", o.checkpoint_every);
  visit("keep", o.keep);
  visit.word("best", name_of(o.best), [&](const std::string& word) { o.best = best_by_named(word); });
  visit.word("on_divergence", name_of(o.on_divergence),
             [&](const std::string& word) { o.on_divergence = on_divergence_named(word); });
  visit("spike_guard", o.spike_guard);
  visit("skip_limit", o.skip_limit);
  visit("csv", o.csv);
  visit("tensorboard", o.tensorboard);
  visit("out", o.out);
  visit("resume", o.resume);
  visit("overwrite", o.overwrite);
}

/// Writes the fields that it visits.
struct OptionWriter {
  nlohmann::ordered_json& out;

  template <class T> void operator()(const char* key, const T& value) { out[key] = value; }
  template <class Assign> void word(const char* key, std::string_view name, Assign&&) { out[key] = std::string(name); }
  template <class Assign> void words(const char* key, const std::vector<std::string>& names, Assign&&) {
    out[key] = names;
  }
};

/// Reads the fields that it visits, where the object has them. Throws ValueError, beginning with `source`, for a value
/// of another kind or a word that no option knows.
class OptionReader {
public:
  OptionReader(const nlohmann::json& in, const std::string& source) : in_(in), source_(source) {
    if (!in.is_object()) throw ValueError(source + ": options must be a JSON object");
  }

  void operator()(const char* key, std::string& field);
  void operator()(const char* key, bool& field);
  void operator()(const char* key, double& field);
  void operator()(const char* key, std::int64_t& field);
  void operator()(const char* key, std::uint64_t& field);
  template <class Assign> void word(const char* key, std::string_view, Assign&& assign) {
    std::string value;
    if (read_word(key, value)) with_source([&] { assign(value); });
  }
  template <class Assign> void words(const char* key, const std::vector<std::string>&, Assign&& assign) {
    std::vector<std::string> values;
    if (read_words(key, values)) with_source([&] { assign(values); });
  }
  /// The model that the options are for, where they say: the key "model". Throws ValueError when it is another one.
  void require_model(std::string_view model);
  /// Throws ValueError that names a key which nobody asked for, and the nearest one that is known.
  void require_all_known() const;

private:
  const nlohmann::json* find(const char* key);
  bool read_word(const char* key, std::string& value);
  bool read_words(const char* key, std::vector<std::string>& values);
  [[noreturn]] void refuse(const char* key, const char* kind) const;
  template <class F> void with_source(F&& f) const {
    try {
      f();
    } catch (const ValueError& e) {
      throw ValueError(source_ + ": " + e.what());
    }
  }

  const nlohmann::json& in_;
  const std::string& source_;
  std::vector<std::string> known_;
};

/// Throws ValueError "train: OPTION what" unless it holds.
void need(bool holds, const char* option, const std::string& what);
void need_not_negative(const char* option, std::int64_t value);
void need_positive(const char* option, std::int64_t value);
/// Limits far beyond what a machine can do, so that no product of counts overflows 64 bits.
void need_at_most(const char* option, std::int64_t value, std::int64_t most);
void need_probability(const char* option, double value); ///< in [0, 1)
void need_share(const char* option, double value);       ///< in (0, 1)
/// What twins ask of the other options: a permutation to compare with, no dropout, every step taken. `several`: models
/// are trained side by side.
void check_twins(const RunOptions& options, bool twin, bool several, bool permutes, double dropout);
/// Sizes of a transformer of text: heads divide dim; mlp 0 stands for the family's own width.
void check_body(std::int64_t dim, std::int64_t layers, std::int64_t heads, std::int64_t mlp);

} // namespace eg::training
