#include "fuzz/inference/builder.h"

#include "core/base/error.h"
#include "core/call.h"
#include "core/meta.h"
#include "core/ops/list.h"

#include <algorithm>
#include <cmath>

namespace eg::fuzz {
namespace {

constexpr double largest_value = 1e4; // rounding stays far below what counts as an error
constexpr double beyond_any_extent = 1000;

bool is_tame(const Tensor& t) {
  if (!is_floating(t.dtype())) return true;
  const std::vector<double> values = t.contiguous().to_vector<double>();
  return std::all_of(values.begin(), values.end(),
                     [](double v) { return std::isfinite(v) && std::abs(v) < largest_value; });
}

bool has_known_type(const Tensor& t) {
  return t.dtype() == DType::f64 || t.dtype() == DType::i64 || t.dtype() == DType::boolean || t.dtype() == DType::u8;
}

} // namespace

Builder::Builder(RandomKey key, const ProgramLimits& limits, RowUses* uses)
    : random_(key), leaf_key_(key.fold(1)), limits_(limits), uses_(uses) {
  program_.read_on_values = once_in(5);
  const std::size_t leaves = 1 + below(3);
  for (std::size_t i = 0; i < leaves; ++i) {
    Shape shape;
    const std::size_t rank = 1 + below(3);
    for (std::size_t axis = 0; axis < rank; ++axis) shape.push_back(between(2, once_in(3) ? 4 : 3));
    fresh_leaf({shape});
  }
}

const Builder::Value& Builder::value_at(const ValueRef& ref) const {
  return *std::find_if(values_.begin(), values_.end(), [&](const Value& v) { return v.ref == ref; });
}

std::optional<Builder::Value> Builder::some(const std::function<bool(const Value&)>& fits) {
  std::vector<const Value*> list;
  for (const Value& v : values_)
    if (v.ref.kind != ValueRef::Kind::constant && fits(v)) list.push_back(&v);
  if (list.empty()) return {};
  constexpr std::size_t late = 3;
  const std::size_t from = once_in(3) || list.size() <= late ? 0 : list.size() - late;
  return *list[from + below(list.size() - from)];
}

std::optional<Builder::Value> Builder::some_real(int least_rank) {
  return some([&](const Value& v) { return v.value.dtype() == DType::f64 && v.value.rank() >= least_rank; });
}

std::optional<ValueRef> Builder::operand(const Shape& shape) {
  const std::optional<Value> known =
      some([&](const Value& v) { return v.value.dtype() == DType::f64 && v.value.shape() == shape; });
  if (known && !once_in(3)) return known->ref;
  return fresh_leaf({shape});
}

std::optional<ValueRef> Builder::fresh_leaf(const ProgramLeaf& leaf) {
  if (program_.leaves.size() >= limits_.leaves || leaf.shape.numel() > limits_.elements || leaf.shape.numel() < 1)
    return {};
  program_.leaves.push_back(leaf);
  const Program only{program_.leaves, {}, {}, {}, false};
  values_.push_back({leaf_ref(program_.leaves.size() - 1), leaf_values(only, leaf_key_).back(),
                     leaf_shapes(only).back(), leaf.range});
  return values_.back().ref;
}

ValueRef Builder::fresh_constant(Tensor values) {
  program_.constants.push_back(values);
  values_.push_back({constant_ref(program_.constants.size() - 1), values, values});
  return values_.back().ref;
}

std::vector<Tensor> Builder::tried(const ProgramStep& step, Point point) const {
  const MetaCallScope shapes_alone;
  std::vector<Tensor> in;
  for (const std::optional<ValueRef>& ref : step.in) {
    const Value* v = ref ? &value_at(*ref) : nullptr;
    if (v == nullptr)
      in.emplace_back();
    else if (point == Point::largest_numbers && v->value.dtype() == DType::i64 &&
             v->ref.kind != ValueRef::Kind::constant)
      in.push_back(Tensor::full(v->value.shape(), v->bound > 0 ? static_cast<double>(v->bound - 1) : beyond_any_extent,
                                DType::i64));
    else
      in.push_back(point == Point::shapes ? v->shape : v->value);
  }
  try {
    return call(*step.op, in, step.attrs);
  } catch (const Error&) {
    return {}; // a call that does not fit
  }
}

std::int64_t Builder::bound_of(const ProgramStep& step, const Tensor& output) const {
  constexpr const OpDef* moving[] = {&reshape_op, &transpose_op, &permute_op,   &slice_op,
                                     &expand_op,  &squeeze_op,   &unsqueeze_op, &contiguous_op,
                                     &flip_op,    &roll_op,      &repeat_op,    &repeat_interleave_op};
  constexpr const OpDef* places[] = {&argmax_op, &argmin_op,         &argsort_op,       &sort_op,
                                     &topk_op,   &max_with_index_op, &min_with_index_op};
  if (output.dtype() != DType::i64 || step.in.empty() || !step.in.front()) return 0;
  const Value& first = value_at(*step.in.front());
  if (std::find(std::begin(moving), std::end(moving), step.op) != std::end(moving)) return first.bound;
  if (std::find(std::begin(places), std::end(places), step.op) == std::end(places) || first.value.rank() == 0) return 0;
  const std::int64_t axis = step.attrs.has("axis") ? step.attrs.integer("axis") : -1;
  return first.value.dtype() == DType::i64 ? 0 : first.value.size(static_cast<int>(axis));
}

bool Builder::acceptable(const std::vector<Tensor>& values, const std::vector<Tensor>& shapes) const {
  for (std::size_t o = 0; o < values.size(); ++o) {
    const Tensor& t = values[o];
    if (!t.defined() || !has_known_type(t) || t.numel() < 1 || t.numel() > limits_.elements) return false;
    if (t.rank() > limits_.rank + 1 || !is_tame(t) || t.shape() != shapes[o].shape()) return false;
  }
  return true;
}

bool Builder::take(ProgramStep step) {
  const std::vector<Tensor> values = tried(step, Point::drawn);
  if (values.empty() || tried(step, Point::largest_numbers).empty()) return false;
  std::vector<Tensor> shapes = program_.read_on_values ? values : tried(step, Point::shapes);
  if (shapes.empty() && uses_ != nullptr) ++uses_->refused_on_shapes[step.op->name];
  if (shapes.empty() || !acceptable(values, shapes)) return false;
  for (std::size_t o = 0; o < values.size(); ++o)
    values_.push_back({step_ref(program_.steps.size(), o), values[o], shapes[o], bound_of(step, values[o])});
  program_.steps.push_back(std::move(step));
  return true;
}

bool Builder::attempt(const Move& move) {
  const std::size_t leaves = program_.leaves.size(), constants = program_.constants.size(), values = values_.size();
  if (Proposal step = move(*this)) {
    step->paused = once_in(25);
    if (take(*std::move(step))) return true;
  }
  program_.leaves.resize(leaves);
  program_.constants.resize(constants);
  values_.resize(values);
  return false;
}

bool Builder::has_tame_outputs(const Program& program) const {
  constexpr std::uint64_t draws = 3;
  try {
    for (std::uint64_t draw = 0; draw < draws; ++draw) {
      const std::vector<Tensor> outputs = run(program, leaf_values(program, leaf_key_.fold(draw)));
      if (!std::all_of(outputs.begin(), outputs.end(), is_tame)) return false;
    }
  } catch (const Error&) { // a call refuses other numbers than it was drawn with
    return false;
  }
  return true;
}

std::optional<Program> Builder::finished() {
  const std::size_t count = once_in(3) ? 2 + below(2) : 1;
  for (std::size_t i = 0; i < count; ++i) {
    const std::optional<Value> out = some([&](const Value& v) {
      const bool is_new = std::find(program_.outputs.begin(), program_.outputs.end(), v.ref) == program_.outputs.end();
      return v.ref.kind == ValueRef::Kind::step && is_new && (v.value.dtype() == DType::f64 || (i > 0 && once_in(4)));
    });
    if (out) program_.outputs.push_back(out->ref);
  }
  Program program = without_unused(program_);
  if (program.outputs.empty() || program.leaves.empty()) return {};
  if (!has_tame_outputs(program)) return {};
  if (uses_ != nullptr)
    for (const ProgramStep& step : program.steps) ++uses_->used[step.op->name];
  return program;
}

Program random_program(RandomKey key, const ProgramLimits& limits, RowUses* uses) {
  for (std::uint64_t again = 0;; ++again) {
    Builder builder(key.fold(again), limits, uses);
    const std::size_t steps = 2 + builder.below(limits.steps - 1);
    for (std::size_t tries = 0; builder.steps() < steps && tries < 40 * steps; ++tries)
      builder.attempt(builder.one_of(program_moves()));
    if (std::optional<Program> program = builder.finished()) return *std::move(program);
  }
}

} // namespace eg::fuzz
