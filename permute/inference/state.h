#pragma once
// Holds the state of a ModelSymmetries. Not for users.

#include "permute/inference/reader.h"
#include "permute/inference/structure.h"
#include "permute/symmetries.h"

#include <string>
#include <vector>

namespace eg::permute {

/// A tensor that the inference tells of.
struct ShownTensor {
  std::string name;
  TensorRole role = TensorRole::parameter;
  Shape shape;
  TensorPoints points;
};

struct ModelSymmetries::State {
  Points points;
  std::vector<ShownTensor> tensors;
  std::vector<ShownTensor> leaves; ///< all parameters and inputs, shown or not
  std::optional<Structure> structure;
  /// By group of groups(): its classes; the second one, where there is one, permutes the blocks of the first.
  std::vector<std::vector<std::size_t>> classes;

  const ShownTensor& tensor(std::string_view name) const;
  /// The gather of one axis. Throws ValueError where it differs along other axes.
  std::vector<std::int64_t> gather_of(const PointMap& image, const ShownTensor& t, int axis) const;
  /// ModelSymmetries::moved of a tensor of any kind.
  Tensor moved(const PointMap& image, const ShownTensor& t, const Tensor& x) const;
};

/// Fills names, sizes and axes of the groups, and which classes each is made of.
std::vector<SymmetryGroup> describe_groups(const Points& points, const Structure& structure,
                                           const std::vector<ShownTensor>& tensors,
                                           const std::vector<std::pair<std::string, int>>& data_axes,
                                           std::vector<std::vector<std::size_t>>& classes);

} // namespace eg::permute
