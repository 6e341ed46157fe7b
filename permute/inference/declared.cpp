// Operations as their rows declare them.

#include "core/ops/list.h"
#include "permute/inference/rules.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <new>

namespace eg::permute {
namespace {

void count_from_front(const Event& event, std::vector<Symmetry>& symmetries) {
  for (Symmetry& s : symmetries)
    for (Leg& leg : s.legs)
      if (leg.axis < 0 && leg_is_present(event, leg))
        leg.axis += (leg.side == Leg::Side::in ? event.in : event.out)[static_cast<std::size_t>(leg.index)].rank();
}

/// Rows whose outputs hold the very numbers of their input.
bool passes_numbers(const OpDef* op) {
  constexpr const OpDef* all[] = {&contiguous_op, &transpose_op, &permute_op, &squeeze_op,
                                  &unsqueeze_op,  &expand_op,    &cast_op};
  return std::find(std::begin(all), std::end(all), op) != std::end(all);
}

class Declared {
public:
  /// `why`: the row declares nothing, for this reason.
  Declared(Call& call, std::vector<Symmetry> symmetries, const std::vector<std::pair<int, int>>& settled,
           std::string why = {})
      : call_(call), settled_(settled), symmetries_(std::move(symmetries)), why_(std::move(why)) {
    count_from_front(call_.event, symmetries_);
  }

  void run() {
    for (const Symmetry& s : symmetries_) read(s);
    for (std::size_t i = 0; i < call_.in.size(); ++i) {
      for (int axis = 0; axis < static_cast<int>(call_.in[i].axes.size()); ++axis)
        if (!is_settled(i, axis) && covering(Leg::Side::in, static_cast<int>(i), axis) == nullptr)
          fix_axis(call_.in[i].axis(axis), call_.in_shape(i), axis, fmt::format("{}, axis {}", input(i), axis));
      if (call_.in[i].values != nullptr && !renumbers(static_cast<int>(i)) && !passes())
        fix_numbering(call_.points, call_.in[i], call_.reason("it computes with numbers"));
    }
    for (std::size_t o = 0; o < call_.out.size(); ++o)
      for (int axis = 0; axis < static_cast<int>(call_.out[o].axes.size()); ++axis) {
        AxisPoints& own = call_.out[o].axes[static_cast<std::size_t>(axis)];
        if (own.points != nullptr) continue;
        const std::int64_t n = call_.out_shape(o)[axis];
        own = {call_.points.fresh(n), {}};
        fix_axis(own, call_.out_shape(o), axis, fmt::format("output {}, axis {}", o, axis));
      }
    if (passes() && !call_.in.empty()) call_.out.front().values = call_.in.front().values;
  }

private:
  std::span<const Tensor> side(const Leg& leg) const {
    return leg.side == Leg::Side::in ? call_.event.in : call_.event.out;
  }
  const Shape& shape(const Leg& leg) const { return side(leg)[static_cast<std::size_t>(leg.index)].shape(); }
  bool present(const Leg& leg) const { return leg_is_present(call_.event, leg); }
  bool passes() const { return passes_numbers(call_.event.op) && call_.event.out[0].dtype() == DType::i64; }
  bool renumbers(int input) const {
    return std::any_of(symmetries_.begin(), symmetries_.end(), [&](const Symmetry& s) {
      return std::find(s.values.begin(), s.values.end(), input) != s.values.end();
    });
  }
  bool is_settled(std::size_t i, int axis) const {
    return std::find(settled_.begin(), settled_.end(), std::pair{static_cast<int>(i), axis}) != settled_.end();
  }

  const Symmetry* covering(Leg::Side which, int index, int axis) const {
    for (const Symmetry& s : symmetries_)
      for (const Leg& leg : s.legs)
        if (leg.side == which && leg.index == index && leg.axis == axis) return &s;
    return nullptr;
  }

  /// What the permutation of `s` depends on in every input that has it.
  std::vector<const Symmetry*> common_dependences(const Symmetry& s) const {
    std::vector<const Symmetry*> common;
    const bool from_inputs = std::any_of(s.legs.begin(), s.legs.end(),
                                         [&](const Leg& leg) { return leg.side == Leg::Side::in && present(leg); });
    if (!from_inputs) return common;
    for (const Symmetry& other : symmetries_) {
      if (!may_depend(call_.event, s, other)) continue;
      const bool everywhere = std::all_of(s.legs.begin(), s.legs.end(), [&](const Leg& leg) {
        if (leg.side == Leg::Side::out || !present(leg)) return true;
        const std::vector<int>& over = points_of(leg).over;
        return std::find(over.begin(), over.end(), axis_on(other, leg)) != over.end();
      });
      if (everywhere) common.push_back(&other);
    }
    return common;
  }

  const AxisPoints& points_of(const Leg& leg) const {
    return call_.in[static_cast<std::size_t>(leg.index)].axis(leg.axis);
  }

  void read(const Symmetry& s) {
    const std::vector<const Symmetry*> over = common_dependences(s);
    const auto axes_on = [&](const Leg& leg) {
      std::vector<int> axes;
      axes.reserve(over.size());
      for (const Symmetry* other : over) axes.push_back(axis_on(*other, leg));
      return axes;
    };
    PointsPtr list;
    for (const Leg& leg : s.legs) {
      if (leg.side == Leg::Side::out || !present(leg)) continue;
      const AxisPoints own = over_only(call_.points, shape(leg), points_of(leg), axes_on(leg));
      if (list == nullptr)
        list = own.points;
      else
        unite(s, list, own.points, shape(leg)[leg.axis]);
    }
    number_inputs(s, list);
    for (const Leg& leg : s.legs) {
      if (leg.side == Leg::Side::in || !present(leg)) continue;
      if (list == nullptr) list = call_.points.fresh(shape(leg)[leg.axis]);
      AxisPoints& own = call_.out[static_cast<std::size_t>(leg.index)].axes[static_cast<std::size_t>(leg.axis)];
      std::vector<int> others = axes_on(leg);
      std::int64_t size = shape(leg)[leg.axis];
      for (const int other : others) size *= shape(leg)[other];
      if (own.points == nullptr && size == static_cast<std::int64_t>(list->size()))
        own = {list, std::move(others)};
      else if (own.points != nullptr)
        unite(s, list, own.points, shape(leg)[leg.axis]);
      else if (shape(leg).numel() > 0) // the row is wrong of this call: the output's axis stays
        call_.points.fix(*list, call_.reason(fmt::format("its legs of '{}' have different extents", s.name)));
    }
  }

  void unite(const Symmetry& s, const PointsPtr& a, const PointsPtr& b, std::int64_t width) {
    if (a->size() != b->size()) { // the row is wrong of this call
      const std::string reason = call_.reason(fmt::format("its legs of '{}' have different extents", s.name));
      call_.points.fix(*a, reason);
      call_.points.fix(*b, reason);
      return;
    }
    call_.points.unite(a, b, width);
  }

  void number_inputs(const Symmetry& s, PointsPtr& list) {
    for (const int v : s.values) {
      const auto i = static_cast<std::size_t>(v);
      if (!call_.given(i)) continue;
      if (list == nullptr)
        for (const Leg& leg : s.legs)
          if (leg.side == Leg::Side::out && present(leg)) list = call_.points.fresh(shape(leg)[leg.axis]);
      if (list == nullptr) continue;
      if (call_.in[i].constant) {
        if (lists_of(v) != 1 || !keep_indices(call_, i, list)) fix_used(call_.event.in[i], *list);
      } else {
        number(call_.points, call_.in[i], list, call_.reason("indices that are computed"));
      }
    }
  }

  /// How many axes the elements of an input number.
  std::int64_t lists_of(int input) const {
    return std::count_if(symmetries_.begin(), symmetries_.end(), [&](const Symmetry& s) {
      return std::find(s.values.begin(), s.values.end(), input) != s.values.end();
    });
  }

  /// Constant indices cannot be renumbered: what they name stays.
  void fix_used(const Tensor& indices, const PointList& list) {
    PointList used;
    for (const std::int64_t i : numbers_of(indices))
      if (i >= 0 && i < static_cast<std::int64_t>(list.size())) used.push_back(list[static_cast<std::size_t>(i)]);
    call_.points.fix(used, call_.reason("constant indices"));
  }

  std::string input(std::size_t i) const {
    return call_.event.op != nullptr ? input_name(*call_.event.op, i) : fmt::format("input {}", i);
  }

  /// Its indices stay, whatever the index along other axes.
  void fix_axis(const AxisPoints& own, const Shape& shape, int axis, const std::string& what) {
    if (shape[axis] > 1 && own.points != nullptr)
      call_.points.fix(*independent(call_.points, shape, own),
                       call_.reason(why_.empty() ? what : fmt::format("{} ({})", what, why_)));
  }

  Call& call_;
  const std::vector<std::pair<int, int>>& settled_;
  std::vector<Symmetry> symmetries_;
  std::string why_;
};

} // namespace

std::string Call::reason(const std::string& what) const {
  const std::string place = current_place();
  const bool causal = event.attrs != nullptr && event.attrs->has("causal") && event.attrs->flag("causal");
  return fmt::format("{}{}{}{}: {}", causal ? "causal " : "",
                     event.op != nullptr ? event.op->name : std::string_view(event.custom->name),
                     place.empty() ? "" : " at ", place, what);
}

void read_declared(Call& call, const std::vector<std::pair<int, int>>& settled) {
  const OpDef* op = call.event.op;
  if (op == nullptr || op->symmetries == nullptr) return read_legs(call, {}, settled);
  std::string why;
  std::vector<Symmetry> symmetries = declared_symmetries(call.event, &why);
  Declared(call, std::move(symmetries), settled, why).run();
}

void refuse(Call& call, const std::string& why) {
  const std::string reason = call.reason("it cannot be read: " + why);
  for (std::size_t i = 0; i < call.in.size(); ++i)
    if (call.given(i)) fix_all(call.points, call.in[i], call.in_shape(i), reason);
  for (std::size_t o = 0; o < call.out.size(); ++o) {
    if (!call.event.out[o].defined()) continue;
    call.out[o] = fresh_points(call.points, call.out_shape(o));
    fix_all(call.points, call.out[o], call.out_shape(o), reason);
  }
}

std::vector<Symmetry> declared_symmetries(const Event& event, std::string* why) {
  if (event.op == nullptr || event.op->symmetries == nullptr) return {};
  Sample sample{{event.in.begin(), event.in.end()}, *event.attrs};
  while (!sample.in.empty() && !sample.in.back().defined()) sample.in.pop_back(); // as samples leave them out
  std::vector<Symmetry> symmetries;
  try {
    symmetries = event.op->symmetries(sample);
  } catch (const Interrupted&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) { // the row reads values that are not there: it declares nothing
    if (why != nullptr) *why = e.what();
    return {};
  }
  count_from_front(event, symmetries);
  return symmetries;
}

bool leg_is_present(const Event& event, const Leg& leg) {
  const std::span<const Tensor> list = leg.side == Leg::Side::in ? event.in : event.out;
  if (static_cast<std::size_t>(leg.index) >= list.size()) return false;
  const Tensor& t = list[static_cast<std::size_t>(leg.index)];
  return t.defined() && leg.axis < t.rank() && leg.axis >= -t.rank(); // an output that was not requested is [0]
}

int axis_on(const Symmetry& s, const Leg& leg) {
  int axis = -1;
  for (const Leg& other : s.legs) {
    if (other.side != leg.side || other.index != leg.index) continue;
    if (axis >= 0) return -1;
    axis = other.axis;
  }
  return axis;
}

bool may_depend(const Event& event, const Symmetry& s, const Symmetry& other) {
  return !other.mixes && other.values.empty() && s.values.empty() && &s != &other &&
         std::all_of(s.legs.begin(), s.legs.end(),
                     [&](const Leg& leg) { return !leg_is_present(event, leg) || axis_on(other, leg) >= 0; });
}

void read_legs(Call& call, std::vector<Symmetry> symmetries, const std::vector<std::pair<int, int>>& settled) {
  Declared(call, std::move(symmetries), settled).run();
}

void fix_all(Points& points, const TensorPoints& t, const Shape& shape, const std::string& reason) {
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] > 1) points.fix(*independent(points, shape, t.axis(axis)), reason);
  fix_numbering(points, t, reason);
}

void fix_numbering(Points& points, const TensorPoints& t, const std::string& reason) {
  if (t.values == nullptr) return;
  if (t.values->points != nullptr) points.fix(*t.values->points, reason);
  if (t.values->fixed.empty()) t.values->fixed = reason;
}

void number(Points& points, const TensorPoints& t, const PointsPtr& list, const std::string& reason) {
  if (t.values == nullptr) return points.fix(*list, reason);
  if (t.values->points == nullptr) {
    t.values->points = list;
    for (const NumberRange& range : t.values->ranges) keep_range(points, *list, range);
    if (!t.values->fixed.empty()) points.fix(*list, t.values->fixed);
    return;
  }
  if (t.values->points->size() == list->size())
    points.unite(t.values->points, list, static_cast<std::int64_t>(list->size()));
  else
    for (const PointsPtr& both : {t.values->points, list}) points.fix(*both, reason + " of two sizes");
}

void keep_range(Points& points, const PointList& list, const NumberRange& range) {
  const std::int64_t n = static_cast<std::int64_t>(list.size());
  const std::int64_t first = std::clamp<std::int64_t>(range.first, 0, n), last = std::clamp(range.last, first, n);
  const auto within = std::make_shared<PointList>(list.begin() + first, list.begin() + last);
  if (within->size() == 1) points.fix(*within, range.reason);
  points.hold(within, last - first);
  const auto others = std::make_shared<PointList>(list.begin(), list.begin() + first);
  others->insert(others->end(), list.begin() + last, list.end());
  if (others->size() == 1) points.fix(*others, range.reason);
  points.hold(others, static_cast<std::int64_t>(others->size()));
}

bool keep_indices(Call& call, std::size_t i, const PointsPtr& list, std::int64_t ignored) {
  constexpr std::size_t most_pairs = 1 << 20, most_tuples = 512;
  const Tensor& indices = call.event.in[i];
  const std::vector<std::int64_t> numbers = numbers_of(indices);
  const std::size_t range = list->size();
  if (numbers.empty()) return true;
  if (numbers.size() > most_pairs / std::max<std::size_t>(range, 1)) return false;
  if (indices.rank() > 1 && numbers.size() > most_tuples) return false;
  Pattern named{{}, std::vector<std::int64_t>(numbers.size() * range, 0), call.reason("constant indices")};
  Pattern others{{}, std::vector<std::int64_t>(numbers.size(), 0), named.reason}; // what names nothing
  std::map<std::int64_t, std::int64_t> kinds;
  for (std::size_t e = 0; e < numbers.size(); ++e) {
    const std::int64_t number = numbers[e];
    if (number >= 0 && number < static_cast<std::int64_t>(range) && number != ignored)
      named.kinds[e * range + static_cast<std::size_t>(number)] = 1;
    else
      others.kinds[e] = kinds.try_emplace(number, static_cast<std::int64_t>(kinds.size()) + 1).first->second;
  }
  for (const AxisPoints& axis : call.in[i].axes) {
    named.axes.push_back(axis.points);
    others.axes.push_back(axis.points);
  }
  named.axes.push_back(list);
  call.points.add_pattern(std::move(named));
  call.points.add_pattern(std::move(others));
  call.read_otherwise.insert(i);
  return true;
}

std::vector<std::int64_t> numbers_of(const Tensor& t) {
  const PauseRecording pause;
  return t.to(DType::i64).contiguous().to_vector<std::int64_t>();
}

} // namespace eg::permute
