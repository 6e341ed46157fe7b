// Rows of max and argmax.

#include "core/ops/list.h"
#include "core/ops/reduce/axes.h"
#include "core/ops/row_tools.h"
#include "core/parallel.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg {
namespace {

int axis_of(const OpArgs& args) {
  return normalize_axis(std::string(args.op.name).c_str(), args.attrs.integer("axis"), args.in[0].rank());
}

reduce::Reduced only(int axis) {
  reduce::Reduced reduced{};
  reduced[static_cast<std::size_t>(axis)] = true;
  return reduced;
}

Shape infer_shape(const OpArgs& args) {
  check_floating(args, 0);
  const Shape& shape = args.in[0].shape();
  const int axis = axis_of(args);
  if (shape[axis] == 0)
    throw ShapeError(fmt::format("{}: axis {} has no elements: x is {}", args.op.name, axis, shape.str()));
  return reduce::reduced_shape(shape, only(axis), args.attrs.flag("keepdim"));
}

/// Place of the first largest of n elements that lie `stride` apart; a NaN counts as larger than everything.
template <class T> std::int64_t first_largest(const T* x, std::int64_t n, std::int64_t stride) {
  std::int64_t best = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const T value = x[i * stride];
    if (std::isnan(value)) return i;
    if (value > x[best * stride]) best = i;
  }
  return best;
}

/// write(position in the packed output, first of the elements, place of the largest) for every output element.
template <class T, class Write> void for_each_largest(const Tensor& x, int axis, Write write) {
  const AxisSplit s = split_at(x.shape(), axis);
  const T* data = x.data<T>();
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / s.extent);
  parallel::for_each(s.outer * s.inner, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* first = data + i / s.inner * s.extent * s.inner + i % s.inner;
      const std::int64_t place = first_largest(first, s.extent, s.inner);
      write(i, first[place * s.inner], place);
    }
  });
}

std::vector<Sample> extreme_samples(DType dtype) {
  const auto axis = [](std::int64_t a, bool keepdim) { return Attrs{{"axis", a}, {"keepdim", keepdim}}; };
  const auto x = [&](const Shape& s, std::uint64_t tag) { return sample_normal(s, dtype, 300 + tag, 2.0); };
  return {{{x({3, 33}, 1)}, axis(-1, false), "rows"},
          {{x({33, 3}, 2)}, axis(0, false), "columns"},
          {{x({3, 4, 5}, 3)}, axis(1, true), "middle axis, kept as 1"},
          {{scattered(x({5, 6}, 4))}, axis(-1, false), "strided"},
          {{x({4, 1}, 5)}, axis(1, false), "axis of one element"},
          {{x({7}, 6)}, axis(0, false), "vector to scalar"},
          {{x({0, 3}, 7)}, axis(1, false), "empty result"}};
}

std::vector<Refusal> extreme_refusals() {
  return {{{Tensor::zeros({2, 3}, DType::i64)}, {}, "x must be f32 or f64, it is i64"},
          {{Tensor::zeros({2, 3})}, {{"axis", std::int64_t{2}}}, "axis 2 is outside"},
          {{Tensor::zeros({})}, {}, "axis -1 is outside"},
          {{Tensor::zeros({2, 0})}, {}, "axis 1 has no elements: x is [2, 0]"}};
}

Work extreme_work(const OpArgs& args, std::span<const TensorSpec> out) {
  return {static_cast<double>(args.in[0].numel()), bytes_moved(args, out)};
}

struct SampleAxis {
  int axis;
  bool keepdim;
};
SampleAxis sample_axis(const Sample& sample) {
  return {normalize_axis("max", sample.attrs.integer("axis"), sample.in[0].rank()), sample.attrs.flag("keepdim")};
}

constexpr AttrSpec axis_attr = attr_int("axis", -1, "axis to reduce; negative ones count from the end");
constexpr AttrSpec keepdim_attr = attr_bool("keepdim", false, "the reduced axis stays, with extent 1");

} // namespace

constinit const OpDef max_op = row({
    .name = "max",
    .math = "y = largest of x along the axis",
    .inputs = {{"x"}},
    .attributes = {axis_attr, keepdim_attr},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      return {{infer_shape(args), args.in[0].dtype()}};
    },
    .cpu =
        [](const OpArgs& args, std::span<Tensor> out) {
          const Tensor x = packed(args.in[0]);
          visit_floating(x.dtype(), [&]<class T>() {
            T* y = out[0].mutable_data<T>();
            for_each_largest<T>(x, axis_of(args), [y](std::int64_t i, T value, std::int64_t) { y[i] = value; });
          });
        },
    .saves = saves::in(0),
    .vjp = [](const VjpArgs& args) -> Gradients { // the first of equals receives the gradient
      if (!args.wants(0)) return {Tensor()};
      const Tensor& x = args.in[0];
      const int axis = axis_of(args);
      const Tensor place = argmax(x, axis, true);
      const Tensor g = reshape(args.grad[0], reduce::reduced_shape(x.shape(), only(axis), true));
      return {scatter_add(Tensor::zeros(x.shape(), x.dtype()), axis, place, g)};
    },
    .reference = [](const OpArgs& args) -> std::vector<Tensor> {
      const Tensor& x = args.in[0];
      const AxisSplit s = split_at(x.shape(), axis_of(args));
      Tensor y = reference_output(infer_shape(args));
      for (std::int64_t o = 0; o < s.outer; ++o)
        for (std::int64_t i = 0; i < s.inner; ++i) {
          double largest = values(x)[o * s.extent * s.inner + i];
          for (std::int64_t e = 1; e < s.extent; ++e)
            largest = std::max(largest, values(x)[(o * s.extent + e) * s.inner + i]);
          values(y)[o * s.inner + i] = largest;
        }
      return {y};
    },
    .samples = extreme_samples,
    .refuses = extreme_refusals,
    .symmetries = [](const Sample& sample) -> std::vector<Symmetry> {
      const auto [axis, keepdim] = sample_axis(sample);
      return reduce::reduction_symmetries(sample.in[0].shape(), only(axis), keepdim);
    },
    .work = extreme_work,
});

constinit const OpDef argmax_op = row({
    .name = "argmax",
    .math = "y = place of the first largest of x along the axis",
    .inputs = {{"x"}},
    .attributes = {axis_attr, keepdim_attr},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      return {{infer_shape(args), DType::i64}};
    },
    .cpu =
        [](const OpArgs& args, std::span<Tensor> out) {
          const Tensor x = packed(args.in[0]);
          std::int64_t* y = out[0].mutable_data<std::int64_t>();
          visit_floating(x.dtype(), [&]<class T>() {
            for_each_largest<T>(x, axis_of(args), [y](std::int64_t i, T, std::int64_t place) { y[i] = place; });
          });
        },
    .no_gradient = "a place is an integer: it does not change when x changes a little",
    .reference = [](const OpArgs& args) -> std::vector<Tensor> {
      const Tensor& x = args.in[0];
      const AxisSplit s = split_at(x.shape(), axis_of(args));
      Tensor y = Tensor::zeros(infer_shape(args), DType::i64);
      for (std::int64_t o = 0; o < s.outer; ++o)
        for (std::int64_t i = 0; i < s.inner; ++i) {
          const auto value = [&](std::int64_t e) { return values(x)[(o * s.extent + e) * s.inner + i]; };
          std::int64_t place = 0;
          for (std::int64_t e = 1; e < s.extent; ++e)
            if (value(e) > value(place)) place = e;
          y.mutable_data<std::int64_t>()[o * s.inner + i] = place;
        }
      return {y};
    },
    .samples = extreme_samples,
    .refuses = extreme_refusals,
    .symmetries = [](const Sample& sample) -> std::vector<Symmetry> { // along the axis itself the places move
      const auto [axis, keepdim] = sample_axis(sample);
      std::vector<Symmetry> kept;
      for (Symmetry& s : reduce::reduction_symmetries(sample.in[0].shape(), only(axis), keepdim))
        if (s.legs.size() > 1) kept.push_back(std::move(s));
      return kept;
    },
    .work = extreme_work,
});

Tensor max(const Tensor& x, int axis, bool keepdim) {
  return call1(max_op, {x}, {{"axis", std::int64_t{axis}}, {"keepdim", keepdim}});
}

Tensor argmax(const Tensor& x, int axis, bool keepdim) {
  return call1(argmax_op, {x}, {{"axis", std::int64_t{axis}}, {"keepdim", keepdim}});
}

} // namespace eg
