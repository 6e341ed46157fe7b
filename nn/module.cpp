#include "nn/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace eg::nn {
namespace {

using NamedSlots = std::vector<std::pair<std::string, Tensor*>>;

/// "a, b, c and 4 more": long lists are cut so that the message stays readable.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), shown); ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

/// What keeps a state dict from fitting a module.
struct Misfit {
  std::vector<std::string> missing, unexpected, repeated, shapes, types;

  bool any() const { return !(missing.empty() && unexpected.empty() && repeated.empty() && types.empty() && fits()); }
  bool fits() const { return shapes.empty(); }
  bool only_shapes() const {
    return missing.empty() && unexpected.empty() && repeated.empty() && types.empty() && !fits();
  }
  std::string text() const {
    std::string out = "load_state_dict: the state does not fit the model";
    const auto part = [&out](const char* what, const std::vector<std::string>& names) {
      if (!names.empty()) out += fmt::format("; {} {}: {}", names.size(), what, listed(names));
    };
    part("missing", missing);
    part("unexpected", unexpected);
    part("given twice", repeated);
    part("of another shape", shapes);
    part("of another type", types);
    return out;
  }
};

Misfit compare(const NamedSlots& slots, const std::unordered_map<std::string, const Tensor*>& given) {
  Misfit misfit;
  for (const auto& [name, slot] : slots) {
    const auto found = given.find(name);
    if (found == given.end()) {
      misfit.missing.push_back(name);
      continue;
    }
    const Tensor& value = *found->second;
    if (!slot->has_storage())
      misfit.types.push_back(fmt::format("{} has no values to write to in the model", name));
    else if (!value.has_storage() || !is_floating(value.dtype()))
      misfit.types.push_back(fmt::format("{} is {}, the model has {}", name,
                                         value.has_storage() ? name_of(value.dtype()) : "empty",
                                         name_of(slot->dtype())));
    else if (!(value.shape() == slot->shape()))
      misfit.shapes.push_back(
          fmt::format("{} is {}, the model has {}", name, value.shape().str(), slot->shape().str()));
  }
  return misfit;
}

} // namespace

void Module::register_parameter(std::string name, Tensor& parameter) {
  entries_.push_back({.name = std::move(name), .tensor = &parameter, .child = nullptr, .trained = true});
}

void Module::register_state(std::string name, Tensor& state) {
  entries_.push_back({.name = std::move(name), .tensor = &state, .child = nullptr, .trained = false});
}

void Module::register_buffer(Tensor& buffer) { buffers_.push_back(&buffer); }

void Module::register_narrow(Tensor& part) { narrow_parts_.push_back(&part); }

void Module::register_module(std::string name, Module& child) {
  child.parent_ = this;
  register_shared_module(std::move(name), child);
}

void Module::register_shared_module(std::string name, Module& child) {
  child.name_ = name;
  entries_.push_back({.name = std::move(name), .tensor = nullptr, .child = &child, .trained = false});
}

void Module::replace_shared_module(std::string_view name, Module& child) {
  Module* old = nullptr;
  for (Entry& entry : entries_)
    if (entry.child != nullptr && entry.name == name) old = std::exchange(entry.child, &child);
  if (old == nullptr) throw ValueError(fmt::format("module: there is no module '{}' to be replaced", name));
  // The old one may stand under another name still, which is its place from now on.
  for (const Entry& entry : entries_)
    if (entry.child == old) old->name_ = entry.name;
  child.name_ = name;
}

bool Module::assign_parameter(std::string_view name, const Tensor& value) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& e) { return e.tensor != nullptr && e.name == name; });
  if (entry == entries_.end()) return false;
  const Tensor& old = *entry->tensor;
  if (!value.has_storage()) throw ValueError(fmt::format("module: '{}' is given a tensor without values", name));
  if (value.shape() != old.shape())
    throw ShapeError(fmt::format("module: '{}' is {}, the tensor that is assigned {}", name, old.shape().str(),
                                 value.shape().str()));
  if (value.dtype() != old.dtype())
    throw DTypeError(fmt::format("module: '{}' is {}, the tensor that is assigned {}; convert it first", name,
                                 eg::name_of(old.dtype()), eg::name_of(value.dtype())));
  if (old.has_storage() && value.device() != old.device())
    throw DeviceError(fmt::format("module: '{}' is on {}, the tensor that is assigned on {}; move it first", name,
                                  old.device().str(), value.device().str()));
  *entry->tensor = value;
  entry->assigned = true;
  return true;
}

void Module::collect_assigned(std::vector<const Tensor*>& out) const {
  for (const Entry& entry : entries_) {
    if (entry.assigned) out.push_back(entry.tensor);
    if (entry.child != nullptr) entry.child->collect_assigned(out);
  }
}

std::vector<Tensor*> Module::same_parameter(Tensor* slot) const {
  std::vector<const Tensor*> assigned;
  collect_assigned(assigned);
  const auto is_assigned = [&](const Tensor* one) {
    return std::find(assigned.begin(), assigned.end(), one) != assigned.end();
  };
  std::vector<Tensor*> same = {slot};
  if (assigned.empty()) return same;
  NamedSlots slots;
  collect(Slots::trained, "", slots);
  for (const auto& [name, other] : slots)
    if (other != slot && other->id() == slot->id() && (is_assigned(other) || is_assigned(slot))) same.push_back(other);
  return same;
}

void Module::collect_entries(std::vector<Entry*>& out) {
  for (Entry& entry : entries_) {
    if (entry.tensor != nullptr) out.push_back(&entry);
    if (entry.child != nullptr) entry.child->collect_entries(out);
  }
}

void Module::mark_shared() {
  std::vector<Entry*> entries;
  collect_entries(entries);
  std::unordered_map<std::uint64_t, const Tensor*> first;
  for (Entry* entry : entries) {
    const auto [at, is_first] = first.emplace(entry->tensor->id(), entry->tensor);
    if (!is_first && at->second != entry->tensor) entry->assigned = true;
  }
}

void Module::collect(Slots which, const std::string& prefix, NamedSlots& out) const {
  for (const Entry& entry : entries_) {
    if (entry.tensor != nullptr && (entry.trained || which == Slots::state))
      out.emplace_back(prefix + entry.name, entry.tensor);
    if (entry.child != nullptr) entry.child->collect(which, prefix + entry.name + ".", out);
  }
}

NamedSlots Module::named_slots(Slots which) const {
  NamedSlots slots;
  collect(which, "", slots);
  if (which == Slots::trained) { // a part that stands under two names has one parameter
    std::unordered_set<const Tensor*> seen;
    std::erase_if(slots, [&](const auto& slot) { return !seen.insert(slot.second).second; });
    std::vector<const Tensor*> assigned;
    collect_assigned(assigned);
    if (!assigned.empty()) { // and so has a tensor that was assigned to several
      const std::unordered_set<const Tensor*> marked(assigned.begin(), assigned.end());
      std::unordered_map<std::uint64_t, bool> before; // by id: whether one of those was assigned
      std::erase_if(slots, [&](const auto& slot) {
        const bool is_assigned = marked.contains(slot.second);
        const auto [at, is_first] = before.emplace(slot.second->id(), is_assigned);
        if (is_first) return false;
        return is_assigned || std::exchange(at->second, at->second || is_assigned);
      });
    }
  }
  return slots;
}

std::vector<Parameter> Module::named_parameters() const {
  std::vector<Parameter> out;
  for (const auto& [name, tensor] : named_slots(Slots::trained)) out.push_back({name, *tensor});
  return out;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> out;
  for (const auto& [name, tensor] : named_slots(Slots::trained)) out.push_back(*tensor);
  return out;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : named_slots(Slots::trained)) count += tensor->numel();
  return count;
}

StateDict Module::state_dict() const {
  StateDict state;
  for (const auto& [name, tensor] : named_slots(Slots::state)) state.emplace_back(name, *tensor);
  return state;
}

void Module::load_state_dict(const StateDict& state) {
  const NamedSlots slots = named_slots(Slots::state);
  std::unordered_map<std::string, const Tensor*> given;
  std::vector<std::string> repeated;
  for (const auto& [name, tensor] : state)
    if (!given.emplace(name, &tensor).second) repeated.push_back(name);
  Misfit misfit = compare(slots, given);
  misfit.repeated = std::move(repeated);
  for (const auto& [name, tensor] : state)
    if (std::none_of(slots.begin(), slots.end(), [&n = name](const auto& slot) { return slot.first == n; }))
      misfit.unexpected.push_back(name);
  if (misfit.only_shapes()) throw ShapeError(misfit.text());
  if (misfit.any()) throw ValueError(misfit.text());
  const PauseRecording pause;
  // Whatever can throw comes first: a model is loaded or left as it was. A value that is in a parameter's memory is
  // copied, because that parameter may be written to before it is read.
  std::unordered_set<const Storage*> written;
  for (const auto& [name, slot] : slots) written.insert(slot->storage().get());
  std::vector<Tensor> values;
  for (const auto& [name, slot] : slots) {
    const Tensor value = given.at(name)->to(slot->dtype());
    values.push_back(written.contains(value.storage().get()) ? value.clone() : value);
  }
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i].second->copy_from(values[i]);
}

void Module::train(bool on) {
  training_ = on;
  for (const Entry& entry : entries_)
    if (entry.child != nullptr) entry.child->train(on);
}

void Module::to(DType dtype) {
  if (!is_floating(dtype))
    throw DTypeError(fmt::format("Module::to: parameters are f32 or f64, not {}", name_of(dtype)));
  const PauseRecording pause;
  std::vector<Tensor*> slots;
  collect_all(slots);
  // Whatever can throw comes first: a model is converted or left as it was.
  std::vector<Tensor> converted;
  converted.reserve(slots.size());
  std::unordered_map<std::uint64_t, std::size_t> first; // tensors that are one stay one
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto [at, is_first] = first.emplace(slots[i]->id(), i);
    converted.push_back(is_first ? slots[i]->to(dtype) : converted[at->second]);
  }
  for (std::size_t i = 0; i < slots.size(); ++i) *slots[i] = std::move(converted[i]);
}

namespace {

bool lie_alike(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() && a.device_bytes() == b.device_bytes() && a.dtype() == b.dtype() &&
         a.shape() == b.shape() && a.strides() == b.strides();
}

} // namespace

void Module::to(Device device) {
  const PauseRecording pause;
  std::vector<Tensor*> slots;
  collect_all(slots);
  collect_narrow(slots);
  std::erase_if(slots, [](const Tensor* slot) { return !slot->has_storage(); });
  std::vector<Tensor> moved;
  moved.reserve(slots.size());
  for (const Tensor* slot : slots) {
    std::size_t twin = 0; // the first one with these elements
    while (!lie_alike(*slots[twin], *slot)) ++twin;
    moved.push_back(twin < moved.size() ? moved[twin] : slot->to(device));
  }
  for (std::size_t i = 0; i < slots.size(); ++i) *slots[i] = std::move(moved[i]);
}

Device Module::device() const {
  std::vector<Tensor*> slots;
  collect_all(slots);
  collect_narrow(slots);
  for (const Tensor* slot : slots)
    if (slot->has_storage()) return slot->device();
  return Device::cpu();
}

std::uint64_t Module::add_forward_hook(ForwardHook hook) {
  if (!hooks_) hooks_ = std::make_unique<Hooks>();
  static std::atomic<std::uint64_t> numbers = 0; // none is given twice: a stale one removes nothing
  const std::uint64_t number = ++numbers;
  hooks_->emplace_back(number, std::make_shared<const ForwardHook>(std::move(hook)));
  return number;
}

void Module::remove_forward_hook(std::uint64_t hook) {
  if (!hooks_) return;
  std::erase_if(*hooks_, [&](const auto& one) { return one.first == hook; });
  if (hooks_->empty()) hooks_.reset();
}

std::vector<std::shared_ptr<const ForwardHook>> Module::forward_hooks() const {
  std::vector<std::shared_ptr<const ForwardHook>> list;
  if (hooks_)
    for (const auto& [number, hook] : *hooks_) list.push_back(hook);
  return list;
}

bool Module::has_forward_hooks() const {
  return hooks_ || std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
           return entry.child != nullptr && entry.child->has_forward_hooks();
         });
}

Tensor Module::hooked(std::initializer_list<const Tensor*> inputs, const Tensor& output) const {
  const Hooks hooks = *hooks_; // one may remove itself or add another
  std::vector<Tensor> list;
  for (const Tensor* input : inputs) list.push_back(*input);
  Tensor result = output;
  for (const auto& [number, hook] : hooks)
    if (const Tensor made = (*hook)(*this, list, result); made.defined()) result = made;
  return result;
}

std::vector<std::pair<std::string, Module*>> Module::children() const {
  std::vector<std::pair<std::string, Module*>> list;
  for (const Entry& entry : entries_)
    if (entry.child != nullptr) list.emplace_back(entry.name, entry.child);
  return list;
}

void Module::collect_all(std::vector<Tensor*>& out) const {
  for (const Entry& entry : entries_) {
    if (entry.tensor != nullptr) out.push_back(entry.tensor);
    if (entry.child != nullptr) entry.child->collect_all(out);
  }
  out.insert(out.end(), buffers_.begin(), buffers_.end());
}

void Module::collect_narrow(std::vector<Tensor*>& out) const {
  out.insert(out.end(), narrow_parts_.begin(), narrow_parts_.end());
  for (const Entry& entry : entries_)
    if (entry.child != nullptr) entry.child->collect_narrow(out);
}

void Module::read_training(std::vector<bool>& flags) const {
  flags.push_back(training_);
  for (const Entry& entry : entries_)
    if (entry.child != nullptr) entry.child->read_training(flags);
}

void Module::write_training(const std::vector<bool>& flags, std::size_t& next) {
  training_ = flags[next++];
  for (const Entry& entry : entries_)
    if (entry.child != nullptr) entry.child->write_training(flags, next);
}

Module::Contents Module::contents() const {
  Contents all;
  std::vector<Tensor*> slots;
  collect_all(slots);
  for (const Tensor* slot : slots) all.tensors.push_back(*slot);
  read_training(all.training);
  return all;
}

namespace {

void check_stands_for(const Tensor& value, const Tensor& slot, std::size_t number) {
  if (!value.has_storage()) throw ValueError(fmt::format("Module::adopt: tensor {} has no values", number));
  if (value.shape() != slot.shape())
    throw ShapeError(fmt::format("Module::adopt: tensor {} is {}, this module has {}", number, value.shape().str(),
                                 slot.shape().str()));
  if (value.dtype() != slot.dtype() && !(is_floating(value.dtype()) && is_floating(slot.dtype())))
    throw DTypeError(fmt::format("Module::adopt: tensor {} is {}, this module has {}", number, name_of(value.dtype()),
                                 name_of(slot.dtype())));
}

} // namespace

void Module::adopt(const Contents& contents) {
  std::vector<Tensor*> slots;
  collect_all(slots);
  std::vector<bool> training;
  read_training(training);
  if (contents.tensors.size() != slots.size() || contents.training.size() != training.size())
    throw ValueError(fmt::format("Module::adopt: {} tensors and {} modules were given, this module has {} and {}",
                                 contents.tensors.size(), contents.training.size(), slots.size(), training.size()));
  for (std::size_t i = 0; i < slots.size(); ++i) check_stands_for(contents.tensors[i], *slots[i], i);
  for (std::size_t i = 0; i < slots.size(); ++i) *slots[i] = contents.tensors[i];
  std::size_t next = 0;
  write_training(contents.training, next);
  mark_shared();
}

ParameterScope::ParameterScope(const Module& module, std::span<const Tensor> values) {
  const NamedSlots slots = module.named_slots(Module::Slots::trained);
  if (values.size() != slots.size())
    throw ValueError(
        fmt::format("ParameterScope: {} tensors were given for {} parameters", values.size(), slots.size()));
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto& [name, slot] = slots[i];
    const Tensor& value = values[i];
    if (!value.defined() || value.shape() != slot->shape())
      throw ShapeError(fmt::format("ParameterScope: {} does not fit: the value is {}, the parameter is {}", name,
                                   value.defined() ? value.shape().str() : "undefined", slot->shape().str()));
    if (value.dtype() != slot->dtype())
      throw DTypeError(fmt::format("ParameterScope: {} does not fit: the value is {}, the parameter is {}", name,
                                   name_of(value.dtype()), name_of(slot->dtype())));
  }
  own_.reserve(slots.size());
  // Existing values are not written to, so that such scopes on several threads do not interfere.
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (slots[i].second->id() != values[i].id())
      for (Tensor* slot : module.same_parameter(slots[i].second))
        own_.emplace_back(slot, std::exchange(*slot, values[i]));
}

ParameterScope::~ParameterScope() {
  for (auto& [slot, value] : own_) *slot = std::move(value);
}

std::vector<std::string> parameter_names(const Module& module) {
  std::vector<std::string> names;
  for (Parameter& p : module.named_parameters()) names.push_back(std::move(p.name));
  return names;
}

std::vector<Tensor> parameters_named(const Module& module, std::span<const std::string> names) {
  std::vector<Tensor> found;
  for (const Parameter& p : module.named_parameters())
    if (found.size() < names.size() && p.name == names[found.size()]) found.push_back(p.value);
  if (found.size() < names.size())
    throw ValueError(fmt::format("module: there is no parameter '{}'", names[found.size()]));
  return found;
}

} // namespace eg::nn
