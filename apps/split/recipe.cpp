#include "apps/split/recipe.h"

#include "training/option_fields.h"

namespace eg::privacy {
namespace {

/// The one list that reading and writing share: see training/option_fields.h.
template <class Visit> void each_field(training::EncoderRecipe& r, Visit&& visit) {
  nn::BlockConfig& b = r.block;
  visit("dim", b.dim);
  visit("layers", r.layers);
  visit("heads", b.heads);
  visit("head_dim", b.head_dim);
  visit("mlp", b.mlp);
  visit("pre_norm", b.pre_norm);
  visit("norm_eps", b.norm_eps);
  visit.word("activation", nn::name_of(b.activation),
             [&](const std::string& word) { b.activation = nn::activation_named(word); });
  visit("dropout", b.dropout);
  visit("attention_dropout", b.attention_dropout);
  training::RunOptions& o = r.run;
  visit("steps", o.steps);
  visit("optimizer", o.optimizer);
  visit("lr", o.lr);
  visit.word("schedule", optim::name_of(o.schedule),
             [&](const std::string& word) { o.schedule = optim::schedule_named(word); });
  visit("warmup", o.warmup);
  visit("final_fraction", o.final_fraction);
  visit("drop_every", o.drop_every);
  visit("drop_factor", o.drop_factor);
  visit("weight_decay", o.weight_decay);
  visit.word("decay_on", training::name_of(o.decay_on),
             [&](const std::string& word) { o.decay_on = training::decay_on_named(word); });
  visit("eps", o.eps);
  visit.word("dtype", name_of(o.dtype), [&](const std::string& word) { o.dtype = dtype_named(word); });
  visit.word("precision", name_of(o.precision), [&](const std::string& word) { o.precision = products_named(word); });
}

} // namespace

nlohmann::ordered_json recipe_json(const training::EncoderRecipe& recipe) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  training::EncoderRecipe copy = recipe;
  each_field(copy, training::OptionWriter{out});
  return out;
}

training::EncoderRecipe recipe_of(const nlohmann::json& json, const std::string& source) {
  training::EncoderRecipe recipe;
  recipe.layers = 6;
  training::OptionReader reader(json, source);
  each_field(recipe, reader);
  reader.require_all_known();
  try {
    nn::check(recipe.block);
    training::need_positive("layers", recipe.layers);
    training::need_at_most("layers", recipe.layers, 1024);
    training::RunOptions run = recipe.run;
    run.data = "elsewhere";
    training::check_run_options(run);
  } catch (const ValueError& e) {
    throw ValueError(source + ": " + e.what());
  }
  return recipe;
}

std::string differences(const training::EncoderRecipe& here, const training::EncoderRecipe& there) {
  const nlohmann::ordered_json a = recipe_json(here), b = recipe_json(there);
  std::string found;
  for (const auto& [key, value] : a.items())
    if (value.dump() != b.at(key).dump())
      found += fmt::format("{}{} {} (there {})", found.empty() ? "" : ", ", key, value.dump(), b.at(key).dump());
  return found;
}

} // namespace eg::privacy
