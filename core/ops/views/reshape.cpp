// reshape: the same elements in row-major order under other extents.

#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/views/movement.h"
#include "core/ops/views/strided_copy.h"

#include <fmt/format.h>

namespace eg {
namespace {

/// The wanted extents with -1 replaced by what is left over.
Shape reshaped(const OpArgs& a) {
  const Shape& from = a.in[0].shape();
  Shape to = shape_attribute(a, "shape");
  int open = -1;
  std::int64_t known = 1;
  for (int axis = 0; axis < to.rank(); ++axis) {
    if (to[axis] == -1) {
      if (open >= 0) throw ShapeError(fmt::format("reshape: only one extent can be -1: {}", to.str()));
      open = axis;
    } else if (to[axis] < 0) {
      throw ShapeError(fmt::format("reshape: negative extent: {}", to.str()));
    } else if (__builtin_mul_overflow(known, to[axis], &known)) {
      throw ShapeError(fmt::format("reshape: {} has more elements than can be counted", to.str()));
    }
  }
  const std::int64_t have = from.numel();
  if (open >= 0 && known > 0 && have % known == 0) {
    to[open] = have / known;
    known = have;
  }
  if (known != have || (open >= 0 && to[open] < 0))
    throw ShapeError(fmt::format("reshape: {} elements do not fill the new shape: x is {}, shape is {}", have,
                                 from.str(), to.str()));
  std::int64_t beside_zeros = 1; // strides need it too
  for (const std::int64_t extent : to)
    if (extent != 0 && __builtin_mul_overflow(beside_zeros, extent, &beside_zeros))
      throw ShapeError(fmt::format("reshape: {} has more elements than can be counted", to.str()));
  return to;
}

/// Strides that show x under the new extents without a copy, if there are any: a run of axes that are dense in one
/// another can be cut and joined freely.
std::optional<Shape> strides_for(const Tensor& x, const Shape& to) {
  if (x.numel() == 0 || x.rank() == 0) return contiguous_strides(to);
  Shape strides = to;
  int out = to.rank() - 1;
  std::int64_t step = x.strides()[-1];
  std::int64_t run = 1;     // elements of the present dense run of x
  std::int64_t covered = 1; // of them, elements covered by axes of the result
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    run *= x.shape()[axis];
    if (axis > 0 && (x.shape()[axis - 1] == 1 || x.strides()[axis - 1] == run * step)) continue;
    for (; out >= 0 && (covered < run || to[out] == 1); --out) {
      strides[out] = covered * step;
      covered *= to[out];
    }
    if (covered != run) return std::nullopt;
    if (axis > 0) step = x.strides()[axis - 1];
    run = covered = 1;
  }
  return strides;
}

Tensor view(const OpArgs& a) {
  const Shape to = reshaped(a);
  const Tensor& x = a.in[0];
  if (const std::optional<Shape> strides = strides_for(x, to)) return x.view_as(to, *strides, 0);
  return packed_copy(x).view_as(to, contiguous_strides(to), 0);
}

std::vector<Tensor> reference(const OpArgs& a) {
  std::vector<double> flat;
  for_each_index(a.in[0].shape(), [&](const Index& i) { flat.push_back(read(a.in[0], i)); });
  std::size_t next = 0;
  return {tabulate(reshaped(a), a.in[0].dtype(), [&](const Index&) { return flat[next++]; })};
}

std::vector<Sample> samples(DType dtype) {
  const auto to = [](std::vector<std::int64_t> shape) { return Attrs{{"shape", std::move(shape)}}; };
  return {{{sample_values({2, 6, 5}, dtype, 1)}, to({2, 2, 3, 5}), "an axis is cut"},
          {{sample_values({3, 4, 7}, dtype, 2)}, to({3, -1}), "axes are joined"},
          {{sample_transposed({4, 6}, dtype, 3)}, to({4, 2, 3}), "a transposed matrix, still a view"},
          {{sample_transposed({4, 6}, dtype, 4)}, to({24}), "a transposed matrix, copied"},
          {{sample_values({1, 5, 1}, dtype, 5)}, to({5}), "axes of size 1 go"},
          {{sample_values({0, 3}, dtype, 6)}, to({3, 0, 2}), "no elements"}};
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::zeros({4, 3});
  const auto to = [](std::vector<std::int64_t> shape) { return Attrs{{"shape", std::move(shape)}}; };
  return {{{x}, to({5, 2}), "12 elements do not fill the new shape: x is [4, 3], shape is [5, 2]"},
          {{x}, to({-1, 5}), "do not fill the new shape"},
          {{x}, to({-1, -1}), "only one extent can be -1"},
          {{x}, to({-3, -4}), "negative extent"},
          {{Tensor::zeros({0, 3})}, to({0, 3, INT64_MAX}), "more elements than can be counted"},
          {{Tensor::zeros({0, 3})}, to({-1, 0}), "do not fill the new shape"}};
}

/// Axes that survive: the same extent with as many elements before it.
std::vector<Symmetry> symmetries(const Sample& s) {
  const Shape& from = s.in[0].shape();
  const Shape to = reshape(s.in[0], Shape(s.attrs.integers("shape"))).shape();
  std::vector<Symmetry> list;
  for (int i = 0; i < from.rank(); ++i)
    for (int j = 0; j < to.rank(); ++j)
      if (from[i] == to[j] && from.numel() > 0 && outer_size(from, i) == outer_size(to, j))
        add_axis_symmetry(list, s, i, j);
  return list;
}

} // namespace

constinit const OpDef reshape_op = row({
    .name = "reshape",
    .math = "y = x in row-major order under other extents",
    .inputs = {{"x"}},
    .attributes = {required_attr("shape", AttrKind::integers, "extents of y; one may be -1")},
    .infer = [](const OpArgs& a) -> std::vector<TensorSpec> {
      return {{reshaped(a), a.in[0].dtype()}};
    },
    .view = view,
    .vjp = [](const VjpArgs& v) -> Gradients { return {reshape(v.grad[0], v.in[0].shape())}; },
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .least_extents = {{"axis", 2, "the attribute gives the extents"}},
    .work = no_work,
});

Tensor reshape(const Tensor& x, const Shape& shape) { return call1(reshape_op, {x}, {{"shape", list_of(shape)}}); }

} // namespace eg
