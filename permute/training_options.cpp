// TrainOptions: checks, and to and from JSON.

#include "data/bytes.h"
#include "permute/checkpoint.h"
#include "permute/checkpoint_state.h"
#include "permute/training.h"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace eg::permute {
namespace {

using Json = nlohmann::json;

/// Calls visit(key, field) for every plain field and visit.word(key, name, assign) for every field that is one of a set
/// of words: the one list that reading and writing share.
template <class Visit> void each_option(TrainOptions& o, Visit&& visit) {
  nn::BlockConfig& e = o.model.encoder;
  visit("data", o.data);
  visit("data_dir", o.data_dir);
  visit("train_limit", o.train_limit);
  visit("test_limit", o.test_limit);
  visit("size", o.size);
  visit("patch", o.model.patch);
  visit("dim", e.dim);
  visit("layers", o.model.layers);
  visit("heads", e.heads);
  visit("head_dim", e.head_dim);
  visit("mlp", e.mlp);
  visit("pre_norm", e.pre_norm);
  visit("dropout", e.dropout);
  visit("norm_eps", e.norm_eps);
  visit("checkpoint_blocks", e.checkpoint);
  visit("detect_anomaly", o.detect_anomaly);
  visit.word("activation", nn::name_of(e.activation),
             [&](const std::string& word) { e.activation = nn::activation_named(word); });
  visit.word("pooling", nn::name_of(o.model.pooling),
             [&](const std::string& word) { o.model.pooling = nn::pooling_named(word); });
  visit.word("position", nn::name_of(o.model.position),
             [&](const std::string& word) { o.model.position = nn::position_embedding_named(word); });
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
  visit("weight_decay", o.weight_decay);
  visit("eps", o.eps);
  visit("clip", o.clip);
  visit("label_smoothing", o.label_smoothing);
  visit("augment", o.augment);
  visit.word("dtype", name_of(o.dtype), [&](const std::string& word) { o.dtype = dtype_named(word); });
  visit.word("precision", name_of(o.precision), [&](const std::string& word) { o.precision = products_named(word); });
  visit("seed", o.seed);
  visit.word("permute", name_of(o.permute), [&](const std::string& word) { o.permute = train_mode_named(word); });
  visit.word("key_form", name_of(o.key_form), [&](const std::string& word) { o.key_form = key_form_named(word); });
  visit("key", o.key);
  visit("twin", o.twin);
  visit("variants", o.variants);
  visit("drift_every", o.drift_every);
  visit("evaluate_every", o.evaluate_every);
  visit("checkpoint_every", o.checkpoint_every);
  visit("out", o.out);
  visit("resume", o.resume);
  visit("overwrite", o.overwrite);
}

struct Writer {
  nlohmann::ordered_json& out;
  template <class T> void operator()(const char* key, const T& value) { out[key] = value; }
  void operator()(const char* key, const std::vector<TrainMode>& modes) {
    out[key] = nlohmann::ordered_json::array();
    for (const TrainMode mode : modes) out[key].push_back(std::string(name_of(mode)));
  }
  template <class Assign> void word(const char* key, std::string_view name, Assign&&) { out[key] = std::string(name); }
};

struct Reader {
  const Json& in;
  const std::string& source;
  std::size_t used = 0;
  std::string known;

  const Json* find(const char* key) {
    known += (known.empty() ? "" : ", ") + std::string(key);
    const auto found = in.find(key);
    if (found == in.end()) return nullptr;
    ++used;
    return &*found;
  }
  [[noreturn]] void refuse(const char* key, const char* kind) const {
    throw ValueError(fmt::format("{}: '{}' must be {}, not {}", source, key, kind, in.at(key).dump()));
  }
  void operator()(const char* key, std::string& field) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_string()) refuse(key, "a text");
    if (value->get_ref<const std::string&>().find('\0') != std::string::npos) refuse(key, "a text without NUL");
    field = value->get<std::string>();
  }
  void operator()(const char* key, bool& field) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) refuse(key, "true or false");
    field = value->get<bool>();
  }
  void operator()(const char* key, double& field) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_number()) refuse(key, "a number");
    field = value->get<double>();
  }
  void operator()(const char* key, std::int64_t& field) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_number_integer()) refuse(key, "a whole number");
    field = value->get<std::int64_t>();
  }
  void operator()(const char* key, std::uint64_t& field) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_number_unsigned()) refuse(key, "a whole number from 0");
    field = value->get<std::uint64_t>();
  }
  void operator()(const char* key, std::vector<TrainMode>& field) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_array()) refuse(key, "a list");
    field.clear();
    for (const Json& one : *value) {
      if (!one.is_string()) refuse(key, "a list of texts");
      field.push_back(with_source([&] { return train_mode_named(one.get<std::string>()); }));
    }
  }
  template <class Assign> void word(const char* key, std::string_view, Assign&& assign) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_string()) refuse(key, "a word");
    with_source([&] { return assign(value->get<std::string>()), 0; });
  }
  template <class F> auto with_source(F&& f) -> decltype(f()) {
    try {
      return f();
    } catch (const ValueError& e) {
      throw ValueError(source + ": " + e.what());
    }
  }
};

void need(bool holds, const char* option, const std::string& what) {
  if (!holds) throw ValueError(fmt::format("train: {} {}", option, what));
}

void need_not_negative(const char* option, std::int64_t value) {
  need(value >= 0, option, fmt::format("must not be negative, not {}", value));
}

/// Limits far beyond what a machine can do, so that no product of counts overflows 64 bits.
void need_at_most(const char* option, std::int64_t value, std::int64_t most) {
  need(value <= most, option, fmt::format("must be at most {}, not {}", most, value));
}

void check_numbers(const TrainOptions& o) {
  need(o.batch > 0, "batch", fmt::format("must be positive, not {}", o.batch));
  need_at_most("batch", o.batch, 1 << 22);
  need(o.accumulate > 0 && o.accumulate <= o.batch, "accumulate",
       fmt::format("must be from 1 to the batch of {}, not {}", o.batch, o.accumulate));
  need_not_negative("steps", o.steps);
  need_not_negative("epochs", o.epochs);
  need_at_most("steps", o.steps, most_steps);
  need_at_most("epochs", o.epochs, 1 << 24);
  need(o.steps == 0 || o.epochs == 0, "steps", "and epochs cannot both be given");
  need(o.steps > 0 || o.epochs > 0, "steps", "or epochs must be given");
  need(o.lr > 0.0 && std::isfinite(o.lr), "lr", fmt::format("must be positive, not {}", o.lr));
  need(o.final_fraction >= 0.0 && o.final_fraction <= 1.0, "final_fraction",
       fmt::format("must be in [0, 1], not {}", o.final_fraction));
  need(o.clip >= 0.0, "clip", fmt::format("must not be negative, not {}", o.clip));
  need(o.label_smoothing >= 0.0 && o.label_smoothing < 1.0, "label_smoothing",
       fmt::format("must be in [0, 1), not {}", o.label_smoothing));
  need(is_floating(o.dtype), "dtype", fmt::format("must be f32 or f64, not {}", name_of(o.dtype)));
  need(o.precision == Products::full || o.dtype == DType::f32, "precision", "bf16 needs dtype f32");
  need_not_negative("warmup", o.warmup);
  need_not_negative("drift_every", o.drift_every);
  need_not_negative("evaluate_every", o.evaluate_every);
  need_not_negative("checkpoint_every", o.checkpoint_every);
  need_not_negative("train_limit", o.train_limit);
  need_not_negative("test_limit", o.test_limit);
}

void check_variants(const TrainOptions& o) {
  for (std::size_t i = 0; i < o.variants.size(); ++i)
    need(std::count(o.variants.begin(), o.variants.end(), o.variants[i]) == 1, "variants",
         fmt::format("holds '{}' twice", name_of(o.variants[i])));
  need(!o.twin || o.permute != TrainMode::none, "twin", "needs a permutation to compare with: give permute");
  const bool several = o.twin || o.variants.size() > 1;
  need(!several || o.model.encoder.dropout == 0.0, "dropout",
       "must be 0 for twins: masks are drawn by place, so a permuted twin would drop other elements");
  const auto used = [&](bool (*permutes)(TrainMode)) {
    return permutes(o.permute) || std::any_of(o.variants.begin(), o.variants.end(), permutes);
  };
  const bool any = used([](TrainMode m) { return m != TrainMode::none; });
  need(o.key.empty() || any, "key", "is given, but nothing is permuted");
  need(o.checkpoint_every == 0 || !o.out.empty(), "checkpoint_every", "needs a run folder: give out");
}

} // namespace

TrainMode train_mode_named(std::string_view name) {
  for (const TrainMode mode : {TrainMode::none, TrainMode::rows, TrainMode::columns, TrainMode::both})
    if (name_of(mode) == name) return mode;
  throw ValueError(fmt::format("permute: '{}' is not one of none, rows, columns, both", name));
}

std::string_view name_of(TrainMode mode) {
  switch (mode) {
  case TrainMode::none:
    return "none";
  case TrainMode::rows:
    return "rows";
  case TrainMode::columns:
    return "columns";
  case TrainMode::both:
    return "both";
  }
  return "?";
}

void check(const TrainOptions& options) {
  check_numbers(options);
  check_variants(options);
  optim::make_optimizer(options.optimizer, {}, options.weight_decay, options.eps); // refuses names and values
}

nlohmann::ordered_json options_json(const TrainOptions& options) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  TrainOptions copy = options;
  each_option(copy, Writer{out});
  return out;
}

void apply_options(TrainOptions& options, const Json& json, const std::string& source) {
  if (!json.is_object()) throw ValueError(source + ": options must be a JSON object");
  TrainOptions changed = options;
  Reader reader{.in = json, .source = source, .used = 0, .known = {}};
  each_option(changed, reader);
  if (reader.used != json.size()) {
    const nlohmann::ordered_json all = options_json(options);
    for (const auto& [key, value] : json.items())
      if (!all.contains(key))
        throw ValueError(fmt::format("{}: unknown option '{}'; known are {}", source, key, reader.known));
  }
  options = changed;
}

namespace {

TrainOptions options_of_checkpoint(const std::string& checkpoint, const std::string& resume) {
  const Json state = read_checkpoint_state(checkpoint);
  TrainOptions options;
  try {
    apply_options(options, state.at("options"), data::join_path(checkpoint, "state.json"));
  } catch (const ValueError& e) {
    throw DamagedCheckpoint(e.what());
  }
  options.resume = resume;
  // RUN/checkpoints/step-N
  const std::filesystem::path run = std::filesystem::path(checkpoint).parent_path().parent_path();
  if (!run.empty()) options.out = run.string();
  return options;
}

} // namespace

TrainOptions options_of_run(const std::string& folder) {
  std::string damaged;
  for (const std::string& checkpoint : find_checkpoints(folder)) try {
      return options_of_checkpoint(checkpoint, folder);
    } catch (const DamagedCheckpoint& e) {
      if (damaged.empty()) damaged = e.what();
    }
  throw DamagedCheckpoint(damaged);
}

} // namespace eg::permute
