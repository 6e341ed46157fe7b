#pragma once
// Finds the permutations that a model commutes with by reading its tape. For each axis of each parameter, input and
// output it gives the groups that move it. With it any model's weights, gradients and optimiser state can be permuted,
// and the number of its keys is known. permute/README.md says how it works and what it can miss.

#include "core/base/error.h"
#include "nn/module.h"
#include "permute/axes.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace eg::permute {

enum class TensorRole : std::uint8_t { parameter, input, output };

/// Where a group acts: on an axis of a tensor, or on the numbers that an index tensor holds.
struct AxisUse {
  std::string tensor;
  int axis = 0; ///< -1: the tensor's values are renumbered
  TensorRole role = TensorRole::parameter;
  std::vector<std::int64_t> places = {}; ///< indices along the axis that it moves, ascending
  bool whole = false;                    ///< those are all
};

enum class GroupKind : std::uint8_t {
  symmetric,     ///< all permutations of `size` points
  wreath,        ///< for each of `copies` blocks all permutations of the `size` points within; `over` moves the blocks
  automorphisms, ///< those that keep constants, or axes that are regrouped or combined in another order
  trivial,       ///< the identity alone; `because` says why
};
/// "symmetric", "wreath", "automorphisms", "trivial".
std::string_view name_of(GroupKind kind);

/// One independent part of a model's group of symmetries.
struct SymmetryGroup {
  std::string name;
  GroupKind kind = GroupKind::symmetric;
  std::int64_t size = 0;
  std::int64_t copies = 1; ///< independent permutations of that many points, one for each block
  /// Groups whose elements move the blocks; empty for a wreath product that holds the permutations of its blocks.
  std::vector<std::string> over = {};
  double log2_count = 0.0;
  std::vector<AxisUse> axes = {};
  bool moves_parameters = false;
  bool moves_outside = false; ///< inputs or outputs
  bool moves_data = false;    ///< an axis that has any extent: batch, tokens
  std::string because = {};   ///< of a trivial one: the operation that stopped it

  /// Part of a key: it changes weights and concerns the model, not one batch of data, and elements can be drawn.
  bool is_secret() const {
    return (kind == GroupKind::symmetric || kind == GroupKind::wreath) && moves_parameters && !moves_data;
  }
};

/// What a model is shown to the inference.
struct SymmetryQuery {
  nn::StateDict parameters;
  nn::StateDict inputs; ///< integer ones may be renumbered
  /// (input, axis) whose extents are those of this batch and no part of the model.
  std::vector<std::pair<std::string, int>> data_axes = {};
  /// Computes the outputs from the tensors above. Nothing but shapes is needed: meta tensors do.
  std::function<nn::StateDict()> run;
  /// Tensors to report in place of the parameters: computed from these by the function (a file's tensors from
  /// fused parameters). Called after `run`; may be empty.
  std::function<nn::StateDict()> shown = {};
  /// (tensor, axis) pairs that are to move alike though nothing demands it, for what papers tie together.
  std::vector<std::pair<std::pair<std::string, int>, std::pair<std::string, int>>> tied = {};
};

/// A model as a function of its parameters and inputs, by the names that its query gave them.
using NamedFunction = std::function<nn::StateDict(const nn::StateDict& leaves)>;

struct CertifyOptions {
  double tolerance = 1e-9;                                                ///< of relative errors in f64
  RandomKey key = {};                                                     ///< of the cotangents
  std::function<void(std::int64_t done, std::int64_t all)> progress = {}; ///< generators; may be empty
};

/// What ModelSymmetries::certify tried.
struct Certificate {
  std::int64_t groups = 0, generators = 0;
  /// Largest |f(p x) - p f(x)|, relative to the largest entry of the output, or to a thousandth of that of all outputs.
  double forward_error = 0.0;
  /// Largest |grad (p x) - p grad (x)|, relative likewise to the leaf's gradient.
  double gradient_error = 0.0;
  std::string no_gradient = {}; ///< why gradients were not compared; empty: they were
};

/// A claimed symmetry that the model does not have.
class SymmetryError : public Error {
public:
  using Error::Error;
};

/// One element of a model's group. Its permutations may be secret: it is wiped when it is destroyed.
class SymmetryElement;

/// A permutation along one axis of a leaf or an output; axis -1: of the numbers that an index tensor holds.
struct AxisMove {
  std::string tensor;
  int axis = 0;
  Permutation permutation;
};

/// The group of a model.
class ModelSymmetries {
public:
  /// Reads the tape of query.run(). Throws what run throws, and ValueError for ties that name no axis or axes of
  /// different extents.
  explicit ModelSymmetries(const SymmetryQuery& query);
  ~ModelSymmetries();
  ModelSymmetries(ModelSymmetries&&) noexcept;
  ModelSymmetries& operator=(ModelSymmetries&&) noexcept;

  /// Free groups in the order of their first axes, then the trivial ones.
  const std::vector<SymmetryGroup>& groups() const { return groups_; }
  const SymmetryGroup* find(std::string_view name) const;
  /// log2 of the number of keys: elements that move weights, whatever they do to inputs and outputs.
  double log2_count() const;

  /// The element that moves the named groups by permutations from `source` (sites are the groups' names, with the
  /// number of the block behind a wreath group's: "blocks.0.qk[3]") and leaves the others. Throws ValueError for a name
  /// that does not exist, a group that is trivial, with its reason, or one of automorphisms.
  SymmetryElement element(const std::set<std::string>& names, const PermutationSource& source) const;
  /// Elements that generate the named group, of any kind; none of a trivial one. Throws ValueError for a name that does
  /// not exist.
  std::vector<SymmetryElement> generators(std::string_view name) const;

  /// Whether some element makes these moves along axes, and no others at the tensors that are shown. Throws ValueError
  /// for an axis that is not there or has another extent, and for a group of automorphisms of more than 2^16 elements.
  bool contains(const std::vector<AxisMove>& moves) const;

  /// An element as permutations of parameter axes (or of those that `shown` gave), for transform(); they are copies,
  /// which are wiped as Permutation says. An AxisMap has one permutation for an axis. Throws ValueError for an element
  /// that moves an axis in another way at each index of other axes (features [heads, features, dim] of each head, which
  /// the element also permutes apart): moved() applies it.
  std::pair<AxisMap, PermutationSet> axis_map(const SymmetryElement& element) const;
  /// A parameter, input or output as the element moves it: x gathered along its axes, numbers of index tensors changed.
  /// Axes that do not move may have any extent, unless permutations along one axis depend on the index along another
  /// one. Throws ShapeError, and ValueError for an element of another model.
  Tensor moved(const SymmetryElement& element, std::string_view tensor, const Tensor& x) const;

  /// Tries what was inferred: for a generator p of each group (two that exchange and rotate the places of a symmetric
  /// one, in every block; those of automorphisms), f(p x) = p f(x), and with cotangents c moved along
  /// grad <p c, f>(p x) = p grad <c, f>(x). Maps that commute with f form a group, so the whole group does if its
  /// generators do. That they do at one general point is evidence: for analytic f in exact arithmetic it would be a
  /// proof with probability 1, for the index inputs given. `leaves`: all parameters and inputs of the query with values
  /// in general position, floating ones f64. f gives the query's outputs and may give its shown tensors too. One
  /// forward and one backward pass for each generator. Throws SymmetryError that names the group, the generator, the
  /// tensor and the first operation that does not commute; ValueError for leaves or outputs that are missing or not
  /// finite; what f throws.
  Certificate certify(const NamedFunction& f, const nn::StateDict& leaves, const CertifyOptions& options = {}) const;

private:
  friend class SymmetryProbe;
  friend class Certifier;
  struct State;
  std::unique_ptr<State> state_;
  std::vector<SymmetryGroup> groups_;
};

class SymmetryElement {
public:
  ~SymmetryElement();
  SymmetryElement(SymmetryElement&&) noexcept = default;
  /// The old permutations are wiped with `other`.
  SymmetryElement& operator=(SymmetryElement&& other) noexcept {
    image_.swap(other.image_);
    std::swap(model_, other.model_);
    return *this;
  }
  SymmetryElement(const SymmetryElement&) = delete;
  SymmetryElement& operator=(const SymmetryElement&) = delete;
  /// The element that undoes it.
  SymmetryElement inverse() const;
  /// First this, then `next`. Throws ValueError for elements of two models.
  SymmetryElement then(const SymmetryElement& next) const;

private:
  friend class ModelSymmetries;
  friend class SymmetryProbe;
  friend class Certifier;
  SymmetryElement(std::vector<std::int32_t> image, std::uint64_t model) : image_(std::move(image)), model_(model) {}
  std::vector<std::int32_t> image_; // gather of points
  std::uint64_t model_;             // ModelSymmetries::State::model
};

} // namespace eg::permute
