#pragma once
// Maps of points on the tensors that hold them. Not for users.

#include "permute/inference/state.h"

#include <optional>

namespace eg::permute {

/// x gathered as the map moves the points of its axes: axes whose permutations depend on each other move together. Its
/// numbers, where it holds indices, are changed likewise. Nothing where the map does not map the axes to themselves.
std::optional<Tensor> moved_tensor(const Points& points, const PointMap& image, const TensorPoints& t, const Tensor& x);

/// The numbers of an index tensor changed as the map moves what they number; other tensors as they are.
Tensor with_numbers_moved(const Points& points, const PointMap& image, const TensorPoints& t, const Tensor& x);

/// What the black-box finder needs to ask about a model, a list of points at a time.
class SymmetryProbe {
public:
  /// The points of an axis; axis -1: what an index tensor numbers.
  SymmetryProbe(const ModelSymmetries& symmetries, std::string_view tensor, int axis);
  /// One for each different list of 2 to `most` points that some axis holds, of values between as well.
  static std::vector<SymmetryProbe> of_all_axes(const ModelSymmetries& symmetries, std::int64_t most);

  /// Different points of the list.
  std::int64_t degree() const { return static_cast<std::int64_t>(list_.size()); }
  /// log2 of the number of ways in which the inferred group moves them.
  double log2_count() const;
  /// Elements that move the points may have to move others, in a way that moved() does not know: automorphisms.
  bool moves_with_others() const;
  /// All tensors as a permutation of the points moves them, with what has to go along; nothing where that cannot be.
  /// Tensors by name: inputs, parameters, outputs.
  std::optional<nn::StateDict> moved(const Permutation& p, const nn::StateDict& tensors) const;

private:
  /// Some tensor that is shown has each point of the list, or one that goes along with it.
  bool is_seen() const;
  SymmetryProbe(const ModelSymmetries::State& state, const PointList& list);

  const ModelSymmetries::State* state_;
  PointList list_;
  std::vector<bool> held_; // by point: in an axis of a tensor that is shown
};

} // namespace eg::permute
