#pragma once
// Represents a random model as a list of calls on the registry's rows, which runs on values and on shapes and prints.

#include "core/op.h"
#include "core/random.h"
#include "nn/module.h"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace eg::fuzz {

/// A tensor of a program: a leaf, a constant, or an output of a step.
struct ValueRef {
  enum class Kind : std::uint8_t { leaf, constant, step };
  Kind kind = Kind::leaf;
  std::size_t index = 0;
  std::size_t output = 0;
  friend auto operator<=>(const ValueRef&, const ValueRef&) = default;
};
inline ValueRef leaf_ref(std::size_t i) { return {ValueRef::Kind::leaf, i, 0}; }
inline ValueRef constant_ref(std::size_t i) { return {ValueRef::Kind::constant, i, 0}; }
inline ValueRef step_ref(std::size_t i, std::size_t output = 0) { return {ValueRef::Kind::step, i, output}; }

/// What a program is given: f64, or where `range` is positive different numbers (i64) below it.
struct ProgramLeaf {
  Shape shape;
  std::int64_t range = 0;
};

/// One call. Inputs that are not given are empty.
struct ProgramStep {
  const OpDef* op = nullptr;
  std::vector<std::optional<ValueRef>> in;
  Attrs attrs;
  bool paused = false; ///< it runs while recording is paused
};

/// A model. Steps read what stands before them.
struct Program {
  std::vector<ProgramLeaf> leaves;
  std::vector<Tensor> constants;
  std::vector<ProgramStep> steps;
  std::vector<ValueRef> outputs;
  bool read_on_values = false; ///< the inference sees the leaves' values, not their shapes alone
};

/// "x0", "y1": names under which leaves and outputs are known to the inference.
std::string leaf_name(std::size_t i);
std::string output_name_of(std::size_t i);

/// Values of the leaves. Whole numbers are all different, or with `repeats` drawn independently of each other.
std::vector<Tensor> leaf_values(const Program& program, RandomKey key, bool repeats = false);
/// The leaves as shapes.
std::vector<Tensor> leaf_shapes(const Program& program);
/// The outputs. Throws what the calls throw.
std::vector<Tensor> run(const Program& program, const std::vector<Tensor>& leaves);
/// The same, and every tensor on the way: outputs of each step.
std::vector<std::vector<Tensor>> run_steps(const Program& program, const std::vector<Tensor>& leaves);
/// The tensor that a reference means, given the leaves and what run_steps() gave.
const Tensor& value_of(const Program& program, const ValueRef& ref, const std::vector<Tensor>& leaves,
                       const std::vector<std::vector<Tensor>>& done);

/// The program without leaves, constants and steps that no output depends on.
Program without_unused(const Program& program);

/// A line for each leaf, constant, step and output:
///   x0 [2, 3]
///   v0 = softmax(x0; axis=1)
std::string text_of(const Program& program);

} // namespace eg::fuzz
