#include "training/parameter_groups.h"

#include <algorithm>

namespace eg::training {
namespace {

/// Whether one of the names between dots is among `words`.
bool has_part(std::string_view name, std::initializer_list<std::string_view> words) {
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    if (std::find(words.begin(), words.end(), name.substr(begin, end - begin)) != words.end()) return true;
    begin = end + 1;
  }
  return false;
}

} // namespace

ParameterRole role_of(std::string_view name, const Tensor& value) {
  if (value.rank() < 2) return ParameterRole::vector;
  if (has_part(name, {"cls_token", "distillation_token", "position_embedding", "token_type_embedding"}))
    return ParameterRole::place;
  if (has_part(name, {"word_embedding", "token_embedding"})) return ParameterRole::embedding;
  if (has_part(name, {"classifier", "distillation_classifier", "lm_head"})) return ParameterRole::head;
  return ParameterRole::matrix;
}

std::vector<optim::ParameterSettings> parameter_settings(const RunOptions& options, const nn::Module& module) {
  std::vector<optim::ParameterSettings> all;
  for (const nn::Parameter& p : module.named_parameters()) {
    const ParameterRole role = role_of(p.name, p.value);
    const bool spared = role == ParameterRole::vector || role == ParameterRole::place;
    all.push_back({.weight_decay = spared && options.decay_on == DecayOn::matrices ? 0.0 : 1.0,
                   .hidden = role == ParameterRole::matrix});
  }
  return all;
}

std::unique_ptr<optim::Optimizer> optimizer_for(const RunOptions& options, const nn::Module& module,
                                                const std::vector<std::string>& trained) {
  auto optimizer = optim::make_optimizer(options.optimizer, nn::parameters_named(module, trained), options.weight_decay,
                                         options.eps);
  const std::vector<optim::ParameterSettings> all = parameter_settings(options, module);
  const std::vector<std::string> names = nn::parameter_names(module);
  std::vector<optim::ParameterSettings> settings;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (settings.size() < trained.size() && names[i] == trained[settings.size()]) settings.push_back(all[i]);
  optimizer->set_settings(settings);
  return optimizer;
}

} // namespace eg::training
