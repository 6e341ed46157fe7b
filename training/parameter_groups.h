#pragma once
// Selects the parameters of a model that are treated differently from the rest.

#include "nn/module.h"
#include "optim/optimizer.h"
#include "training/options.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace eg::training {

/// What a parameter is in its model.
enum class ParameterRole : std::uint8_t {
  matrix,    ///< between hidden features
  vector,    ///< bias, gain: at most one axis
  place,     ///< what belongs to a place in the input: position and segment embeddings, class and distillation tokens
  embedding, ///< of words
  head,      ///< what gives logits
};
/// By its axes and the dotted names of the modules that it is in.
ParameterRole role_of(std::string_view name, const Tensor& value);

/// Depths of parameters, given by name in their module's order: 0 for what comes before the blocks (embeddings, tokens,
/// positions), i + 1 for block i of L, L + 1 for what comes after them (the last norm, heads). All 0 without blocks.
std::vector<std::int64_t> depths_of(const std::vector<std::string>& names);

/// One for each of module.parameters(): weight decay as options.decay_on says; learning rate times
/// layer_decay^(L + 1 - depth), as Clark et al. (ELECTRA, 2020) and Bao et al. (BEiT, 2021) fine-tune; matrices between
/// hidden features are `hidden`.
std::vector<optim::ParameterSettings> parameter_settings(const RunOptions& options, const nn::Module& module);

/// Those of the parameters called `trained` (in the module's order).
std::vector<optim::ParameterSettings> settings_of(const RunOptions& options, const nn::Module& module,
                                                  const std::vector<std::string>& trained);

/// The optimiser that the options name, over the parameters of a module that are called `trained` (in the module's
/// order), with their settings.
std::unique_ptr<optim::Optimizer> optimizer_for(const RunOptions& options, const nn::Module& module,
                                                const std::vector<std::string>& trained);

} // namespace eg::training
