#pragma once
// Parses the index notation of einsum: letters to labels with extents, and the order of the products.

#include "core/op.h"

#include <cstdint>
#include <string>
#include <vector>

namespace eg::einsum_notation {

/// A set of labels: letters A..Z, a..z are 0..51, axes under "..." follow.
using Labels = std::uint64_t;
inline constexpr int first_unnamed = 52;
constexpr bool holds(Labels set, int label) { return (set >> label & 1U) != 0; }
constexpr Labels only(int label) { return Labels{1} << label; }

/// "'i'", or "an axis under '...'".
std::string name_of(int label);

struct Equation {
  std::vector<std::vector<int>> operands; ///< label of every axis
  std::vector<int> result;
  std::vector<std::int64_t> extents; ///< by label; -1 where the equation does not use it

  /// Labels of operand i that are more than a broadcast axis of extent 1.
  Labels labels_of(std::size_t i, const Shape& shape) const;
  Labels result_labels() const;
  /// Product of the extents, as a number that cannot overflow.
  double size(Labels labels) const;
};

/// Reads the row's `equation` for its inputs. Throws ValueError for what is not an equation and ShapeError where the
/// inputs do not fit it.
Equation equation_of(const OpArgs& args);

/// Pairs to multiply; the product takes the first one's place, the second's is erased. `order` attribute: left_to_right
/// or greedy (least multiplications first, the earlier pair among equals). Throws ShapeError when an intermediate
/// product would have more than max_rank axes.
struct Step {
  std::size_t left, right;
  Labels result;
  double multiplications;
};
std::vector<Step> plan(const OpArgs& args, const Equation& equation);

} // namespace eg::einsum_notation
