#pragma once
// Defines named parameters and the modules that own them.

#include "core/call.h"
#include "core/ops.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace eg::nn {

/// A named, trainable tensor. Optimisers write its values in place.
struct Parameter {
  std::string name; ///< full dotted name within the module it was listed from
  Tensor value;
};

class Module;

/// What is called after a module has computed `output` from `inputs` (undefined where one was left out): a tensor that
/// it returns takes the output's place, an undefined one leaves it.
using ForwardHook =
    std::function<Tensor(const Module& module, const std::vector<Tensor>& inputs, const Tensor& output)>;

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

  /// All parameters, depth first, in registration order, with dotted names. One that stands in several places (weight
  /// tying) has the name of the first.
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
  /// Gives a parameter (or state) that this module itself registered another tensor, for weight tying and surgery: one
  /// that is another's parameter is one parameter from then on. False where there is none of that name. Throws
  /// ShapeError, DTypeError, DeviceError for a tensor that does not stand for the old one, ValueError for one without
  /// values.
  bool assign_parameter(std::string_view name, const Tensor& value);
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
  /// Adds a hook to every call of this module, behind those that are there. It does not run for methods other than
  /// the call: embed() and head() of a model, logits() of an embedding, trace(). An `addend` that a call is
  /// given is one of its inputs and a part of its output. Copies have no hooks. Not to be called while the module
  /// computes in another thread. Returns a number for remove_forward_hook().
  std::uint64_t add_forward_hook(ForwardHook hook);
  /// Nothing happens where there is no such hook (any more).
  void remove_forward_hook(std::uint64_t hook);
  void clear_forward_hooks() { hooks_.reset(); }
  /// Those of this module, in the order of their calls.
  std::vector<std::shared_ptr<const ForwardHook>> forward_hooks() const;
  /// The outermost module of which this one is a member, so that both live equally long; itself for none.
  Module& owner() { return parent_ != nullptr ? parent_->owner() : *this; }
  /// Whether this module itself has a hook: who would compute it as part of something else calls it then.
  bool has_own_hooks() const { return hooks_ != nullptr; }
  /// Whether this module or one in it has a hook.
  bool has_forward_hooks() const;
  /// Calls visit(module) for this module and those in it, depth first.
  template <class Visit> void each_module(Visit&& visit) {
    visit(*this);
    for (const Entry& entry : entries_)
      if (entry.child != nullptr) entry.child->each_module(visit);
  }
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
  /// The same for a child that lives on its own.
  void register_shared_module(std::string name, Module& child);
  /// Puts such a child in the place of the one of that name. Throws ValueError where there is none.
  void replace_shared_module(std::string_view name, Module& child);
  /// The result of a call: `output`, or what the hooks make of it. Every operator() ends with it.
  Tensor called(std::initializer_list<const Tensor*> inputs, const Tensor& output) const {
    return hooks_ ? hooked(inputs, output) : output;
  }
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
  Tensor hooked(std::initializer_list<const Tensor*> inputs, const Tensor& output) const;
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
    bool assigned = false; ///< by assign_parameter(): it may be another's too
  };
  /// Tensors of entries that were assigned, of the children too.
  void collect_assigned(std::vector<const Tensor*>& out) const;
  /// `slot` and the other parameters that are the same one.
  std::vector<Tensor*> same_parameter(Tensor* slot) const;
  /// Marks the entries whose tensor an earlier one has.
  void mark_shared();
  void collect_entries(std::vector<Entry*>& out);
  std::vector<Entry> entries_;
  std::vector<Tensor*> buffers_, narrow_parts_;
  using Hooks = std::vector<std::pair<std::uint64_t, std::shared_ptr<const ForwardHook>>>;
  std::unique_ptr<Hooks> hooks_; ///< null for none
  std::string name_;
  Module* parent_ = nullptr; ///< of which this one is a member
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
