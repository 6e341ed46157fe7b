#pragma once
// Configures fine-tuning: the model to begin from, its new parameters, its frozen parameters.

#include "nn/hub/folder.h"
#include "training/options.h"

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eg::training {

/// Options of a run that begins from a model. Patterns are separated by commas and fit names of parameters as files or
/// as checkpoints have them; * stands for any characters, ? for one.
struct FineTuning {
  std::string from;   ///< model folder, llama2.c checkpoint or run; empty: random weights
  std::string fresh;  ///< patterns of what begins with random weights nevertheless
  std::string freeze; ///< patterns of what gets no gradient and no update

  bool begins() const { return !from.empty(); }
};

/// The rows of these options.
const OptionTable<FineTuning>& option_table(const FineTuning& options);
/// Throws ValueError that names the option. `out`: the run folder.
void check(const FineTuning& options, const std::string& out);

/// The folder that options.from stands for, or the file. Throws FileError when there is none.
std::string start_folder(const FineTuning& options);

/// Throws ValueError when options.from is a model folder of another family, FileError when there is none.
void require_family(const FineTuning& options, std::string_view family);

/// Reads the model that options.from names: of that `family`, with what load.adapt makes of its config, random weights
/// from load.key; a head that the folder lacks, or has for another number of classes, is fresh. Throws ValueError when
/// it is of another family, FileError.
std::unique_ptr<hub::Model> open_start(const FineTuning& options, std::string_view family, hub::LoadModelOptions load);

/// The longest text, in tokens, that the model folder which options.from names says it takes; 0 where it does not say.
/// Throws FileError when there is none.
std::int64_t positions_of_start(const FineTuning& options);

/// Throws ValueError when a checkpoint's state remembers another model's config under "model".
void require_same_model(const nlohmann::json& state, const std::string& checkpoint, const nlohmann::json& config);

/// Names of the parameters that learn, in the module's order. `bindings`: how files call them; may be empty. Throws
/// ValueError for a pattern of options.freeze that fits nothing or only a part of a parameter (queries, keys and values
/// are one), and when nothing is left to learn.
std::vector<std::string> trained_parameters(const nn::Module& module, std::span<const hub::Binding> bindings,
                                            const FineTuning& options);

} // namespace eg::training
