#include "permute/inference/dependence.h"

#include "core/ops/list.h"
#include "permute/inference/at.h"
#include "permute/inference/rules.h"

#include <algorithm>
#include <utility>

namespace eg::permute {

Dependences::Pair Dependences::fresh() {
  up_.push_back(static_cast<Pair>(up_.size()));
  return up_.back();
}

Dependences::Pair Dependences::find(Pair p) {
  while (up_[p] != p) p = up_[p] = up_[up_[p]];
  return p;
}

void Dependences::unite(Pair a, Pair b) {
  a = find(a);
  b = find(b);
  up_[std::max(a, b)] = std::min(a, b); // 0 stays 0
}

void Dependences::end(Pairs& pairs) {
  for (const Pair p : pairs.all) unite(p, 0);
}

void Dependences::end_of(Pairs& pairs, int axis) {
  for (int b = 0; b < pairs.rank; ++b) {
    unite(pairs.at(axis, b), 0);
    unite(pairs.at(b, axis), 0);
  }
}

Dependences::Pairs Dependences::none(const Tensor& t) const {
  return {t.rank(), std::vector<Pair>(at(t.rank()) * at(t.rank()), 0)};
}

Dependences::Pairs Dependences::of_input(const Tensor& t) const {
  const auto found = tensors_.find(t.id());
  return found == tensors_.end() ? none(t) : found->second;
}

void Dependences::set(const Tensor& t, Pairs pairs) {
  for (int a = 0; a < pairs.rank; ++a)
    for (int b = 0; b < pairs.rank; ++b)
      if (t.size(a) < 2 || t.size(b) < 2) pairs.at(a, b) = 0; // one index: nothing to depend on
  if (std::any_of(pairs.all.begin(), pairs.all.end(), [&](Pair p) { return lives(p); }))
    tensors_.insert_or_assign(t.id(), std::move(pairs));
  else
    tensors_.erase(t.id());
}

bool Dependences::is_constant(const Tensor& t) const { return t.has_storage() && !varies_.contains(t.id()); }

void Dependences::declare_input(const Tensor& input) { varies_.insert(input.id()); }

void Dependences::declare(const Tensor& parameter) {
  declare_input(parameter);
  Pairs pairs = none(parameter);
  for (int a = 0; a < pairs.rank; ++a)
    for (int b = 0; b < pairs.rank; ++b)
      if (a != b && parameter.size(a) > 1 && parameter.size(b) > 1) pairs.at(a, b) = fresh();
  set(parameter, std::move(pairs));
}

void Dependences::read(const RecordedCall& call) {
  std::vector<Pairs> in;
  bool any = false, constant = !call.in.empty();
  for (const Tensor& t : call.in) {
    in.push_back(t.defined() ? of_input(t) : Pairs{});
    for (const Pair p : in.back().all) any = any || lives(p);
    constant = constant && (!t.defined() || is_constant(t));
  }
  if (!constant)
    for (const Tensor& t : call.out)
      if (t.defined()) varies_.insert(t.id());
  if (!any) return;
  const auto axis_of = [&](const char* name, const Tensor& t) {
    const auto axis = static_cast<int>(call.attrs.integer(name));
    return axis < 0 ? axis + t.rank() : axis;
  };
  const OpDef* const op = call.op;
  const bool constant_ids =
      call.given(1) && call.in[1].dtype() == DType::i64 && call.in[1].rank() == 1 && is_constant(call.in[1]);
  if (op == &reshape_op) return read_reshape(call, std::move(in[0]));
  if (op == &slice_op || op == &repeat_interleave_op)
    return read_picked(call, std::move(in[0]), axis_of("axis", call.in[0]));
  if (op == &index_select_op && constant_ids) return read_picked(call, std::move(in[0]), axis_of("axis", call.in[0]));
  if (op == &embedding_op && constant_ids) return read_picked(call, std::move(in[0]), 0);
  if ((op == &dropout_op || op == &drop_path_op) && call.attrs.real("p") == 0.0)
    return set(call.out[0], std::move(in[0])); // nothing is dropped
  if (op == &concat_op) return read_joined(call, in, axis_of("axis", call.in[0]));
  if (op != nullptr && (rule_of(*op) == nullptr || reads_as_declared(call.event()))) return read_symmetries(call, in);
  for (Pairs& pairs : in) end(pairs);
}

void Dependences::read_symmetries(const RecordedCall& call, std::vector<Pairs>& in) {
  const Event event = call.event();
  const std::vector<Symmetry> all = declared_symmetries(event);
  std::vector<Pairs> out;
  for (const Tensor& t : call.out) out.push_back(t.defined() ? none(t) : Pairs{});
  for (std::size_t i = 0; i < in.size(); ++i) {
    std::vector<bool> has_leg(at(in[i].rank), false);
    for (const Symmetry& s : all)
      for (const Leg& leg : s.legs)
        if (leg.side == Leg::Side::in && at(leg.index) == i && leg_is_present(event, leg)) has_leg[at(leg.axis)] = true;
    for (int axis = 0; axis < in[i].rank; ++axis)
      if (!has_leg[at(axis)]) end_of(in[i], axis);
  }
  for (const Symmetry& s : all)
    for (const Symmetry& other : all) {
      const bool allowed = may_depend(event, s, other);
      Pair shared = 0;
      bool first = true;
      const auto join = [&](Pair p) {
        if (first)
          shared = p;
        else
          unite(shared, p);
        first = false;
      };
      for (const Leg& leg : s.legs) {
        if (leg.side == Leg::Side::out || !leg_is_present(event, leg)) continue;
        Pairs& pairs = in[at(leg.index)];
        if (allowed) {
          join(pairs.at(leg.axis, axis_on(other, leg)));
          continue;
        }
        for (const Leg& further : other.legs)
          if (further.side == leg.side && further.index == leg.index && leg_is_present(event, further))
            unite(pairs.at(leg.axis, further.axis), 0);
      }
      if (!allowed || first) continue;
      for (const Leg& leg : s.legs)
        if (leg.side == Leg::Side::out && leg_is_present(event, leg))
          out[at(leg.index)].at(leg.axis, axis_on(other, leg)) = shared;
    }
  for (std::size_t o = 0; o < out.size(); ++o)
    if (call.out[o].defined()) set(call.out[o], std::move(out[o]));
}

void Dependences::read_reshape(const RecordedCall& call, Pairs in) {
  const Shape &from = call.in[0].shape(), &to = call.out[0].shape();
  if (from.numel() == 0) return end(in);
  Pairs out = none(call.out[0]);
  const std::vector<AxisMatch> all = axis_matches(from, to);
  for (const AxisMatch& m : all) {
    const bool moves = m.from.size() == 1 && m.to.size() == 1;
    for (const int axis : m.from)
      for (const AxisMatch& n : all)
        for (const int other : n.from) {
          if (other == axis) continue;
          Pair& pair = in.at(axis, other);
          if (&m == &n) { // joined: the later ones may depend on the earlier ones
            if (other > axis) unite(pair, 0);
            continue;
          }
          if (!moves || (n.from.size() > 1 && n.to.size() > 1)) {
            unite(pair, 0);
            continue;
          }
          for (const int there : n.to) {
            Pair& result = out.at(m.to[0], there);
            if (other != n.from[0]) unite(result, pair);
            result = pair;
          }
        }
    for (std::size_t k = 1; k < m.to.size(); ++k) // cut: within a block on the block
      for (std::size_t outer = 0; outer < k; ++outer) out.at(m.to[k], m.to[outer]) = fresh();
  }
  set(call.out[0], std::move(out));
}

/// Others go on depending on an axis of which indices are taken; it no longer depends on them.
void Dependences::read_picked(const RecordedCall& call, Pairs in, int axis) {
  for (int other = 0; other < in.rank; ++other) unite(in.at(axis, other), 0);
  set(call.out[0], std::move(in));
}

/// Others go on depending on an axis along which tensors are joined, and on no other.
void Dependences::read_joined(const RecordedCall& call, std::vector<Pairs>& in, int axis) {
  Pairs out = none(call.out[0]);
  for (int a = 0; a < out.rank; ++a)
    for (int b = 0; b < out.rank; ++b) {
      if (a == axis || b != axis) {
        for (Pairs& pairs : in) unite(pairs.at(a, b), 0);
        continue;
      }
      out.at(a, b) = fresh();
      for (std::size_t i = 0; i < in.size(); ++i)
        if (call.in[i].size(axis) > 1) unite(out.at(a, b), in[i].at(a, b));
    }
  set(call.out[0], std::move(out));
}

std::vector<std::vector<int>> Dependences::of(const Tensor& parameter) {
  Pairs pairs = of_input(parameter);
  const int rank = pairs.rank;
  std::vector<std::vector<int>> over(at(rank));
  for (int a = 0; a < rank; ++a)
    for (int b = 0; b < a; ++b) // the later one
      if (lives(pairs.at(a, b)) && lives(pairs.at(b, a))) unite(pairs.at(b, a), 0);
  const auto reaches = [&](int from, int to) { // along pairs
    std::vector<int> list{from};
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i] == to) return true;
      for (int b = 0; b < rank; ++b)
        if (lives(pairs.at(list[i], b)) && std::find(list.begin(), list.end(), b) == list.end()) list.push_back(b);
    }
    return false;
  };
  for (bool again = true; std::exchange(again, false);)
    for (int a = 0; a < rank; ++a)
      for (int b = 0; b < rank; ++b) {
        if (!lives(pairs.at(a, b))) continue;
        bool closed = !reaches(b, a);
        for (int c = 0; c < rank; ++c) closed = closed && (!lives(pairs.at(b, c)) || lives(pairs.at(a, c)));
        if (closed) continue;
        unite(pairs.at(a, b), 0);
        again = true;
      }
  for (int a = 0; a < rank; ++a)
    for (int b = 0; b < rank; ++b)
      if (lives(pairs.at(a, b))) over[at(a)].push_back(b);
  return over;
}

} // namespace eg::permute
