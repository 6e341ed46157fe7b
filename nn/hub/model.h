#pragma once
// Wraps a model of a known family under the names that Hugging Face's transformers gives its inputs, outputs and
// parameters.

#include "data/tensor_reader.h"
#include "nn/block.h"
#include "nn/hub/binding.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace eg::nn {
class Decoder;
}

namespace eg::hub {

/// Tensors by name, in order.
using Tensors = data::NamedTensors;
/// The tensor of that name; undefined when there is none.
Tensor find(const Tensors& tensors, std::string_view name);

/// What a config.json describes, with its weights.
class Model {
public:
  Model() = default;
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// The model itself; in evaluation when it comes from load_model.
  virtual nn::Module& module() = 0;
  const nn::Module& module() const { return const_cast<Model*>(this)->module(); }
  /// The language model inside, for generation; nullptr where there is none.
  virtual nn::Decoder* decoder() { return nullptr; }
  const nn::Decoder* decoder() const { return const_cast<Model*>(this)->decoder(); }

  /// Names of the inputs that forward() takes ("input_ids", "pixel_values", ...); those without which it cannot run
  /// come first.
  virtual std::vector<std::string> input_names() const = 0;
  /// Meta tensors for one pass over `batch` images or texts, as long as the model takes them: the inputs that must be
  /// given.
  virtual Tensors input_shapes(std::int64_t batch) const = 0;
  /// One pass. Outputs as transformers names them: last_hidden_state, pooler_output, logits, ... Throws ValueError for
  /// an input that is missing, unknown (with the nearest name) or of the wrong type, ShapeError for wrong shapes. `key`
  /// feeds dropout in training: give another one for each step.
  Tensors forward(const Tensors& inputs, RandomKey key = {}) const;

  /// What replaces the blocks: hidden states z [B, T, dim] that enter the first to those that leave the last.
  /// mask [B, T]: 0 where a token is padding; undefined: none is.
  using Elsewhere = std::function<Tensor(const Tensor& z, const Tensor& mask)>;
  /// The same pass with its blocks elsewhere: embeddings before them, final norm, pooler and head behind them are this
  /// model's. In evaluation. Throws ValueError besides for position_ids where positions are the blocks' affair
  /// (rotary).
  Tensors forward_around(const Tensors& inputs, const Elsewhere& blocks) const;
  /// Transformer blocks, in their order.
  virtual const nn::Blocks& blocks() const = 0;
  /// Most tokens that pass through the blocks together.
  virtual std::int64_t positions() const = 0;

  const std::string& family() const { return family_; }             ///< model_type: "bert"
  const std::string& architecture() const { return architecture_; } ///< "BertForMaskedLM"
  const nlohmann::json& config() const { return *config_; }         ///< config.json as it was read
  /// One for each tensor of a file with this architecture, in the order of the model's parameters.
  const std::vector<Binding>& bindings() const { return bindings_; }
  /// The binding that the config ties the file's tensor of that name to; nullptr: none.
  const Binding* tied_to(const std::string& name) const;
  /// Names that files may hold beside those: constants, twins, tensors of other heads.
  bool is_known_extra(const std::string& name) const;
  /// What the names of the base model begin with in this architecture's files; "" for the base model itself.
  const std::string& prefix() const { return prefix_; }

  /// Gradients by parameter, in the order of module().parameters(), as tensors under the file's names: bound() of each.
  Tensors by_file_names(const std::vector<Tensor>& gradients) const;
  /// The parameters under the file's names, those with a twin under its name too. They share the parameters' memory
  /// where the layouts agree: clone() what shall not change with the model.
  Tensors state() const;

private:
  /// Throws ValueError for an input that forward() does not know.
  void check_names(const Tensors& inputs) const;

protected:
  /// `elsewhere`: in place of the blocks, unless it is empty.
  virtual Tensors run(const Tensors& inputs, RandomKey key, const Elsewhere& elsewhere) const = 0;

  std::string family_, architecture_, prefix_;
  std::shared_ptr<const nlohmann::json> config_;
  std::vector<Binding> bindings_;
  std::vector<std::string> extras_; ///< "*.position_ids": one star stands for any beginning
};

/// Makes the model that `config` (the content of a config.json) describes, with weights drawn from `key`, f32. `source`
/// is what errors call the config. Throws FileError for a model_type, architecture or setting that is not supported, a
/// field that is missing or wrong, or sizes that make no model.
/// `weights`: the files that will be read into it: optional parts (poolers) are made only if they are there, and a
/// config that asks for far more numbers than they hold is refused (FileError) before memory is taken.
std::unique_ptr<Model> make_model(const nlohmann::json& config, RandomKey key, const std::string& source = "config",
                                  const data::TensorReader* weights = nullptr);

/// Families and architectures that make_model knows: {"bert", {"BertModel", ...}}, ... The last is "timm", whose
/// configs have no model_type.
std::vector<std::pair<std::string, std::vector<std::string>>> supported();

} // namespace eg::hub
