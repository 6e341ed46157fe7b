// einsum: a row whose body is made of views, sums, products and matmul, so that gradients of every order follow.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/einsum/equation.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg {
namespace {

using namespace einsum_notation;

/// A tensor whose axes have labels, each once.
struct Operand {
  Tensor x;
  std::vector<int> labels;

  Labels set() const {
    Labels s = 0;
    for (const int label : labels) s |= only(label);
    return s;
  }
  int axis(int label) const {
    return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
  }
};

std::vector<int> listed(Labels set) {
  std::vector<int> list;
  for (int label = 0; set >> label != 0 && label < 63; ++label)
    if (holds(set, label)) list.push_back(label);
  return list;
}

/// Axes a and b (a < b) become their diagonal, as the last axis.
void take_diagonal(Operand& o, std::size_t a, std::size_t b) {
  std::vector<std::int64_t> order;
  for (std::size_t axis = 0; axis < o.labels.size(); ++axis)
    if (axis != a && axis != b) order.push_back(static_cast<std::int64_t>(axis));
  order.push_back(static_cast<std::int64_t>(a));
  order.push_back(static_cast<std::int64_t>(b));
  const std::int64_t n = o.x.size(static_cast<int>(a));
  Shape flat = permute_axes(o.x, order).shape();
  flat.erase(flat.rank() - 1);
  flat[-1] = n * n;
  o.x = slice(reshape(permute_axes(o.x, order), flat), -1, 0, n * n, n + 1);
  const int label = o.labels[a];
  o.labels.erase(o.labels.begin() + static_cast<std::ptrdiff_t>(b));
  o.labels.erase(o.labels.begin() + static_cast<std::ptrdiff_t>(a));
  o.labels.push_back(label);
}

void take_diagonals(Operand& o) {
  for (std::size_t b = 1; b < o.labels.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (o.labels[a] == o.labels[b]) {
        take_diagonal(o, a, b);
        return take_diagonals(o);
      }
}

/// Axes that others stretch (extent 1 here) are removed, then those that no other operand needs are summed.
void keep_only(Operand& o, const Equation& e, Labels needed) {
  for (std::size_t axis = o.labels.size(); axis-- > 0;)
    if (o.x.size(static_cast<int>(axis)) != e.extents[static_cast<std::size_t>(o.labels[axis])]) {
      o.x = squeeze(o.x, static_cast<int>(axis));
      o.labels.erase(o.labels.begin() + static_cast<std::ptrdiff_t>(axis));
    }
  std::vector<std::int64_t> summed;
  std::vector<int> kept;
  for (std::size_t axis = 0; axis < o.labels.size(); ++axis)
    if (holds(needed, o.labels[axis]))
      kept.push_back(o.labels[axis]);
    else
      summed.push_back(static_cast<std::int64_t>(axis));
  if (!summed.empty()) o.x = sum(o.x, summed);
  o.labels = kept;
}

std::int64_t extent_of(const Equation& e, const std::vector<int>& labels) {
  std::int64_t product = 1;
  for (const int label : labels) product *= e.extents[static_cast<std::size_t>(label)];
  return product;
}

/// The operand with its axes in this order and joined into the given extents.
Tensor arranged(const Operand& o, std::initializer_list<std::vector<int>> groups, const Shape& shape) {
  std::vector<std::int64_t> order;
  for (const std::vector<int>& group : groups)
    for (const int label : group) order.push_back(o.axis(label));
  return reshape(order.empty() ? o.x : permute_axes(o.x, order), shape);
}

/// One product: [batch, left, inner] [batch, inner, right], pointwise where nothing is summed.
Operand contract(const Operand& a, const Operand& b, const Equation& e, Labels result) {
  const Labels both = a.set() & b.set();
  const std::vector<int> batch = listed(both & result);
  const std::vector<int> inner = listed(both & ~result);
  const std::vector<int> left = listed(a.set() & ~both);
  const std::vector<int> right = listed(b.set() & ~both);
  const std::int64_t n = extent_of(e, batch);
  const std::int64_t rows = extent_of(e, left);
  const std::int64_t columns = extent_of(e, right);
  const std::int64_t depth = extent_of(e, inner);
  const Tensor lhs = arranged(a, {batch, left, inner}, {n, rows, depth});
  const Tensor rhs = arranged(b, {batch, inner, right}, {n, depth, columns});
  Operand product{inner.empty() ? mul(lhs, rhs) : matmul(lhs, rhs), batch};
  product.labels.insert(product.labels.end(), left.begin(), left.end());
  product.labels.insert(product.labels.end(), right.begin(), right.end());
  Shape shape;
  for (const int label : product.labels) shape.push_back(e.extents[static_cast<std::size_t>(label)]);
  product.x = reshape(product.x, shape);
  return product;
}

Shape result_shape(const Equation& e) {
  Shape shape;
  for (const int label : e.result) shape.push_back(e.extents[static_cast<std::size_t>(label)]);
  return shape;
}

std::vector<TensorSpec> infer(const OpArgs& args) {
  check_all_floating(args);
  const Equation e = equation_of(args);
  plan(args, e);
  return {{result_shape(e), args.in[0].dtype()}};
}

std::vector<Tensor> body(const OpArgs& args) {
  const Equation e = equation_of(args);
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < args.in.size(); ++i) {
    Labels needed = e.result_labels();
    for (std::size_t k = 0; k < args.in.size(); ++k)
      if (k != i) needed |= e.labels_of(k, args.in[k].shape());
    Operand o{args.in[i], e.operands[i]};
    take_diagonals(o);
    keep_only(o, e, needed);
    operands.push_back(std::move(o));
  }
  for (const Step& step : plan(args, e)) {
    operands[step.left] = contract(operands[step.left], operands[step.right], e, step.result);
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(step.right));
  }
  return {arranged(operands[0], {e.result}, result_shape(e))};
}

// y[result letters] = sum over the others of the product of all operands
std::vector<Tensor> reference(const OpArgs& args) {
  const Equation e = equation_of(args);
  Labels all = 0;
  for (const std::vector<int>& operand : e.operands)
    for (const int label : operand) all |= only(label);
  const std::vector<int> labels = listed(all);
  Tensor y = reference_output(result_shape(e));
  std::vector<std::int64_t> index(64, 0);
  const auto offset = [&](const std::vector<int>& axes, const Tensor& t) {
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      const std::int64_t extent = t.size(static_cast<int>(axis));
      at = at * extent + (extent == 1 ? 0 : index[static_cast<std::size_t>(axes[axis])]);
    }
    return at;
  };
  if (e.size(all) == 0) return {y};
  while (true) {
    double product = 1;
    for (std::size_t i = 0; i < args.in.size(); ++i) product *= values(args.in[i])[offset(e.operands[i], args.in[i])];
    values(y)[offset(e.result, y)] += product;
    std::size_t place = labels.size();
    for (; place > 0; --place) {
      const auto label = static_cast<std::size_t>(labels[place - 1]);
      if (++index[label] < e.extents[label]) break;
      index[label] = 0;
    }
    if (place == 0) return {y};
  }
}

Attrs with(const char* equation, const char* order = "left_to_right") {
  return {{"equation", std::string(equation)}, {"order", std::string(order)}};
}

std::vector<Sample> samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, 2600 + tag); };
  const auto positive = [&](const Shape& shape, std::uint64_t tag) {
    return sample_uniform(shape, dtype, 2600 + tag, 0.5, 1.5);
  };
  return {{{x({3, 5}, 1), x({5, 4}, 2)}, with("ij,jk->ik"), "product of matrices"},
          {{x({2, 3, 5, 7}, 3), x({2, 3, 4, 7}, 4)}, with("bhqd, bhkd -> bhqk"), "scores of attention"},
          {{x({4, 4}, 5)}, with("ii"), "trace"},
          {{x({3, 4, 3, 2}, 6)}, with("iaib->bai"), "diagonal, kept"},
          {{x({5}, 7), x({4}, 8)}, with("i,j"), "outer product, result left out"},
          {{x({3, 5}, 9), x({3, 5}, 10)}, with("zA,zA->A"), "summed beside a kept letter"},
          {{x({2, 1, 3, 5}, 11), x({4, 5, 6}, 12)}, with("...ij,...jk->...ik"), "leading axes broadcast"},
          {{x({2, 3, 4}, 13)}, with("...i"), "one operand, nothing to do"},
          {{x({2, 3, 4}, 14)}, with("...i->i"), "unnamed axes are summed"},
          {{x({3, 4}, 15), x({4, 5}, 16), x({5, 2}, 17)}, with("ab,bc,cd->ad"), "chain of three"},
          {{x({7, 2}, 18), x({2, 9}, 19), x({9, 1}, 20), x({3}, 21)}, with("ab,bc,cd,e->ead", "greedy"), "greedy"},
          {{scattered(x({4, 3}, 22)), scattered(x({3, 5}, 23))}, with("ij,jk->ki"), "strided, transposed result"},
          {{x({2, 1}, 24), x({3, 4}, 25)}, with("bi,ki->bk"), "an extent of 1 stretches"},
          {{positive({3, 2}, 26), positive({2}, 27)}, with("ij,j->i"), "matrix and vector"},
          {{x({0, 3}, 28), x({3, 2}, 29)}, with("ij,jk->ik"), "no rows"},
          {{x({2, 0}, 30), x({0, 3}, 31)}, with("ij,jk->ik"), "sum of nothing"}};
}

std::vector<Refusal> refuses() {
  const Tensor a = Tensor::zeros({2, 3});
  const Tensor b = Tensor::zeros({4, 5});
  return {{{a, b}, with("ij,jk->ik"), "'j' is 3 and 4: operand 1 is [4, 5], equation 'ij,jk->ik'"},
          {{a}, with("ij,jk->ik"), "1 operands were given, the equation names 2"},
          {{a}, with("ijk->i"), "operand 0 has 2 axes, 'ijk->i' names 3: it is [2, 3]"},
          {{a}, with("i->i"), "operand 0 has 2 axes, 'i->i' names 1"},
          {{a}, with("...ijk->i"), "operand 0 has 2 axes"},
          {{a}, with("i1->i"), "'1' is neither a letter nor"},
          {{a}, with("i.j->i"), "'.' is neither a letter nor"},
          {{a}, with("......ij"), "'...' stands twice"},
          {{a}, with("ij->ik"), "'k' is in the result and in no operand"},
          {{a}, with("ij->ii"), "'i' stands twice in the result"},
          {{a}, with("ii->i"), "'i' repeats in operand 0 with different extents: it is [2, 3]"},
          {{a, a}, with("ij,ij->", "best"), "order is 'best'; it must be left_to_right or greedy"},
          {{Tensor::zeros({1, 1, 1, 1, 1}), Tensor::zeros({1, 1, 1, 1})}, with("abcde,fghi"), "would have 9 axes"},
          {{Tensor::zeros({2, 3}, DType::i64)}, with("ij->i"), "must be f32 or f64"}};
}

/// Every letter: the axes that bear it are permuted together, those of extent 1 that are stretched are fixed.
std::vector<Symmetry> symmetries(const Sample& s) {
  Attrs attrs = s.attrs;
  const Equation e = equation_of(OpArgs{einsum_op, s.in, attrs});
  std::vector<Symmetry> all;
  for (int label = 0; label < static_cast<int>(e.extents.size()); ++label) {
    if (e.extents[static_cast<std::size_t>(label)] < 2) continue;
    Symmetry symmetry{fmt::format("{} of {}", name_of(label), s.attrs.text("equation")), {}};
    for (std::size_t i = 0; i < e.operands.size(); ++i)
      for (std::size_t axis = 0; axis < e.operands[i].size(); ++axis)
        if (e.operands[i][axis] == label && s.in[i].size(static_cast<int>(axis)) > 1)
          symmetry.legs.push_back(in_leg(static_cast<int>(i), static_cast<int>(axis)));
    for (std::size_t axis = 0; axis < e.result.size(); ++axis)
      if (e.result[axis] == label) symmetry.legs.push_back(out_leg(0, static_cast<int>(axis)));
    all.push_back(std::move(symmetry));
  }
  return all;
}

Work work(const OpArgs& args, std::span<const TensorSpec> out) {
  const Equation e = equation_of(args);
  double flops = 0;
  for (const Step& step : plan(args, e)) flops += 2 * step.multiplications;
  for (const Tensor& x : args.in) flops += static_cast<double>(x.numel()); // sums beforehand
  return {flops, bytes_moved(args, out)};
}

} // namespace

constinit const OpDef einsum_op = row({
    .name = "einsum",
    .math = "y[letters of the result] = sum over the other letters of the product of all operands",
    .inputs = {{"operands"}},
    .variadic = true,
    .attributes = {required_attr("equation", AttrKind::text, "letters of every operand's axes, and of the result's"),
                   attr_text("order", "left_to_right", "which pair is multiplied first: left_to_right or greedy")},
    .infer = infer,
    .body = body,
    .rounding = {.by_layout = true},
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = work,
});

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands, const char* order) {
  return call(einsum_op, operands, with(equation.c_str(), order))[0];
}

} // namespace eg
