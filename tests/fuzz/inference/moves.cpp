// How steps are proposed: a sample of any row fitted to what is there, and by hand what mixes, cuts, joins and indexes.

#include "core/ops/list.h"
#include "core/registry.h"
#include "fuzz/inference/builder.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

namespace eg::fuzz {
namespace {

using Value = Builder::Value;
using Proposal = Builder::Proposal;
using Integers = std::vector<std::int64_t>;

ProgramStep step_of(const OpDef& op, std::vector<std::optional<ValueRef>> in, Attrs attrs = {}) {
  return {&op, std::move(in), std::move(attrs)};
}
std::int64_t axis_in(Builder& b, const Tensor& x) {
  return static_cast<std::int64_t>(b.below(static_cast<std::size_t>(x.rank())));
}
std::int64_t extent(const Tensor& x, std::int64_t axis) { return x.size(static_cast<int>(axis)); }
Integers extents_of(const Shape& shape) { return {shape.begin(), shape.end()}; }
Tensor numbers(const Integers& list) { return Tensor::from(list, {static_cast<std::int64_t>(list.size())}); }

// --- axes that are cut, joined and exchanged ---

/// Factors of n of at least 2, in any order.
Integers factors(Builder& b, std::int64_t n) {
  Integers list;
  while (n > 1) {
    Integers divisors;
    for (std::int64_t d = 2; d <= n; ++d)
      if (n % d == 0) divisors.push_back(d);
    list.push_back(b.one_of(divisors));
    n /= list.back();
  }
  return list;
}

Proposal reshape_move(Builder& b) {
  const auto x = b.some_real();
  if (!x) return {};
  const Integers shape = factors(b, x->value.numel());
  if (shape.empty() || static_cast<int>(shape.size()) > b.limits().rank) return {};
  return step_of(reshape_op, {x->ref}, {{"shape", shape}});
}

Proposal permute_move(Builder& b) {
  const auto x = b.some_real(2);
  if (!x) return {};
  Integers order(static_cast<std::size_t>(x->value.rank()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  fisher_yates(order, [&](std::uint64_t n) { return b.below(n); });
  return step_of(permute_op, {x->ref}, {{"axes", order}});
}

Proposal slice_move(Builder& b) {
  const auto x = b.some_real();
  if (!x) return {};
  const std::int64_t axis = axis_in(b, x->value), n = extent(x->value, axis);
  const std::int64_t start = b.between(0, n - 1), stop = b.between(start + 1, n);
  return step_of(slice_op, {x->ref},
                 {{"axis", axis}, {"start", start}, {"stop", stop}, {"step", b.once_in(3) ? std::int64_t{2} : 1}});
}

Proposal flip_move(Builder& b) {
  const auto x = b.some_real();
  if (!x) return {};
  return step_of(flip_op, {x->ref}, {{"axes", Integers{axis_in(b, x->value)}}});
}

Proposal roll_move(Builder& b) {
  const auto x = b.some_real();
  if (!x) return {};
  return step_of(roll_op, {x->ref}, {{"shifts", Integers{b.between(-2, 2)}}, {"axes", Integers{axis_in(b, x->value)}}});
}

Proposal expand_move(Builder& b) {
  const auto x = b.some_real(0);
  if (!x) return {};
  Integers shape = extents_of(x->value.shape());
  bool grown = false;
  for (std::int64_t& e : shape)
    if (e == 1) {
      e = b.between(2, 3);
      grown = true;
    }
  if (!grown) shape.insert(shape.begin(), b.between(2, 3));
  return step_of(expand_op, {x->ref}, {{"shape", shape}});
}

Proposal unsqueeze_move(Builder& b) {
  const auto x = b.some_real(0);
  if (!x) return {};
  return step_of(unsqueeze_op, {x->ref}, {{"axis", b.between(0, x->value.rank())}});
}

Proposal repeat_move(Builder& b) {
  const auto x = b.some_real();
  if (!x) return {};
  if (b.once_in(2))
    return step_of(repeat_interleave_op, {x->ref}, {{"repeats", std::int64_t{2}}, {"axis", axis_in(b, x->value)}});
  Integers times(static_cast<std::size_t>(x->value.rank()), 1);
  times[b.below(times.size())] = 2;
  return step_of(repeat_op, {x->ref}, {{"repeats", times}});
}

Proposal pad_move(Builder& b) {
  const auto x = b.some_real();
  if (!x) return {};
  return step_of(pad_op, {x->ref},
                 {{"axis", axis_in(b, x->value)}, {"before", b.between(0, 1)}, {"after", b.between(0, 2)}});
}

Proposal join_move(Builder& b) {
  const auto x = b.some_real();
  if (!x) return {};
  const auto other = b.operand(x->value.shape());
  if (!other) return {};
  std::vector<std::optional<ValueRef>> parts{x->ref, *other};
  if (b.once_in(3)) parts.push_back(x->ref);
  return step_of(b.once_in(3) ? stack_op : concat_op, parts, {{"axis", axis_in(b, x->value)}});
}

// --- indices ---

/// Places along an axis: all in another order, or some, with repetition.
Integers places(Builder& b, std::int64_t n) {
  Integers list(static_cast<std::size_t>(n));
  std::iota(list.begin(), list.end(), std::int64_t{0});
  if (b.once_in(2)) {
    fisher_yates(list, [&](std::uint64_t m) { return b.below(m); });
    return list;
  }
  list.resize(static_cast<std::size_t>(b.between(1, 5)));
  for (std::int64_t& i : list) i = b.between(0, n - 1);
  return list;
}

Proposal pick_move(Builder& b) {
  const auto x = b.some_real();
  if (!x) return {};
  const std::int64_t axis = axis_in(b, x->value);
  return step_of(index_select_op, {x->ref, b.fresh_constant(numbers(places(b, extent(x->value, axis))))},
                 {{"axis", axis}});
}

Proposal order_move(Builder& b) {
  const auto x = b.some_real();
  if (!x) return {};
  const std::int64_t axis = axis_in(b, x->value);
  switch (b.below(4)) {
  case 0:
    return step_of(argmax_op, {x->ref}, {{"axis", axis}});
  case 1:
    return step_of(topk_op, {x->ref}, {{"k", b.between(1, extent(x->value, axis))}, {"axis", axis}});
  case 2:
    return step_of(argsort_op, {x->ref}, {{"axis", axis}});
  default:
    return step_of(sort_op, {x->ref}, {{"axis", axis}});
  }
}

/// Ids that were computed or are given, or a constant list of them.
std::optional<ValueRef> ids_for(Builder& b, std::int64_t vocabulary) {
  const auto known = b.some([](const Value& v) { return v.value.dtype() == DType::i64; });
  if (known && !b.once_in(3)) return known->ref;
  if (b.once_in(4)) return b.fresh_constant(numbers(places(b, vocabulary)));
  return b.fresh_leaf({{b.between(2, vocabulary)}, vocabulary});
}

Proposal embedding_move(Builder& b) {
  const auto table = b.some([](const Value& v) { return v.value.dtype() == DType::f64 && v.value.rank() == 2; });
  if (!table || table->value.size(0) < 2) return {};
  const auto ids = ids_for(b, table->value.size(0));
  return ids ? Proposal(step_of(embedding_op, {table->ref, *ids})) : Proposal();
}

Proposal select_move(Builder& b) {
  const auto x = b.some_real();
  if (!x) return {};
  const std::int64_t axis = axis_in(b, x->value);
  if (extent(x->value, axis) < 2) return {};
  const auto ids = ids_for(b, extent(x->value, axis));
  if (!ids) return {};
  return step_of(b.once_in(3) ? gather_op : index_select_op, {x->ref, *ids}, {{"axis", axis}});
}

// --- products ---

Proposal matmul_move(Builder& b) {
  const auto x = b.some_real(2);
  if (!x) return {};
  if (b.once_in(3)) return step_of(matmul_op, {x->ref, x->ref}, {{"transpose_b", true}});
  const bool across = b.once_in(2);
  const std::int64_t inner = x->value.size(-1), width = b.between(2, 3);
  const auto y = b.operand(across ? Shape{width, inner} : Shape{inner, width});
  return y ? Proposal(step_of(matmul_op, {x->ref, *y}, {{"transpose_b", across}})) : Proposal();
}

Proposal linear_move(Builder& b) {
  const auto x = b.some_real();
  if (!x) return {};
  const std::int64_t width = b.once_in(3) ? x->value.size(-1) : b.between(2, 4);
  const auto weight = b.operand({width, x->value.size(-1)});
  if (!weight) return {};
  std::optional<ValueRef> bias;
  if (b.once_in(2)) bias = b.operand({width});
  return step_of(linear_op, {x->ref, *weight, bias});
}

/// "ab,bc->ac": the terms before the arrow.
std::vector<std::string> operands_of(const std::string& equation) {
  std::vector<std::string> terms{""};
  for (const char c : equation.substr(0, equation.find('-')))
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  return terms;
}

Proposal einsum_move(Builder& b) {
  constexpr const char* equations[] = {"ab,bc->ac",   "ab,cb->ac", "ab,ac->bc",   "ab,ab->a",     "xab,xbc->xac",
                                       "xab,bc->xac", "aa->a",     "aa->",        "xaa->xa",      "xaa->x",
                                       "ab->ba",      "abc->ac",   "a,b->ab",     "ab,bc,cd->ad", "xa,ab->xab",
                                       "xab,yab->xy", "ab,b->a",   "abc,dc->abd", "xab,xab->xb",  "ab,ba->ab"};
  const std::string equation = b.one_of(equations);
  const std::vector<std::string> terms = operands_of(equation);
  const auto x = b.some([&](const Value& v) {
    return v.value.dtype() == DType::f64 && v.value.rank() == static_cast<int>(terms.front().size());
  });
  if (!x) return {};
  std::map<char, std::int64_t> extents;
  for (std::size_t i = 0; i < terms.front().size(); ++i) extents[terms.front()[i]] = x->value.size(static_cast<int>(i));
  std::vector<std::optional<ValueRef>> in{x->ref};
  for (std::size_t i = 1; i < terms.size(); ++i) {
    Shape shape;
    for (const char label : terms[i]) shape.push_back(extents.try_emplace(label, b.between(2, 3)).first->second);
    in.push_back(b.operand(shape));
    if (!in.back()) return {};
  }
  return step_of(einsum_op, in, {{"equation", equation}});
}

// --- elements ---

/// x's shape with some axes of extent 1 and some in front left out.
Shape broadcast_partner(Builder& b, const Shape& shape) {
  Shape part;
  const int from = b.once_in(2) ? static_cast<int>(b.below(static_cast<std::size_t>(shape.rank()))) : 0;
  for (int axis = from; axis < shape.rank(); ++axis) part.push_back(b.once_in(4) ? 1 : shape[axis]);
  return part;
}

Proposal binary_move(Builder& b) {
  const auto x = b.some_real();
  if (!x) return {};
  const auto y = b.operand(b.once_in(2) ? x->value.shape() : broadcast_partner(b, x->value.shape()));
  if (!y) return {};
  const OpDef* ops[] = {&add_op, &add_op, &sub_op, &mul_op, &mul_op, &maximum_op, &lt_op};
  return step_of(*b.one_of(ops), {x->ref, *y});
}

/// A square table of small numbers: causal, circulant, a band, blocks, a diagonal, any.
double mask_entry(std::size_t kind, std::int64_t i, std::int64_t j, std::int64_t n) {
  switch (kind) {
  case 0:
    return j <= i ? 1 : 0;
  case 1:
    return static_cast<double>((i - j + n) % n);
  case 2:
    return static_cast<double>(i > j ? i - j : j - i);
  case 3:
    return i / 2 == j / 2 ? 1 : 0;
  default:
    return i == j ? 1 : 0;
  }
}

Tensor constant_for(Builder& b, const Shape& shape) {
  const std::int64_t n = shape[-1];
  const bool square = shape.rank() >= 2 && shape[-2] == n && !b.once_in(4);
  const Shape own = square ? Shape{n, n} : broadcast_partner(b, shape);
  const std::size_t kind = b.below(5);
  std::vector<double> values;
  for (std::int64_t i = 0; i < own.numel(); ++i)
    values.push_back(square ? mask_entry(kind, i / n, i % n, n) : static_cast<double>(b.between(0, 2)));
  return Tensor::from(values, own);
}

Proposal constant_move(Builder& b) {
  const auto x = b.some_real();
  if (!x) return {};
  const Tensor values = constant_for(b, x->value.shape());
  switch (b.below(4)) {
  case 0:
    return step_of(add_op, {x->ref, b.fresh_constant(values)});
  case 1:
    return step_of(mul_op, {x->ref, b.fresh_constant(values)});
  case 2:
    return step_of(masked_fill_op, {x->ref, b.fresh_constant(values.to(DType::boolean))}, {{"value", -1.5}});
  default:
    return step_of(masked_softmax_op, {x->ref, b.fresh_constant(values)});
  }
}

Proposal choice_move(Builder& b) {
  const auto condition = b.some([](const Value& v) { return v.value.dtype() == DType::boolean; });
  if (!condition) return {};
  const auto x = b.operand(condition->value.shape()), y = b.operand(condition->value.shape());
  return x && y ? Proposal(step_of(where_op, {condition->ref, *x, *y})) : Proposal();
}

// --- any row ---

/// Extents of a sample's first tensor, from the back, and those that stand in their place.
class Extents {
public:
  Extents(const Shape& sample, const Shape& own) {
    for (int back = 1; back <= std::min(sample.rank(), own.rank()); ++back) to_.try_emplace(sample[-back], own[-back]);
  }
  Shape of(const Shape& sample) const {
    Shape own;
    for (const std::int64_t e : sample) {
      const auto found = to_.find(e);
      own.push_back(found == to_.end() ? e : found->second);
    }
    return own;
  }

private:
  std::map<std::int64_t, std::int64_t> to_;
};

/// Axes that belong to the first tensor, drawn again.
Attrs with_axes_drawn(Builder& b, const Attrs& attrs, const Tensor& x) {
  Attrs own = attrs;
  for (const auto& [name, value] : attrs.items()) {
    if (name == "keepdim" && b.once_in(2)) own.set(name, b.once_in(2));
    if (x.rank() == 0) continue;
    if (name == "axis") own.set(name, axis_in(b, x));
    if (name == "axes" && b.once_in(2)) own.set(name, Integers{axis_in(b, x)});
  }
  return own;
}

/// A constant with the sample's numbers where they fit, a leaf of numbers, or indices that were computed.
std::optional<ValueRef> whole_numbers(Builder& b, const Tensor& sample) {
  const auto known =
      b.some([&](const Value& v) { return v.value.dtype() == sample.dtype() && v.value.shape() == sample.shape(); });
  if (known && b.once_in(2)) return known->ref;
  if (sample.dtype() == DType::i64 && sample.numel() > 0 && b.once_in(2)) {
    const Integers values = sample.contiguous().to_vector<std::int64_t>();
    const std::int64_t range = std::max(*std::max_element(values.begin(), values.end()) + 1, sample.numel());
    if (*std::min_element(values.begin(), values.end()) >= 0 && range <= 6)
      return b.fresh_leaf({sample.shape(), range});
  }
  return b.fresh_constant(sample.contiguous());
}

Proposal row_move(Builder& b) {
  const OpDef& op = *registry()[b.below(registry().size())];
  if (is_backward(op)) return {}; // its inputs fit each other
  const std::vector<Sample> samples = op.samples(DType::f64);
  if (samples.empty()) return {};
  const Sample& sample = b.one_of(samples);
  ProgramStep step = step_of(op, {}, sample.attrs);
  std::optional<Extents> extents;
  for (const Tensor& t : sample.in) {
    if (!t.defined()) {
      step.in.emplace_back();
      continue;
    }
    if (t.dtype() != DType::f64) {
      step.in.push_back(whole_numbers(b, t));
    } else if (!extents) {
      const auto x = b.some_real(t.rank() > 0 ? 1 : 0);
      const bool known = x && !b.once_in(3);
      extents.emplace(t.shape(), known ? x->value.shape() : t.shape());
      step.in.push_back(known ? x->ref : b.operand(t.shape()));
      if (known) step.attrs = with_axes_drawn(b, sample.attrs, x->value);
    } else if (b.once_in(10)) {
      step.in.emplace_back(
          b.fresh_constant(random_normal(extents->of(t.shape()), {b.below(1000), 1}, 0, 1, DType::f64)));
    } else {
      step.in.push_back(b.operand(extents->of(t.shape())));
    }
    if (!step.in.back()) return {};
  }
  return step;
}

} // namespace

const std::vector<Builder::Move>& program_moves() {
  static const std::vector<Builder::Move> moves = [] {
    const std::vector<std::pair<int, Builder::Move>> weighted{
        {24, row_move},   {4, reshape_move},   {3, permute_move}, {3, slice_move},  {2, flip_move},   {2, roll_move},
        {2, expand_move}, {1, unsqueeze_move}, {2, repeat_move},  {2, pad_move},    {4, join_move},   {4, pick_move},
        {3, order_move},  {3, embedding_move}, {3, select_move},  {4, matmul_move}, {4, linear_move}, {4, einsum_move},
        {6, binary_move}, {4, constant_move},  {1, choice_move}};
    std::vector<Builder::Move> all;
    for (const auto& [times, move] : weighted) all.insert(all.end(), static_cast<std::size_t>(times), move);
    return all;
  }();
  return moves;
}

} // namespace eg::fuzz
