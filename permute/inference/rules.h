#pragma once
// Applies the symmetries that op definitions declare, and the inference's own rules where indices are cut, joined,
// selected or repeated. Not for users.

#include "core/call.h"
#include "permute/inference/layout.h"

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

/// Output o of a call that has been read may hold equal elements.
bool may_tie(const Call& call, std::size_t o);

// Rules by theme.
std::span<const OpRule> movement_rules();
std::span<const OpRule> index_rules();
std::span<const OpRule> attention_rules();
std::span<const OpRule> window_rules();

/// Fixes every axis of extent 2 and more, and what the elements number.
void fix_all(Points& points, const TensorPoints& t, const Shape& shape, const std::string& reason);
/// Fixes what the elements of an index tensor number.
void fix_numbering(Points& points, const TensorPoints& t, const std::string& reason);
/// The elements of an index tensor number these points.
void number(Points& points, const TensorPoints& t, const PointsPtr& list, const std::string& reason);
/// The elements of an integer tensor that has its values.
std::vector<std::int64_t> numbers_of(const Tensor& t);

} // namespace eg::permute
