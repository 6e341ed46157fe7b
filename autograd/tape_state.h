#pragma once
// Holds the state of a tape. Shared by tape.cpp (recording) and tape_walk.cpp (gradients); not a public header.

#include "autograd/tape.h"

#include <map>
#include <thread>
#include <unordered_map>

namespace eg {

/// Number of a tensor value on one tape.
using Slot = std::uint32_t;
inline constexpr Slot no_slot = ~Slot{0};

/// What a node keeps of an input or output: the tensor itself or, where the rule does not read it, shape and dtype.
struct SavedTensor {
  Tensor tensor;
  Slot slot = no_slot; // no_slot: not given, or of a type without gradients
  std::uint64_t version = 0;
  bool saved = false;
};

/// Functions that look at cotangents on their way, by slot and number.
struct HookTable {
  std::map<std::pair<Slot, std::uint64_t>, GradientHook> hooks;
  std::uint64_t next = 0;
};

std::string described_value(const Tensor& t);
/// " (at blocks.3)", or "".
std::string at_place(const std::string& place);

/// One recorded operation.
struct Tape::Node {
  const OpDef* op = nullptr;
  std::shared_ptr<const CustomOp> custom;
  Attrs attrs;
  std::vector<SavedTensor> in;
  std::vector<SavedTensor> out;
  std::string place; // where in the model the call stood

  std::string_view name() const { return op != nullptr ? op->name : std::string_view(custom->name); }
  bool has_rule() const {
    return op != nullptr ? op->vjp != nullptr : custom->vjp != nullptr || custom->adding_vjp != nullptr;
  }
  Gradients apply_rule(std::span<const Tensor> grad, std::uint32_t wanted) const;
  void apply_adding_rule(std::span<const Tensor> grad, const std::vector<bool>& wanted, std::span<Tensor> sums) const;
  void check_versions() const;
  std::string name_of_input(std::size_t i) const;

private:
  std::vector<Tensor> values(const std::vector<SavedTensor>& kept) const;
  template <class Run> auto at_its_place(Run&& run) const;
};

/// What the tape knows of a value.
struct SlotState {
  bool computed = false;     // some recorded operation made it
  bool guarded = false;      // and not merely as a view of a leaf: its elements belong to the tape
  std::size_t producer = 0;  // of a guarded one: number of its node
  std::uint64_t version = 0; // of its storage, when it was made
};

/// A place where a value came back from bf16, through which no gradient flows.
struct BrokenPath {
  Slot slot;        // the value that was converted to bf16
  std::string name; // of the operation that read the bf16 tensor, with its place
};

struct Tape::State {
  std::thread::id thread = std::this_thread::get_id();
  std::vector<Node> nodes; // in the order of the calls
  std::unordered_map<std::uint64_t, Slot> slot_of;
  std::vector<SlotState> slots;
  bool used_up = false;
  bool closed = false;
  std::shared_ptr<HookTable> hooks;                              // null until the first one
  std::unordered_map<std::uint64_t, std::vector<Slot>> narrowed; // bf16 tensors: the values they were made from
  std::vector<BrokenPath> broken;

  Slot slot(const Tensor& t);
  SavedTensor keep(const Tensor& t, bool save);
  void check_unchanged(const Tensor& t, const std::string& reader) const;
  void produced(const Event& event, std::size_t node);
  void follow_bf16(const Event& event, const std::string& name);
  std::vector<bool> mark_active(std::span<const Tensor> xs);
  struct FirstUse {
    std::size_t node, x;
  };
  std::vector<FirstUse> first_uses(std::span<const Tensor> xs);
  void clear();
};

} // namespace eg
