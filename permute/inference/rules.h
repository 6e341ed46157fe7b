#pragma once
// Applies the symmetries that op definitions declare, and the inference's own rules where indices are cut, joined,
// selected or repeated. Not for users.

#include "core/call.h"
#include "permute/inference/layout.h"

#include <set>
#include <span>
#include <string>
#include <vector>

namespace eg::permute {

/// What a rule sees of one call: its inputs' points, and its outputs', which it fills.
struct Call {
  const Event& event;
  Points& points;
  std::vector<TensorPoints> in;  ///< one for each input, empty where none was given
  std::vector<TensorPoints> out; ///< axes are there and hold nothing yet
  /// Constants of which it sees a pattern that it has added, not the values.
  std::set<std::size_t> read_otherwise = {};

  const Attrs& attrs() const { return *event.attrs; }
  const Shape& in_shape(std::size_t i) const { return event.in[i].shape(); }
  const Shape& out_shape(std::size_t o) const { return event.out[o].shape(); }
  bool given(std::size_t i) const { return i < event.in.size() && event.in[i].defined(); }
  /// "softmax at blocks.0: columns"
  std::string reason(const std::string& what) const;
};

using CallRule = void (*)(Call&);
/// An operation and the rule by which its calls are read. It is meant as the row itself (core/ops/list.h), so that one
/// that is renamed or removed does not compile here.
struct OpRule {
  const OpDef* op;
  CallRule read;
};
/// The rule of an operation that has one of its own; nullptr: what its row declares is all.
CallRule rule_of(const OpDef& op);

/// Reads the symmetries of the row: the legs of each hold the same points, axes without one are fixed. Axes that a rule
/// has filled before are left alone, and input axes in `settled` are not fixed.
void read_declared(Call& call, const std::vector<std::pair<int, int>>& settled = {});
/// The same for a list of symmetries.
void read_legs(Call& call, std::vector<Symmetry> symmetries, const std::vector<std::pair<int, int>>& settled = {});
/// Fixes what goes into a call that cannot be read, and what comes out of it.
void refuse(Call& call, const std::string& why);

/// Output o of a call that has been read may hold equal elements.
bool may_tie(const Call& call, std::size_t o);
/// An input was computed twice, or what a tensor is combined with is computed of it alone: x - x, x - amax(x), x x^T.
bool is_computed_twice(const Call& call);
/// Output o is what a normalisation gives, without factors of its own, or its elements one by one.
bool is_normalised(const Call& call, std::size_t o);
/// The base of the outputs: that of all floating inputs that depend on leaves, where it is one; 0 where it is new.
std::uint64_t inherited_base(const Call& call);

/// The symmetries that the row declares for a call, with axes counted from the front. None where it declares none or
/// throws; `why` gets what it throws.
std::vector<Symmetry> declared_symmetries(const Event& event, std::string* why = nullptr);
/// The call has a tensor with the axis of a leg, as declared_symmetries() gives it.
bool leg_is_present(const Event& event, const Leg& leg);
/// The axis of `s` on the tensor of `leg`, where it has just one there; -1.
int axis_on(const Symmetry& s, const Leg& leg);
/// Permutations along `s` may depend on the index along `other`: the operation is one for each of its indices, or their
/// sum where no output has them, and every tensor that has an axis of `s` has one of `other`.
bool may_depend(const Event& event, const Symmetry& s, const Symmetry& other);
/// Though there is a rule for the operation, Dependences reads this call as its row declares it.
bool reads_as_declared(const Event& event);
/// A row with a body that says more of its symmetries than the calls in the body do.
bool is_read_whole(const OpDef& op);

// Rules by theme.
std::span<const OpRule> movement_rules();
std::span<const OpRule> index_rules();
std::span<const OpRule> attention_rules();
std::span<const OpRule> window_rules();
std::span<const OpRule> mask_rules();

/// Fixes every axis of extent 2 and more, and what the elements number.
void fix_all(Points& points, const TensorPoints& t, const Shape& shape, const std::string& reason);
/// Fixes what the elements of an index tensor number.
void fix_numbering(Points& points, const TensorPoints& t, const std::string& reason);
/// The elements of an index tensor number these points.
void number(Points& points, const TensorPoints& t, const PointsPtr& list, const std::string& reason);
/// Points with numbers in the range stay among themselves, one alone stays.
void keep_range(Points& points, const PointList& list, const NumberRange& range);
/// Elements of constant input i are indices of `list`: they go with its points, by a pattern, and `ignored` names
/// nothing. False where there are too many.
bool keep_indices(Call& call, std::size_t i, const PointsPtr& list, std::int64_t ignored = -1);
/// The elements of an integer tensor that has its values.
std::vector<std::int64_t> numbers_of(const Tensor& t);

} // namespace eg::permute
