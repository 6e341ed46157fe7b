#include "fuzz/inference/program.h"

#include "core/call.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <type_traits>
#include <variant>

namespace eg::fuzz {
namespace {

std::vector<Tensor> run_step(const ProgramStep& step, const std::vector<Tensor>& in) {
  if (!step.paused) return call(*step.op, in, step.attrs);
  const PauseRecording pause;
  return call(*step.op, in, step.attrs);
}

std::string attribute_text(const AttrValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool>) return v ? "true" : "false";
        if constexpr (std::is_same_v<T, std::string>) return "'" + v + "'";
        return fmt::format("{}", v);
      },
      value);
}

std::string constant_text(const Tensor& t) {
  const PauseRecording pause;
  return fmt::format("{} {} {}", name_of(t.dtype()), t.shape().str(),
                     fmt::join(t.to(DType::f64).contiguous().to_vector<double>(), " "));
}

std::string ref_text(const ValueRef& ref) {
  switch (ref.kind) {
  case ValueRef::Kind::leaf:
    return leaf_name(ref.index);
  case ValueRef::Kind::constant:
    return fmt::format("c{}", ref.index);
  case ValueRef::Kind::step:
    break;
  }
  return ref.output == 0 ? fmt::format("v{}", ref.index) : fmt::format("v{}.{}", ref.index, ref.output);
}

std::string step_text(const ProgramStep& step) {
  std::string text = fmt::format("{}(", step.op->name);
  for (std::size_t i = 0; i < step.in.size(); ++i)
    text += fmt::format("{}{}", i > 0 ? ", " : "", step.in[i] ? ref_text(*step.in[i]) : "none");
  for (std::size_t i = 0; i < step.attrs.items().size(); ++i) {
    const auto& [name, value] = step.attrs.items()[i];
    text += fmt::format("{}{}={}", i > 0 ? ", " : "; ", name, attribute_text(value));
  }
  return text + (step.paused ? "), paused" : ")");
}

/// New numbers of what is kept; nothing for the rest.
using Renumbering = std::vector<std::optional<std::size_t>>;

template <class T> std::vector<T> kept(const std::vector<T>& list, const Renumbering& to) {
  std::vector<T> rest;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (to[i]) rest.push_back(list[i]);
  return rest;
}

Renumbering numbered(const std::vector<bool>& used) {
  Renumbering to(used.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i]) to[i] = next++;
  return to;
}

} // namespace

std::string leaf_name(std::size_t i) { return fmt::format("x{}", i); }
std::string output_name_of(std::size_t i) { return fmt::format("y{}", i); }

std::vector<Tensor> leaf_values(const Program& program, RandomKey key, bool repeats) {
  std::vector<Tensor> values;
  for (std::size_t i = 0; i < program.leaves.size(); ++i) {
    const ProgramLeaf& leaf = program.leaves[i];
    const RandomKey own = key.fold(i);
    if (leaf.range == 0)
      values.push_back(random_normal(leaf.shape, own, 0.0, 1.0, DType::f64));
    else if (repeats)
      values.push_back(random_integers(leaf.shape, own, 0, leaf.range));
    else
      values.push_back(random_permutation(leaf.range, own).slice(0, 0, leaf.shape.numel()).reshape(leaf.shape));
  }
  return values;
}

std::vector<Tensor> leaf_shapes(const Program& program) {
  std::vector<Tensor> shapes;
  for (const ProgramLeaf& leaf : program.leaves)
    shapes.push_back(Tensor::meta(leaf.shape, leaf.range == 0 ? DType::f64 : DType::i64));
  return shapes;
}

const Tensor& value_of(const Program& program, const ValueRef& ref, const std::vector<Tensor>& leaves,
                       const std::vector<std::vector<Tensor>>& done) {
  switch (ref.kind) {
  case ValueRef::Kind::leaf:
    return leaves[ref.index];
  case ValueRef::Kind::constant:
    return program.constants[ref.index];
  case ValueRef::Kind::step:
    break;
  }
  return done[ref.index][ref.output];
}

std::vector<std::vector<Tensor>> run_steps(const Program& program, const std::vector<Tensor>& leaves) {
  std::vector<std::vector<Tensor>> done;
  for (const ProgramStep& step : program.steps) {
    std::vector<Tensor> in;
    for (const std::optional<ValueRef>& ref : step.in)
      in.push_back(ref ? value_of(program, *ref, leaves, done) : Tensor());
    done.push_back(run_step(step, in));
  }
  return done;
}

std::vector<Tensor> run(const Program& program, const std::vector<Tensor>& leaves) {
  const std::vector<std::vector<Tensor>> done = run_steps(program, leaves);
  std::vector<Tensor> outputs;
  for (const ValueRef& ref : program.outputs) outputs.push_back(value_of(program, ref, leaves, done));
  return outputs;
}

Program without_unused(const Program& program) {
  std::vector<bool> leaf(program.leaves.size(), false), constant(program.constants.size(), false),
      step(program.steps.size(), false);
  const auto use = [&](const ValueRef& ref) {
    (ref.kind == ValueRef::Kind::leaf       ? leaf
     : ref.kind == ValueRef::Kind::constant ? constant
                                            : step)[ref.index] = true;
  };
  for (const ValueRef& ref : program.outputs) use(ref);
  for (std::size_t s = program.steps.size(); s-- > 0;)
    if (step[s])
      for (const std::optional<ValueRef>& ref : program.steps[s].in)
        if (ref) use(*ref);

  const Renumbering leaf_to = numbered(leaf), constant_to = numbered(constant), step_to = numbered(step);
  const auto renumber = [&](ValueRef& ref) {
    const Renumbering& to = ref.kind == ValueRef::Kind::leaf       ? leaf_to
                            : ref.kind == ValueRef::Kind::constant ? constant_to
                                                                   : step_to;
    ref.index = *to[ref.index];
  };
  Program rest{kept(program.leaves, leaf_to), kept(program.constants, constant_to), kept(program.steps, step_to),
               program.outputs, program.read_on_values};
  for (ProgramStep& s : rest.steps)
    for (std::optional<ValueRef>& ref : s.in)
      if (ref) renumber(*ref);
  for (ValueRef& ref : rest.outputs) renumber(ref);
  return rest;
}

std::string text_of(const Program& program) {
  std::string text = program.read_on_values ? "read on values\n" : "";
  for (std::size_t i = 0; i < program.leaves.size(); ++i) {
    const ProgramLeaf& leaf = program.leaves[i];
    text += fmt::format("{} {}{}\n", leaf_name(i), leaf.shape.str(),
                        leaf.range > 0 ? fmt::format(" numbers below {}", leaf.range) : "");
  }
  for (std::size_t i = 0; i < program.constants.size(); ++i)
    text += fmt::format("c{} = {}\n", i, constant_text(program.constants[i]));
  for (std::size_t i = 0; i < program.steps.size(); ++i)
    text += fmt::format("v{} = {}\n", i, step_text(program.steps[i]));
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    text += fmt::format("{} = {}\n", output_name_of(i), ref_text(program.outputs[i]));
  return text;
}

} // namespace eg::fuzz
