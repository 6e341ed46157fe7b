// Rows of outer and cross: products of vectors, made of other operations.

#include "core/ops/list.h"
#include "core/ops/views/movement.h"

#include <fmt/format.h>

namespace eg {
namespace {

// --- outer ---

std::vector<TensorSpec> outer_infer(const OpArgs& args) {
  for (const std::size_t i : {0U, 1U}) {
    check_number(args, i);
    if (args.in[i].rank() != 1)
      throw ShapeError(fmt::format("outer: {} must be a vector, it is {}; flatten() makes one", args.op.inputs[i].name,
                                   args.in[i].shape().str()));
  }
  return {{{args.in[0].numel(), args.in[1].numel()}, arithmetic_type(args.in[0].dtype(), args.in[1].dtype())}};
}

std::vector<Tensor> outer_body(const OpArgs& args) { return {mul(unsqueeze(args.in[0], 1), unsqueeze(args.in[1], 0))}; }

std::vector<Tensor> outer_reference(const OpArgs& args) {
  const TensorSpec spec = outer_infer(args)[0];
  return {tabulate(spec.shape, spec.dtype,
                   [&](const Index& i) { return read(args.in[0], {i[0]}) * read(args.in[1], {i[1]}); })};
}

std::vector<Sample> outer_samples(DType dtype) {
  const auto x = [&](std::int64_t n, std::uint64_t tag) { return sample_values({n}, dtype, tag); };
  return {{{x(3, 1), x(5, 2)}, {}, "two vectors"},
          {{scattered(x(33, 3)), scattered(x(4, 4))}, {}, "strided"},
          {{x(1, 5), x(7, 6)}, {}, "one element"},
          {{sample_whole({3}, 7, -9, 10), sample_whole({4}, 8, -9, 10)}, {}, "whole numbers"},
          {{x(0, 9), x(3, 10)}, {}, "empty"}};
}

std::vector<Refusal> outer_refuses() {
  const Tensor x = Tensor::zeros({3});
  return {{{Tensor::zeros({2, 3}), x}, {}, "a must be a vector, it is [2, 3]"},
          {{x, Tensor::zeros({})}, {}, "b must be a vector, it is []"},
          {{x, Tensor::zeros({3}, DType::f64)}, {}, "different types"}};
}

std::vector<Symmetry> outer_symmetries(const Sample& s) {
  std::vector<Symmetry> list;
  if (s.in[0].numel() >= 2) list.push_back({"rows", {in_leg(0, 0), out_leg(0, 0)}});
  if (s.in[1].numel() >= 2) list.push_back({"columns", {in_leg(1, 0), out_leg(0, 1)}});
  return list;
}

// --- cross ---

/// The axis of the three coordinates, counted from the end where ranks differ.
int cross_axis(const OpArgs& args) {
  const Tensor &a = args.in[0], &b = args.in[1];
  const std::int64_t axis = args.attrs.integer("axis");
  if (axis >= 0 && a.rank() != b.rank())
    throw ShapeError(fmt::format("cross: count the axis from the end (-1) where ranks differ: a is {}, b is {}",
                                 a.shape().str(), b.shape().str()));
  for (const Tensor* x : {&a, &b}) {
    const int at = normalize_axis("cross", axis, x->rank());
    if (x->shape()[at] != 3)
      throw ShapeError(
          fmt::format("cross: axis {} must have 3 elements: a is {}, b is {}", axis, a.shape().str(), b.shape().str()));
  }
  return static_cast<int>(axis < 0 ? axis : axis - a.rank());
}

std::vector<TensorSpec> cross_infer(const OpArgs& args) {
  std::vector<TensorSpec> out = arithmetic_of_both(args);
  cross_axis(args);
  return out;
}

/// y_i = a_(i+1) b_(i+2) - a_(i+2) b_(i+1), indices modulo 3.
std::vector<Tensor> cross_body(const OpArgs& args) {
  const int axis = cross_axis(args);
  const auto turned = [&](const Tensor& x, std::int64_t by) { return roll(x, {-by}, {axis}); };
  const Tensor &a = args.in[0], &b = args.in[1];
  return {sub(mul(turned(a, 1), turned(b, 2)), mul(turned(a, 2), turned(b, 1)))};
}

std::vector<Tensor> cross_reference(const OpArgs& args) {
  const TensorSpec spec = cross_infer(args)[0];
  const Tensor a = args.in[0].expand(spec.shape), b = args.in[1].expand(spec.shape);
  const auto axis = static_cast<std::size_t>(spec.shape.rank() + cross_axis(args));
  return {tabulate(spec.shape, spec.dtype, [&](const Index& i) {
    const auto at = [&](const Tensor& x, std::int64_t further) {
      Index j = i;
      j[axis] = (i[axis] + further) % 3;
      return read(x, j);
    };
    return at(a, 1) * at(b, 2) - at(a, 2) * at(b, 1);
  })};
}

std::vector<Sample> cross_samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_values(shape, dtype, tag); };
  const Attrs first = {{"axis", std::int64_t{0}}};
  return {{{x({3}, 1), x({3}, 2)}, {}, "two vectors"},
          {{x({33, 3}, 3), scattered(x({33, 3}, 4))}, {}, "rows, strided"},
          {{x({3, 5}, 5), x({3, 1}, 6)}, first, "columns, broadcast"},
          {{x({4, 1, 3}, 7), x({2, 3}, 8)}, {}, "other axes are broadcast"},
          {{sample_whole({2, 3}, 9, -9, 10), sample_whole({2, 3}, 10, -9, 10)}, {}, "whole numbers"},
          {{x({0, 3}, 11), x({3}, 12)}, {}, "empty"}};
}

std::vector<Refusal> cross_refuses() {
  const Tensor x = Tensor::zeros({2, 3});
  return {{{x, Tensor::zeros({2, 4})}, {}, "shapes do not broadcast"},
          {{Tensor::zeros({3, 2}), Tensor::zeros({3, 2})}, {}, "axis -1 must have 3 elements: a is [3, 2]"},
          {{x, Tensor::zeros({3})}, {{"axis", std::int64_t{1}}}, "count the axis from the end (-1)"},
          {{x, x}, {{"axis", std::int64_t{2}}}, "axis 2 is outside"}};
}

std::vector<Symmetry> cross_symmetries(const Sample& s) {
  const std::int64_t given = integer_or(s.attrs, "axis", -1);
  const auto along = given < 0 ? given : given - s.in[0].rank();
  std::vector<Symmetry> list;
  for (Symmetry& symmetry : pointwise_symmetries(s))
    if (symmetry.legs.back().axis != along) list.push_back(std::move(symmetry));
  return list;
}

} // namespace

constinit const OpDef outer_op = row({
    .name = "outer",
    .math = "y_ij = a_i b_j",
    .inputs = {{"a"}, {"b"}},
    .infer = outer_infer,
    .body = outer_body,
    .reference = outer_reference,
    .samples = outer_samples,
    .refuses = outer_refuses,
    .symmetries = outer_symmetries,
    .work = elementwise_work<1>,
});

constinit const OpDef cross_op = row({
    .name = "cross",
    .math = "y_i = a_(i+1) b_(i+2) - a_(i+2) b_(i+1), indices modulo 3 along the axis",
    .inputs = {{"a"}, {"b"}},
    .attributes = {attr_int("axis", -1, "axis of the three coordinates")},
    .infer = cross_infer,
    .body = cross_body,
    .reference = cross_reference,
    .samples = cross_samples,
    .refuses = cross_refuses,
    .symmetries = cross_symmetries,
    .work = elementwise_work<3>,
});

Tensor outer(const Tensor& a, const Tensor& b) { return call1(outer_op, {a, b}); }
Tensor cross(const Tensor& a, const Tensor& b, int axis) {
  return call1(cross_op, {a, b}, {{"axis", std::int64_t{axis}}});
}

} // namespace eg
