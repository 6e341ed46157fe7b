#include "apps/split/recipe.h"

#include "training/option.h"

namespace eg::split_learning {
namespace {

using training::EncoderRecipe;

const training::OptionTable<EncoderRecipe>& recipe_table() {
  static const training::OptionTable<EncoderRecipe> table = [] {
    using B = nn::BlockConfig;
    const auto of_block = [](auto field) { return training::member(&EncoderRecipe::block, field); };
    training::OptionTable<EncoderRecipe> t;
    t.add("dim", of_block(&B::dim), "");
    t.add("layers", &EncoderRecipe::layers, "").must(training::positive).must(training::at_most(1024));
    t.add("heads", of_block(&B::heads), "");
    t.add("head_dim", of_block(&B::head_dim), "");
    t.add("mlp", of_block(&B::mlp), "");
    t.add("pre_norm", of_block(&B::pre_norm), "");
    t.add("norm_eps", of_block(&B::norm_eps), "");
    t.word("activation", of_block(&B::activation), nn::activation_named, "");
    t.add("dropout", of_block(&B::dropout), "");
    t.add("attention_dropout", of_block(&B::attention_dropout), "");
    t.append(training::run_options({}), &EncoderRecipe::run,
             [](const training::OptionInfo& option) { return option.recipe; });
    return t;
  }();
  return table;
}

} // namespace

nlohmann::ordered_json recipe_json(const training::EncoderRecipe& recipe) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  return recipe_table().write(recipe, out);
}

training::EncoderRecipe recipe_of(const nlohmann::json& json, const std::string& source) {
  training::EncoderRecipe recipe;
  recipe.layers = 6;
  training::OptionReader reader(json, source);
  recipe_table().read(recipe, reader);
  reader.require_all_known();
  try {
    nn::check(recipe.block);
    recipe_table().check(recipe);
    training::check_run_options(recipe.run);
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

} // namespace eg::split_learning
