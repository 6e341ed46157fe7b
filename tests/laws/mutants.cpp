#include "mutants.h"

#include "core/call.h"
#include "core/ops.h"
#include "core/strided.h"
#include "support/law_tools.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <type_traits>
#include <utility>

namespace eg::laws {
namespace {

const Mutant* current = nullptr;

// --- values that are wrong ---

Tensor shifted(const Tensor& x) {
  const std::int64_t n = x.numel();
  if (n < 2) return x;
  const Tensor flat = x.reshape({n});
  return concat({flat.slice(0, n - 1, n), flat.slice(0, 0, n - 1)}, 0).reshape(x.shape());
}

/// The last two axes exchanged, the elements read in that order into the old shape; moved by one place where that
/// changes nothing.
Tensor turned(const Tensor& x) {
  if (x.rank() < 2 || x.size(-1) < 2 || x.size(-2) < 2) return shifted(x);
  return x.transpose(-1, -2).contiguous().reshape(x.shape());
}

void spoil(Tensor& t) {
  visit_dtype(t.dtype(), [&]<class T>() {
    T* values = t.mutable_data<T>();
    for (std::int64_t i = 0; i < t.numel(); ++i)
      if constexpr (std::is_same_v<T, bool>)
        values[i] = !values[i];
      else if constexpr (std::is_integral_v<T>)
        values[i] = static_cast<T>(values[i] + 1);
      else
        values[i] = T(static_cast<double>(values[i]) * 1.001);
  });
}

void shift(Tensor& t) {
  visit_dtype(t.dtype(), [&]<class T>() {
    T* values = t.mutable_data<T>();
    if (t.numel() > 1) std::rotate(values, values + t.numel() - 1, values + t.numel());
  });
}

// --- wrong functions, which read `current` ---

Gradients wrong_rule(const VjpArgs& args) {
  const auto index = static_cast<std::size_t>(current->index);
  if (current->mutation == Mutation::turned_saved) {
    Tensors in(args.in.begin(), args.in.end()), out(args.out.begin(), args.out.end());
    Tensor& saved = index < 16 ? in.at(index) : out.at(index - 16);
    if (saved.has_storage()) saved = turned(saved);
    VjpArgs changed{OpArgs{args.op, in, args.attrs}, out, args.grad, args.wanted};
    return current->row->vjp(changed);
  }
  Gradients gradients = current->row->vjp(args);
  if (current->mutation == Mutation::scaled_gradients) {
    for (Tensor& g : gradients)
      if (g.defined()) g = affine(g, 1.001, 0.0);
  } else if (index < gradients.size() && gradients[index].defined()) {
    gradients[index] = current->mutation == Mutation::missing_gradient ? Tensor() : shifted(gradients[index]);
  }
  return gradients;
}

void wrong_adding_rule(const AddingVjp& args) {
  Tensors grad(args.grad.begin(), args.grad.end());
  for (Tensor& g : grad)
    if (g.defined()) g = affine(g, 1.001, 0.0);
  current->row->adding_vjp({args.in, args.out, args.attrs, grad, args.wanted, args.sums});
}

void wrong_kernel(const OpArgs& args, std::span<Tensor> out) {
  if (current->mutation == Mutation::shifted_indices) {
    Tensors in(args.in.begin(), args.in.end());
    Tensor& indices = in.at(static_cast<std::size_t>(current->index));
    if (indices.defined()) indices = shifted(indices);
    current->row->cpu(OpArgs{args.op, in, args.attrs}, out);
    return;
  }
  current->row->cpu(args, out);
  current->mutation == Mutation::scaled_output ? spoil(out.back()) : shift(out.back());
}

Tensor wrong_view(const OpArgs& args) {
  Tensor y = current->row->view(args).clone();
  current->mutation == Mutation::scaled_output ? spoil(y) : shift(y);
  return y;
}

std::vector<Tensor> wrong_body(const OpArgs& args) {
  Tensors out = current->row->body(args);
  const bool scaled = current->mutation == Mutation::scaled_output;
  if (scaled && !is_floating(out.back().dtype())) {
    out.back() = out.back().clone();
    spoil(out.back());
  } else {
    out.back() = scaled ? affine(out.back(), 1.001, 0.0) : shifted(out.back());
  }
  return out;
}

/// Which leg of a symmetry Mutant::index means: the nth one of its tensor, input i or output o.
int place_of(const Symmetry& symmetry, std::size_t j) {
  const Leg& leg = symmetry.legs[j];
  const auto same = [&](const Leg& other) { return other.side == leg.side && other.index == leg.index; };
  const auto nth = std::count_if(symmetry.legs.begin(), symmetry.legs.begin() + static_cast<std::ptrdiff_t>(j), same);
  return static_cast<int>(nth) * 32 + (leg.side == Leg::Side::in ? 0 : 16) + leg.index;
}

/// Shape of a leg's tensor; [] where the sample does not give it.
Shape shape_of(const OpDef& op, const Leg& leg, const Sample& sample) {
  const auto i = static_cast<std::size_t>(leg.index);
  if (leg.side == Leg::Side::in) return i < sample.in.size() && sample.in[i].defined() ? sample.in[i].shape() : Shape{};
  const Attrs attrs = completed(op, sample);
  const std::vector<TensorSpec> specs = op.infer(OpArgs{op, sample.in, attrs});
  return i < specs.size() ? specs[i].shape : Shape{};
}

/// Whether a permutation of the leg's axis moves anything in this sample.
bool moves(const OpDef& op, const Leg& leg, const Sample& sample) {
  const Shape shape = shape_of(op, leg, sample);
  return shape.rank() > 0 && shape[leg.axis] > 1 && shape.numel() > 0;
}

/// Another axis of the leg's tensor, of the same extent where there is one; the axis itself where it has no other.
int other_axis(const OpDef& op, const Leg& leg, const Sample& sample) {
  const Shape shape = shape_of(op, leg, sample);
  const int own = leg.axis < 0 ? leg.axis + shape.rank() : leg.axis;
  int other = leg.axis;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis == own) continue;
    if (shape[axis] == shape[own]) return axis;
    other = axis;
  }
  return other;
}

std::vector<Symmetry> wrong_symmetries(const Sample& sample) {
  std::vector<Symmetry> all = current->row->symmetries(sample);
  for (Symmetry& symmetry : all) {
    if (symmetry.name != current->symmetry) continue;
    for (std::size_t j = 0; j < symmetry.legs.size(); ++j) {
      if (place_of(symmetry, j) != current->index) continue;
      if (current->mutation == Mutation::missing_leg)
        symmetry.legs.erase(symmetry.legs.begin() + static_cast<std::ptrdiff_t>(j));
      else
        symmetry.legs[j].axis = other_axis(*current->row, symmetry.legs[j], sample);
      break;
    }
  }
  return all;
}

// --- what there is to change ---

void add_of_rule(const OpDef& op, std::vector<Mutant>& all) {
  if (op.vjp == nullptr || !op.zero_gradient.empty()) return; // nothing to scale, to move or to leave out
  all.push_back({&op, Mutation::scaled_gradients});
  std::size_t inputs = 0;
  for (const Sample& sample : op.samples(DType::f64)) inputs = std::max(inputs, sample.in.size());
  for (std::size_t i = 0; i < inputs; ++i) {
    bool flows = false;
    for (const Sample& sample : op.samples(DType::f64))
      flows = flows || (i < sample.in.size() && sample.in[i].defined() && is_floating(sample.in[i].dtype()));
    if (!flows) continue;
    all.push_back({&op, Mutation::shifted_gradient, static_cast<int>(i)});
    all.push_back({&op, Mutation::missing_gradient, static_cast<int>(i)});
  }
  for (int k = 0; k < 32; ++k)
    if ((op.saves >> k & 1U) != 0) all.push_back({&op, Mutation::turned_saved, k});
  if (op.adding_vjp != nullptr) all.push_back({&op, Mutation::scaled_adding});
}

void add_of_kernel(const OpDef& op, std::vector<Mutant>& all) {
  all.push_back({&op, Mutation::scaled_output});
  all.push_back({&op, Mutation::shifted_output});
  if (op.cpu == nullptr) return;
  std::set<int> indices;
  for (const Sample& sample : op.samples(DType::f64))
    for (std::size_t i = 0; i < sample.in.size(); ++i)
      if (sample.in[i].defined() && sample.in[i].dtype() == DType::i64 && sample.in[i].numel() > 1)
        indices.insert(static_cast<int>(i));
  for (const int i : indices) all.push_back({&op, Mutation::shifted_indices, i});
  if (op.exact != nullptr) all.push_back({&op, Mutation::inexact});
}

void add_of_symmetries(const OpDef& op, std::vector<Mutant>& all) {
  if (op.symmetries == nullptr) return;
  std::set<std::pair<std::string, int>> droppable, movable; // symmetry and leg
  for (const Sample& sample : op.samples(DType::f64))
    for (const Symmetry& symmetry : op.symmetries(sample))
      for (std::size_t j = 0; j < symmetry.legs.size(); ++j) {
        const Leg& leg = symmetry.legs[j];
        if (!moves(op, leg, sample)) continue;
        const std::pair what(symmetry.name, place_of(symmetry, j));
        const auto moving = std::count_if(symmetry.legs.begin(), symmetry.legs.end(),
                                          [&](const Leg& other) { return moves(op, other, sample); });
        if (moving > 1 || !symmetry.values.empty()) droppable.insert(what);
        if (other_axis(op, leg, sample) != leg.axis) movable.insert(what);
      }
  for (const auto& [name, leg] : droppable) all.push_back({&op, Mutation::missing_leg, leg, name});
  for (const auto& [name, leg] : movable) all.push_back({&op, Mutation::other_axis, leg, name});
}

} // namespace

const char* words(Mutation mutation) {
  switch (mutation) {
  case Mutation::scaled_gradients:
    return "gradients x 1.001";
  case Mutation::shifted_gradient:
    return "gradient shifted";
  case Mutation::missing_gradient:
    return "gradient missing";
  case Mutation::turned_saved:
    return "saved value transposed";
  case Mutation::scaled_adding:
    return "adding rule x 1.001";
  case Mutation::scaled_output:
    return "output x 1.001";
  case Mutation::shifted_output:
    return "output shifted";
  case Mutation::shifted_indices:
    return "indices shifted";
  case Mutation::inexact:
    return "ordinary kernel for exact";
  case Mutation::missing_leg:
    return "leg missing";
  case Mutation::other_axis:
    return "leg on another axis";
  }
  return "";
}

std::string Mutant::name() const {
  const std::string tensor =
      fmt::format("{} {}{}", (index & 16) == 0 ? "input" : "output", index & 15, index >= 32 ? " again" : "");
  switch (mutation) {
  case Mutation::shifted_gradient:
  case Mutation::missing_gradient:
  case Mutation::shifted_indices:
    return fmt::format("{}, input {}", words(mutation), index);
  case Mutation::turned_saved:
    return fmt::format("{}, {}", words(mutation), tensor);
  case Mutation::missing_leg:
  case Mutation::other_axis:
    return fmt::format("{}, {} of '{}'", words(mutation), tensor, symmetry);
  default:
    return words(mutation);
  }
}

std::vector<Mutant> mutants_of(const OpDef& op) {
  std::vector<Mutant> all;
  add_of_rule(op, all);
  add_of_kernel(op, all);
  add_of_symmetries(op, all);
  return all;
}

void with_mutant(const Mutant& mutant, const std::function<void(const OpDef&)>& f) {
  OpDef op = *mutant.row;
  switch (mutant.mutation) {
  case Mutation::scaled_gradients:
  case Mutation::shifted_gradient:
  case Mutation::missing_gradient:
  case Mutation::turned_saved:
    op.vjp = wrong_rule;
    op.adding_vjp = nullptr;
    break;
  case Mutation::scaled_adding:
    op.adding_vjp = wrong_adding_rule;
    break;
  case Mutation::scaled_output:
  case Mutation::shifted_output:
    if (op.view != nullptr) op.view = wrong_view;
    if (op.body != nullptr) op.body = wrong_body;
    [[fallthrough]];
  case Mutation::shifted_indices:
    if (op.cpu != nullptr) op.cpu = wrong_kernel;
    break;
  case Mutation::inexact:
    op.exact = op.cpu;
    break;
  case Mutation::missing_leg:
  case Mutation::other_axis:
    op.symmetries = wrong_symmetries;
    break;
  }
  struct InUse {
    explicit InUse(const Mutant& m) { current = &m; }
    ~InUse() { current = nullptr; } // also when a law throws
  } const in_use(mutant);
  f(op);
}

} // namespace eg::laws
