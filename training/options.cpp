#include "training/options.h"

#include "core/base/words.h"
#include "optim/optimizer.h"
#include "training/option_fields.h"

#include <algorithm>
#include <cmath>

namespace eg::training {

DecayOn decay_on_named(std::string_view name) {
  for (const DecayOn on : {DecayOn::all, DecayOn::matrices})
    if (name_of(on) == name) return on;
  throw ValueError(fmt::format("decay_on: '{}' is not one of all, matrices", name));
}

std::string_view name_of(DecayOn on) { return on == DecayOn::all ? "all" : "matrices"; }

void need(bool holds, const char* option, const std::string& what) {
  if (!holds) throw ValueError(fmt::format("train: {} {}", option, what));
}

void need_not_negative(const char* option, std::int64_t value) {
  need(value >= 0, option, fmt::format("must not be negative, not {}", value));
}

void need_positive(const char* option, std::int64_t value) {
  need(value > 0, option, fmt::format("must be positive, not {}", value));
}

void need_at_most(const char* option, std::int64_t value, std::int64_t most) {
  need(value <= most, option, fmt::format("must be at most {}, not {}", most, value));
}

void need_probability(const char* option, double value) {
  need(value >= 0.0 && value < 1.0, option, fmt::format("must be in [0, 1), not {}", value));
}

void need_share(const char* option, double value) {
  need(value > 0.0 && value < 1.0, option, fmt::format("must be in (0, 1), not {}", value));
}

void check_body(std::int64_t dim, std::int64_t layers, std::int64_t heads, std::int64_t mlp) {
  for (const auto& [name, value] : {std::pair{"dim", dim}, {"layers", layers}, {"heads", heads}}) {
    need_positive(name, value);
    need_at_most(name, value, 1 << 16);
  }
  need_not_negative("mlp", mlp);
  need_at_most("mlp", mlp, 1 << 20);
  need(dim % heads == 0, "dim", fmt::format("{} is not a multiple of heads {}", dim, heads));
}

OnDivergence on_divergence_named(std::string_view name) {
  for (const OnDivergence what : {OnDivergence::stop, OnDivergence::skip})
    if (name_of(what) == name) return what;
  throw ValueError(fmt::format("on_divergence: '{}' is not one of stop, skip", name));
}

std::string_view name_of(OnDivergence what) { return what == OnDivergence::stop ? "stop" : "skip"; }

BestBy best_by_named(std::string_view name) {
  for (const BestBy by : {BestBy::off, BestBy::loss, BestBy::accuracy})
    if (name_of(by) == name) return by;
  throw ValueError(fmt::format("best: '{}' is not one of off, loss, accuracy", name));
}

std::string_view name_of(BestBy by) {
  switch (by) {
  case BestBy::off:
    return "off";
  case BestBy::loss:
    return "loss";
  case BestBy::accuracy:
    return "accuracy";
  }
  return "?";
}

void check_run_options(const RunOptions& o) {
  need_positive("batch", o.batch);
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
  need_not_negative("drop_every", o.drop_every);
  need(o.drop_factor > 0.0 && o.drop_factor <= 1.0, "drop_factor",
       fmt::format("must be in (0, 1], not {}", o.drop_factor));
  need(o.clip >= 0.0, "clip", fmt::format("must not be negative, not {}", o.clip));
  need(o.layer_decay > 0.0 && o.layer_decay <= 1.0, "layer_decay",
       fmt::format("must be in (0, 1], not {}", o.layer_decay));
  need_probability("label_smoothing", o.label_smoothing);
  need_probability("ema", o.ema);
  need(is_floating(o.dtype), "dtype", fmt::format("must be f32 or f64, not {}", name_of(o.dtype)));
  need(o.precision == Products::full || o.dtype == DType::f32, "precision", "bf16 needs dtype f32");
  need_not_negative("warmup", o.warmup);
  need_not_negative("evaluate_every", o.evaluate_every);
  need_not_negative("checkpoint_every", o.checkpoint_every);
  need(o.checkpoint_every == 0 || !o.out.empty(), "checkpoint_every", "needs a run folder: give out");
  need_positive("keep", o.keep);
  need(o.spike_guard == 0.0 || (o.spike_guard > 1.0 && std::isfinite(o.spike_guard)), "spike_guard",
       fmt::format("must be above 1, or 0 for none, not {}", o.spike_guard));
  need_positive("skip_limit", o.skip_limit);
  need(!o.detect_anomaly || o.on_divergence == OnDivergence::stop, "detect_anomaly",
       "stops at the first NaN or infinity; on_divergence skip would go on");
  optim::make_optimizer(o.optimizer, {}, o.weight_decay, o.eps); // refuses names and values
}

void check_twins(const RunOptions& o, bool twin, bool several, bool permutes, double dropout) {
  need(!twin || permutes, "twin", "needs a permutation to compare with: give permute");
  need(!several || dropout == 0.0, "dropout",
       "must be 0 for twins: masks are drawn by place, so a permuted twin would drop other elements");
  need(!several || (o.on_divergence == OnDivergence::stop && o.spike_guard == 0.0),
       o.spike_guard > 0.0 ? "spike_guard" : "on_divergence",
       "is for one model: of twins each would skip steps of its own, by the rounding of its loss");
}

const nlohmann::json* OptionReader::find(const char* key) {
  known_.emplace_back(key);
  const auto found = in_.find(key);
  return found == in_.end() ? nullptr : &*found;
}

void OptionReader::refuse(const char* key, const char* kind) const {
  throw ValueError(fmt::format("{}: '{}' must be {}, not {}", source_, key, kind, in_.at(key).dump()));
}

void OptionReader::operator()(const char* key, std::string& field) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_string()) refuse(key, "a text");
  if (value->get_ref<const std::string&>().find('\0') != std::string::npos) refuse(key, "a text without NUL");
  field = value->get<std::string>();
}

void OptionReader::operator()(const char* key, bool& field) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_boolean()) refuse(key, "true or false");
  field = value->get<bool>();
}

void OptionReader::operator()(const char* key, double& field) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_number()) refuse(key, "a number");
  field = value->get<double>();
}

void OptionReader::operator()(const char* key, std::int64_t& field) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_number_integer()) refuse(key, "a whole number");
  field = value->get<std::int64_t>();
}

void OptionReader::operator()(const char* key, std::uint64_t& field) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_number_unsigned()) refuse(key, "a whole number from 0");
  field = value->get<std::uint64_t>();
}

bool OptionReader::read_word(const char* key, std::string& value) {
  const nlohmann::json* found = find(key);
  if (found == nullptr) return false;
  if (!found->is_string()) refuse(key, "a word");
  value = found->get<std::string>();
  return true;
}

bool OptionReader::read_words(const char* key, std::vector<std::string>& values) {
  const nlohmann::json* found = find(key);
  if (found == nullptr) return false;
  if (!found->is_array()) refuse(key, "a list");
  for (const nlohmann::json& one : *found) {
    if (!one.is_string()) refuse(key, "a list of texts");
    values.push_back(one.get<std::string>());
  }
  return true;
}

void OptionReader::require_model(std::string_view model) {
  std::string named;
  if (read_word("model", named) && named != model)
    throw ValueError(fmt::format("{}: the options are for a model of kind '{}', not '{}'", source_, named, model));
}

void OptionReader::require_all_known() const {
  for (const auto& [key, value] : in_.items())
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      const std::string hint = did_you_mean(key, known_);
      throw ValueError(fmt::format("{}: unknown option '{}'{}{}", source_, key, hint,
                                   hint.empty() ? fmt::format("; known are {}", fmt::join(known_, ", ")) : ""));
    }
}

optim::Schedule schedule_of(const RunOptions& options, std::int64_t total_steps) {
  return {.kind = options.schedule,
          .base = options.lr,
          .warmup = options.warmup,
          .total_steps = total_steps,
          .final_fraction = options.final_fraction,
          .drop_every = options.drop_every,
          .drop_factor = options.drop_factor};
}

} // namespace eg::training
