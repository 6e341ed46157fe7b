#pragma once
// Builds a program step by step, each tried on values and on shapes before it is taken. Beside random_program.cpp.

#include "fuzz/inference/random_program.h"

#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace eg::fuzz {

class Builder {
public:
  /// A tensor that a step may read.
  struct Value {
    ValueRef ref;
    Tensor value, shape;    ///< with values; as the inference sees it
    std::int64_t bound = 0; ///< whole numbers are below it and not negative; 0: not known
  };
  /// What a move proposes; nothing where it finds no operands.
  using Proposal = std::optional<ProgramStep>;
  using Move = std::function<Proposal(Builder&)>;

  Builder(RandomKey key, const ProgramLimits& limits, RowUses* uses);

  /// Proposes by the move and takes the step when it runs. Nothing is changed when it does not.
  bool attempt(const Move& move);
  /// The program with outputs chosen; nothing where no step depends on a leaf or an output is not finite.
  std::optional<Program> finished();
  std::size_t steps() const { return program_.steps.size(); }

  // For moves.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_.below(n)); }
  std::int64_t between(std::int64_t low, std::int64_t high) { // both ends
    return low + static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool once_in(std::size_t n) { return below(n) == 0; }
  template <class List> const auto& one_of(const List& list) { return list[below(std::size(list))]; }
  const ProgramLimits& limits() const { return limits_; }

  /// Some tensor for which `fits`, late ones more often; nothing where there is none.
  std::optional<Value> some(const std::function<bool(const Value&)>& fits);
  std::optional<Value> some_real(int least_rank = 1);
  /// A tensor f64 of that shape: one that is there, or a new leaf; nothing where neither may be.
  std::optional<ValueRef> operand(const Shape& shape);
  std::optional<ValueRef> fresh_leaf(const ProgramLeaf& leaf);
  ValueRef fresh_constant(Tensor values);

private:
  enum class Point : std::uint8_t { drawn, largest_numbers, shapes };
  std::vector<Tensor> tried(const ProgramStep& step, Point point) const;
  std::int64_t bound_of(const ProgramStep& step, const Tensor& output) const;
  bool take(ProgramStep step);
  bool has_tame_outputs(const Program& program) const;
  bool acceptable(const std::vector<Tensor>& values, const std::vector<Tensor>& shapes) const;
  const Value& value_at(const ValueRef& ref) const;

  RandomStream random_;
  RandomKey leaf_key_;
  ProgramLimits limits_;
  RowUses* uses_;
  Program program_;
  std::vector<Value> values_;
};

/// All moves, the more frequent ones several times.
const std::vector<Builder::Move>& program_moves();

} // namespace eg::fuzz
