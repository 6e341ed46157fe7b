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

/// A generator of a group: a permutation of one cell of one of the group's classes.
struct Generator {
  std::size_t part = 0;            ///< place of the class in the list of the group's classes; above 0: it moves blocks
  std::size_t number = 0;          ///< of the class
  std::size_t cell = 0, index = 0; ///< index: in PointClass::generators()
  Permutation permutation;
};

struct ModelSymmetries::State {
  Points points;
  std::vector<ShownTensor> tensors;
  std::vector<ShownTensor> leaves; ///< all parameters and inputs, shown or not
  std::optional<Structure> structure;
  /// By group of groups(): its classes; the second one, where there is one, permutes the blocks of the first.
  std::vector<std::vector<std::size_t>> classes;
  /// A hash of all tensors that are shown, with their points: elements of another model have another one.
  std::uint64_t model = 0;

  std::uint64_t hash_of_tensors() const;
  /// Throws ValueError for an element of another model.
  void check_own(const SymmetryElement& element) const;
  const ShownTensor& tensor(std::string_view name) const;
  /// Generators of a group, cell by cell.
  std::vector<Generator> generators(std::size_t group) const;
  /// The element that a generator is.
  PointMap image_of(const Generator& generator) const;
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
