#include "fuzz/inference/shrink.h"

#include "core/base/error.h"

#include <algorithm>
#include <tuple>

namespace eg::fuzz {
namespace {

using Values = std::vector<std::vector<Tensor>>; // outputs by step

void replace(Program& program, const ValueRef& from, const ValueRef& to) {
  for (ProgramStep& step : program.steps)
    for (std::optional<ValueRef>& ref : step.in)
      if (ref == from) ref = to;
  for (ValueRef& ref : program.outputs)
    if (ref == from) ref = to;
}

/// The leaves that a program is shrunk with; their numbers do not matter.
std::vector<Tensor> some_leaves(const Program& program) { return leaf_values(program, {3, 3}); }

bool reads_a_leaf_only(const Program& program) {
  return std::any_of(program.outputs.begin(), program.outputs.end(),
                     [](const ValueRef& ref) { return ref.kind != ValueRef::Kind::step; });
}

/// A leaf in place of what a step gives.
std::vector<Program> with_leaves_for(const Program& program, std::size_t step, const Values& values) {
  std::vector<Program> list;
  for (std::size_t o = 0; o < values[step].size(); ++o) {
    if (values[step][o].dtype() != DType::f64) continue;
    Program next = program;
    next.leaves.push_back({values[step][o].shape(), 0});
    replace(next, step_ref(step, o), leaf_ref(next.leaves.size() - 1));
    list.push_back(std::move(next));
  }
  return list;
}

/// Programs with one thing less.
std::vector<Program> simpler(const Program& program) {
  std::vector<Program> list;
  for (std::size_t o = 0; program.outputs.size() > 1 && o < program.outputs.size(); ++o) {
    list.push_back(program);
    list.back().outputs = {program.outputs[o]};
  }
  Values values;
  try {
    values = run_steps(program, some_leaves(program));
  } catch (const Error&) { // it refuses these numbers
    return list;
  }
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    for (Program& next : with_leaves_for(program, s, values)) list.push_back(std::move(next));
    for (Program& next : without_step(program, s)) list.push_back(std::move(next));
    for (std::size_t i = 1; i < program.steps[s].in.size(); ++i) {
      if (!program.steps[s].in[i]) continue;
      list.push_back(program);
      list.back().steps[s].in[i].reset();
    }
    if (program.steps[s].paused) {
      list.push_back(program);
      list.back().steps[s].paused = false;
    }
  }
  if (program.read_on_values) {
    list.push_back(program);
    list.back().read_on_values = false;
  }
  return list;
}

/// What shrinks: steps first.
auto size_of(const Program& p) {
  std::size_t inputs = 0, pauses = 0;
  for (const ProgramStep& step : p.steps) {
    pauses += step.paused ? 1 : 0;
    inputs += static_cast<std::size_t>(
        std::count_if(step.in.begin(), step.in.end(), [](const auto& ref) { return ref.has_value(); }));
  }
  return std::tuple(p.steps.size(), p.outputs.size(), inputs, pauses, p.read_on_values, p.leaves.size());
}

bool still_fails(const Program& program, const Fails& fails) {
  try {
    run(program, some_leaves(program));
    return fails(program);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error&) {
    return false;
  }
}

} // namespace

std::vector<Program> without_step(const Program& program, std::size_t step) {
  const std::vector<Tensor> leaves = some_leaves(program);
  const Values values = run_steps(program, leaves);
  const Tensor& y = values[step].front();
  std::vector<Program> list;
  for (const std::optional<ValueRef>& ref : program.steps[step].in) {
    if (!ref) continue;
    const Tensor& x = value_of(program, *ref, leaves, values);
    if (x.shape() != y.shape() || x.dtype() != y.dtype()) continue;
    Program next = program;
    replace(next, step_ref(step), *ref);
    list.push_back(std::move(next));
  }
  return list;
}

Program shrunk(Program program, const Fails& fails) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const Program& candidate : simpler(program)) {
      Program next = without_unused(candidate);
      if (size_of(next) >= size_of(program) || reads_a_leaf_only(next) || !still_fails(next, fails)) continue;
      program = std::move(next);
      smaller = true;
      break;
    }
  }
  return program;
}

} // namespace eg::fuzz
