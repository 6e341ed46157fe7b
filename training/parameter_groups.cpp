#include "training/parameter_groups.h"

#include "core/exact/elementary.h"

#include <algorithm>
#include <charconv>
#include <optional>

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

/// The number of the block that a parameter is in: of "blocks.3.norm1.weight", 3; also of DIFM's "layers.3.".
std::optional<std::int64_t> block_of(std::string_view name) {
  for (const std::string_view list : {"blocks.", "layers."}) {
    if (!name.starts_with(list)) continue;
    const std::string_view rest = name.substr(list.size());
    std::int64_t number = 0;
    if (std::from_chars(rest.data(), rest.data() + rest.size(), number).ec == std::errc{}) return number;
  }
  return std::nullopt;
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

std::vector<std::int64_t> depths_of(const std::vector<std::string>& names) {
  std::vector<std::int64_t> depths;
  std::int64_t blocks = 0;
  for (const std::string& name : names) {
    const std::optional<std::int64_t> block = block_of(name);
    if (block) blocks = std::max(blocks, *block + 1);
    depths.push_back(block ? *block + 1 : blocks > 0 ? blocks + 1 : 0);
  }
  return depths;
}

std::vector<optim::ParameterSettings> parameter_settings(const RunOptions& options, const nn::Module& module) {
  const std::vector<nn::Parameter> parameters = module.named_parameters();
  const std::vector<std::int64_t> depths = depths_of(nn::parameter_names(module));
  const std::int64_t top = depths.empty() ? 0 : *std::max_element(depths.begin(), depths.end());
  std::vector<optim::ParameterSettings> all;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterRole role = role_of(parameters[i].name, parameters[i].value);
    const bool spared = role == ParameterRole::vector || role == ParameterRole::place;
    all.push_back({.learning_rate = elementary::pow(options.layer_decay, static_cast<double>(top - depths[i])),
                   .weight_decay = spared && options.decay_on == DecayOn::matrices ? 0.0 : 1.0,
                   .hidden = role == ParameterRole::matrix});
  }
  return all;
}

std::vector<optim::ParameterSettings> settings_of(const RunOptions& options, const nn::Module& module,
                                                  const std::vector<std::string>& trained) {
  const std::vector<optim::ParameterSettings> all = parameter_settings(options, module);
  const std::vector<std::string> names = nn::parameter_names(module);
  std::vector<optim::ParameterSettings> settings;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (settings.size() < trained.size() && names[i] == trained[settings.size()]) settings.push_back(all[i]);
  return settings;
}

std::unique_ptr<optim::Optimizer> optimizer_for(const RunOptions& options, const nn::Module& module,
                                                const std::vector<std::string>& trained) {
  auto optimizer = optim::make_optimizer(options.optimizer, nn::parameters_named(module, trained), options.weight_decay,
                                         options.eps);
  optimizer->set_settings(settings_of(options, module, trained));
  return optimizer;
}

} // namespace eg::training
