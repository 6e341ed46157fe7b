#pragma once
// Parameters with names, and modules that own them.

#include "core/call.h"
#include "core/ops.h"

#include <string>
#include <utility>
#include <vector>

namespace eg::nn {

/// A named, trainable tensor. Optimisers write its values in place.
struct Parameter {
  std::string name; ///< full dotted name within the module it was listed from
  Tensor value;
};

/// Tensors by name, in registration order.
using StateDict = std::vector<std::pair<std::string, Tensor>>;

/// Base of layers. A subclass registers its parameters and children in its constructor; names follow from the
/// registration ("blocks.0.attention.qkv.weight"). Modules are neither copied nor moved, because children are
/// registered by address.
class Module {
public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// All parameters, depth first, in registration order, with dotted names.
  std::vector<Parameter> named_parameters() const;
  /// Their tensors alone, in the same order: what Tape::gradient and an optimiser take.
  std::vector<Tensor> parameters() const;
  /// Number of parameter elements.
  std::int64_t parameter_count() const;
  /// Handles to the parameters (not copies).
  StateDict state_dict() const;
  /// Copies values in by name. Throws ShapeError or ValueError that lists missing, unexpected and mis-shaped names;
  /// nothing is changed then.
  void load_state_dict(const StateDict& state);
  /// Dropout and the like behave as in training (default) or evaluation.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  /// Converts every parameter to f32 or f64 (new storage; take parameters() afterwards).
  void to(DType dtype);

protected:
  void register_parameter(std::string name, Tensor& parameter);
  void register_module(std::string name, Module& child);

private:
  void collect(const std::string& prefix, std::vector<std::pair<std::string, Tensor*>>& out) const;
  std::vector<std::pair<std::string, Tensor*>> parameters_;
  std::vector<std::pair<std::string, Module*>> children_;
  bool training_ = true;
};

} // namespace eg::nn
