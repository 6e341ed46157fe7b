#include "core/base/bytes.h"
#include "training/model_task.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace eg::training {

void HubModelTask::add_model(permute::PermuteMode mode, std::shared_ptr<hub::Model> model, const FineTuning& start) {
  if (permutes_columns(mode)) encoder_.couple(model->module());
  std::vector<std::string> learning = trained_parameters(model->module(), model->bindings(), start);
  learning = encoder_.trainable_here(std::move(learning), model->module());
  add_variant(mode, {model, &model->module()}, std::move(learning));
  models_.push_back(std::move(model));
}

void HubModelTask::fetch_blocks() {
  nn::Module& module = *main_variant().module;
  nn::StateDict all = module.state_dict();
  for (auto& [name, value] : encoder_.blocks()) {
    const auto at = std::find_if(all.begin(), all.end(), [&, n = name](const auto& entry) { return entry.first == n; });
    if (at == all.end()) throw ValueError(fmt::format("train: the model has no '{}'", name));
    at->second = value;
  }
  module.load_state_dict(all);
}

void HubModelTask::save_result(const std::string& folder) const {
  if (encoder_.elsewhere()) {
    auto& self = const_cast<HubModelTask&>(*this); // the run is over
    self.fetch_blocks();
    encoder_.end(*self.main_variant().module);
  }
  for (std::size_t i = 0; i < models_.size(); ++i) {
    const Variant& v = all_variants()[i];
    const bool main = i + 1 == models_.size();
    const std::string path = join_path(folder, main ? "model" : fmt::format("model-{}", name_of(v.mode)));
    const auto save = [&](const std::string& place) {
      write_marked(place, main ? mark() : std::nullopt, [&] { save_model(*models_[i], place); });
    };
    save(path);
    with_average(v, [&] { save(path + "-ema"); });
  }
}

} // namespace eg::training
