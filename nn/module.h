#pragma once
// Defines named parameters and the modules that own them.

#include "core/call.h"
#include "core/ops.h"

#include <cstdint>
#include <optional>
#include <span>
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
  /// Handles to the parameters and to what register_state named (not copies).
  StateDict state_dict() const;
  /// Copies values in by name; f32 and f64 are converted to the parameter's type. Throws ShapeError when only shapes
  /// are wrong, ValueError otherwise, with the missing, unexpected, repeated, mis-shaped and mis-typed names listed;
  /// nothing is changed then.
  void load_state_dict(const StateDict& state);
  /// Dropout and the like behave as in training (default) or evaluation.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  /// Converts every parameter and buffer to f32 or f64 (new storage; take parameters() afterwards). All or,
  /// when memory runs out, none.
  void to(DType dtype);
  /// Moves every parameter and buffer to a device (new storage; take parameters() afterwards). Tensors that share their
  /// elements share them there. All or, when memory runs out, none. Throws DeviceError where there is no such device.
  void to(Device device);
  /// Where its parameters and buffers are: the first one of them; the CPU for none.
  Device device() const;
  /// What a copy of a module takes over beside what its constructor was given: the tensors of parameters, running
  /// statistics and buffers, and which modules are in training; the children's too, in the order of registration.
  struct Contents {
    std::vector<Tensor> tensors;
    std::vector<bool> training;
  };
  /// Handles, not copies.
  Contents contents() const;
  /// Replaces its own tensors and training flags by these. Throws ValueError for another number of them or one without
  /// values, ShapeError for another shape, DTypeError for another type (f32 and f64 stand for each other); nothing is
  /// changed then.
  void adopt(const Contents& contents);
  /// The modules that this one registered and their names, in order; not those inside them.
  std::vector<std::pair<std::string, Module*>> children() const;
  /// The name under which the parent registered this module; empty for the outermost one.
  const std::string& name() const { return name_; }

protected:
  void register_parameter(std::string name, Tensor& parameter);
  /// A tensor that is not trained and belongs to the model nevertheless: running statistics. In the state dict, and
  /// converted by `to`.
  void register_state(std::string name, Tensor& state);
  /// A constant that `to` converts and that is neither trained nor part of the state dict.
  void register_buffer(Tensor& buffer);
  /// Part of a weight in fewer bits, which `to(Device)` moves and nothing else here knows.
  void register_narrow(Tensor& part);
  void register_module(std::string name, Module& child);

  /// Opened by every call of a module: an error inside ends with the module's place in the model.
  class Scope {
  public:
    explicit Scope(const Module& module) {
      if (!module.name_.empty()) place_.emplace(module.name_);
    }

  private:
    std::optional<PlaceScope> place_;
  };

private:
  friend class ParameterScope;
  /// What a list of slots is for: the parameters alone, or the state too.
  enum class Slots : std::uint8_t { trained, state };
  void collect(Slots which, const std::string& prefix, std::vector<std::pair<std::string, Tensor*>>& out) const;
  std::vector<std::pair<std::string, Tensor*>> named_slots(Slots which) const;
  /// Parameters and buffers, of the children too.
  void collect_all(std::vector<Tensor*>& out) const;
  void collect_narrow(std::vector<Tensor*>& out) const;
  /// The training flags of this module and those in it, depth first; the second one takes them from flags[next] on.
  void read_training(std::vector<bool>& flags) const;
  void write_training(const std::vector<bool>& flags, std::size_t& next);
  /// A tensor or a child, whichever pointer is set.
  struct Entry {
    std::string name;
    Tensor* tensor = nullptr;
    Module* child = nullptr;
    bool trained = true;
  };
  std::vector<Entry> entries_;
  std::vector<Tensor*> buffers_, narrow_parts_;
  std::string name_;
  bool training_ = true;
};

/// While it lives, a module computes with other tensors in place of its parameters: that makes a loss a function of
/// them, for the functional forms of autograd/functional.h. Scopes nest; they end in the reverse order of their
/// beginning. Nobody else may use the module meanwhile.
///
///     const auto loss = [&](const std::vector<Tensor>& p) {
///       const nn::ParameterScope scope(model, p);
///       return cross_entropy(model(images), labels);
///     };
///     const Hvp h = hvp(loss, model.parameters(), direction);
class ParameterScope {
public:
  /// `values`: one for each of module.parameters(), in that order. Throws ValueError for another number, ShapeError and
  /// DTypeError, naming the parameter, for another shape or type; the module is as it was then.
  ParameterScope(const Module& module, std::span<const Tensor> values);
  ~ParameterScope();
  ParameterScope(const ParameterScope&) = delete;
  ParameterScope& operator=(const ParameterScope&) = delete;

private:
  std::vector<std::pair<Tensor*, Tensor>> own_; // slots that were changed, with their earlier values
};

/// Names of module.parameters(), in that order.
std::vector<std::string> parameter_names(const Module& module);
/// The parameters with these names, which are in the module's order. Throws ValueError for an unknown name.
std::vector<Tensor> parameters_named(const Module& module, std::span<const std::string> names);

} // namespace eg::nn
