// Programs whose axes agree by chance.

#include "core/ops/list.h"
#include "fuzz/inference/claims.h"
#include "fuzz/inference/survey.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace eg::fuzz {
namespace {

using Values = std::vector<std::vector<Tensor>>; // outputs by step

constexpr const OpDef* reorders[] = {&flip_op,   &roll_op,         &index_select_op,
                                     &gather_op, &permute_rows_op, &permute_columns_op};
constexpr const OpDef* compares[] = {&softmax_op,
                                     &log_softmax_op,
                                     &masked_softmax_op,
                                     &layer_norm_op,
                                     &rms_norm_op,
                                     &center_op,
                                     &batch_norm_op,
                                     &group_norm_op,
                                     &instance_norm_op,
                                     &var_op,
                                     &std_op,
                                     &max_op,
                                     &min_op,
                                     &amax_op,
                                     &amin_op,
                                     &argmax_op,
                                     &argmin_op,
                                     &max_with_index_op,
                                     &min_with_index_op,
                                     &sort_op,
                                     &argsort_op,
                                     &topk_op};

template <std::size_t n> bool is_one_of(const OpDef* op, const OpDef* const (&list)[n]) {
  return std::find(std::begin(list), std::end(list), op) != std::end(list);
}

/// Extents of the axes of its first input along which a step works; the last one where it does not say.
std::vector<std::int64_t> extents_along(const ProgramStep& step, const Shape& x) {
  std::vector<std::int64_t> extents;
  if (x.rank() == 0) return extents;
  if (step.attrs.has("axis")) {
    extents.push_back(x[static_cast<int>(step.attrs.integer("axis"))]);
  } else if (step.attrs.has("axes")) {
    for (const std::int64_t a : step.attrs.integers("axes")) extents.push_back(x[static_cast<int>(a)]);
  } else {
    extents.push_back(x[-1]);
  }
  return extents;
}

const Shape& shape_of(const Program& program, const ValueRef& ref, const Values& values) {
  switch (ref.kind) {
  case ValueRef::Kind::leaf:
    return program.leaves[ref.index].shape;
  case ValueRef::Kind::constant:
    return program.constants[ref.index].shape();
  case ValueRef::Kind::step:
    break;
  }
  return values[ref.index][ref.output].shape();
}

/// The leaves that each step reads, through other steps too.
std::vector<std::set<std::size_t>> leaves_read(const Program& program) {
  std::vector<std::set<std::size_t>> read;
  for (const ProgramStep& step : program.steps) {
    std::set<std::size_t> own;
    for (const std::optional<ValueRef>& ref : step.in) {
      if (!ref) continue;
      if (ref->kind == ValueRef::Kind::leaf) own.insert(ref->index);
      if (ref->kind == ValueRef::Kind::step) own.insert(read[ref->index].begin(), read[ref->index].end());
    }
    read.push_back(std::move(own));
  }
  return read;
}

/// Outputs that are read, by step.
std::vector<std::set<std::size_t>> outputs_used(const Program& program) {
  std::vector<std::set<std::size_t>> used(program.steps.size());
  const auto use = [&](const ValueRef& ref) {
    if (ref.kind == ValueRef::Kind::step) used[ref.index].insert(ref.output);
  };
  for (const ProgramStep& step : program.steps)
    for (const std::optional<ValueRef>& ref : step.in)
      if (ref) use(*ref);
  for (const ValueRef& ref : program.outputs) use(ref);
  return used;
}

/// A step that is the same whatever a leaf is that it reads; nothing: there is none.
std::optional<std::string> independent_step(const Program& program) {
  constexpr double rounding = 1e-9;
  constexpr std::uint64_t draws = 4;
  const std::vector<std::set<std::size_t>> read = leaves_read(program), used = outputs_used(program);
  const std::vector<Tensor> leaves = leaf_values(program, {4, 4});
  const Values values = run_steps(program, leaves);
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    std::vector<std::set<std::size_t>> same = used;
    for (std::uint64_t draw = 0; draw < draws; ++draw) {
      std::vector<Tensor> changed = leaves;
      changed[leaf] = leaf_values(program, {5 + draw, 4})[leaf];
      const Values now = run_steps(program, changed);
      for (std::size_t s = 0; s < now.size(); ++s)
        std::erase_if(same[s], [&](std::size_t o) { return distance(now[s][o], values[s][o], 1.0) > rounding; });
    }
    for (std::size_t s = 0; s < same.size(); ++s)
      if (read[s].contains(leaf) && !same[s].empty())
        return fmt::format("{} does not depend on {}", program.steps[s].op->name, leaf_name(leaf));
  }
  return {};
}

} // namespace

std::string degenerate_reason(const Program& program) {
  const Values values = run_steps(program, leaf_values(program, {4, 4}));
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const ProgramStep& step = program.steps[s];
    for (const Tensor& y : values[s])
      if (std::find(y.shape().begin(), y.shape().end(), 1) != y.shape().end())
        return fmt::format("{} gives an axis of extent 1", step.op->name);
    if (step.in.empty() || !step.in.front() || (!is_one_of(step.op, reorders) && !is_one_of(step.op, compares)))
      continue;
    for (const std::int64_t e : extents_along(step, shape_of(program, *step.in.front(), values)))
      if (e <= 2) return fmt::format("{} along an axis of extent {}", step.op->name, e);
  }
  return independent_step(program).value_or("");
}

} // namespace eg::fuzz
