#pragma once
// Shares what softmax and log_softmax have in common: all but their kernels and formulas.

#include "core/device/module.h"
#include "core/ops/softmax/kernels.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg::softmax_kernels {

/// Input 0 as lines along the axis. A tensor without axes is a line of one element, which 0 and -1 name.
inline AxisSplit lines_of(const OpArgs& args) {
  const std::int64_t axis = args.attrs.integer("axis");
  if (args.in[0].rank() == 0 && (axis == 0 || axis == -1)) return {1, 1, 1};
  return split_at(args.in[0].shape(), axis_of(args));
}

/// One or two floating inputs of one shape, and an axis that they have.
inline std::vector<TensorSpec> infer(const OpArgs& args) {
  auto specs = same_shape_everywhere(args);
  lines_of(args);
  return specs;
}

/// Runs `f32` or `f64` along the axis of the packed inputs.
inline void run(const OpArgs& args, Tensor& out, RowsKernel<float> f32, RowsKernel<double> f64) {
  const Tensor a = packed(args.in[0]);
  const Tensor b = args.given(1) ? packed(args.in[1]) : Tensor{};
  const AxisSplit split = lines_of(args);
  visit_floating(a.dtype(), [&]<class T>() {
    RowsKernel<T> kernel = nullptr;
    if constexpr (sizeof(T) == sizeof(float))
      kernel = f32;
    else
      kernel = f64;
    along_axis<T>(kernel, split, a.data<T>(), b.defined() ? b.data<T>() : nullptr,
                  out.mutable_data<T>(args.op.name.data()));
  });
}

/// The same on the inputs' device.
template <device::SoftmaxKind kind> void run_on_device(const OpArgs& args, std::span<Tensor> out) {
  Tensor& y = out[0];
  if (y.numel() == 0) return;
  const Tensor a = packed(args.in[0]);
  const Tensor b = args.given(1) ? packed(args.in[1]) : Tensor{};
  const AxisSplit split = lines_of(args);
  const char* const name = args.op.name.data();
  const device::SoftmaxJob job{kind,
                               a.dtype(),
                               a.device_bytes(),
                               b.defined() ? b.device_bytes() : nullptr,
                               y.mutable_device_bytes(name),
                               split.outer * split.inner,
                               split.extent,
                               split.inner};
  device::launch(y.device(), name, &device::Table::softmax, job);
}

/// The elements of a tensor along the axis: element j is at first + j * step.
struct Line {
  std::int64_t first, step, n;
  std::int64_t operator[](std::int64_t j) const { return first + j * step; }
};

/// A reference with one output like the first input: fill(line, out) for every line of elements along the axis.
template <class F> std::vector<Tensor> reference_by_lines(const OpArgs& args, F&& fill) {
  Tensor result = reference_output(args.in[0].shape());
  const AxisSplit split = lines_of(args);
  for (std::int64_t o = 0; o < split.outer; ++o)
    for (std::int64_t i = 0; i < split.inner; ++i)
      fill(Line{o * split.extent * split.inner + i, split.inner, split.extent}, values(result));
  return {result};
}

/// The largest x along a line and the sum of exp(x - largest).
struct ExpSum {
  double largest = -std::numeric_limits<double>::infinity(), total = 0;

  ExpSum(const double* x, const Line& line) {
    for (std::int64_t j = 0; j < line.n; ++j) largest = std::max(largest, x[line[j]]);
    for (std::int64_t j = 0; j < line.n; ++j) total += std::exp(x[line[j]] - largest);
  }
};

/// The rule of a forward row: its backward op, called with y and the cotangent.
template <const OpDef& backward> Gradients rule_of_forward(const VjpArgs& args) {
  if (!args.wants(0)) return {{}};
  return {call1(backward, {args.out[0], args.grad[0]}, {{"axis", args.attrs.integer("axis")}})};
}

/// Samples for `count` inputs of one shape; `first` may map the first input (a softmax wants positive numbers).
template <class First> std::vector<Sample> samples(DType dtype, std::size_t count, First&& first) {
  const auto tensors = [&](const Shape& shape, std::uint64_t tag, double scale) {
    std::vector<Tensor> in;
    for (std::size_t i = 0; i < count; ++i) in.push_back(sample_normal(shape, dtype, tag * 8 + i, scale));
    in[0] = first(in[0]);
    return in;
  };
  const auto along = [](std::int64_t axis) { return Attrs{{"axis", axis}}; };
  std::vector<Sample> all = {{tensors({4, 7}, 1, 1.0), {}, "rows of 7"},
                             {tensors({3, 65}, 2, 2.0), {}, "rows of 65"},
                             {tensors({5, 33, 2}, 3, 1.0), along(1), "an inner axis"},
                             {tensors({9, 37}, 4, 1.0), along(0), "the first axis"},
                             {tensors({6, 1}, 5, 1.0), {}, "an axis of 1"},
                             {tensors({3, 0}, 6, 1.0), {}, "an axis of 0"},
                             {tensors({0, 4}, 7, 1.0), {}, "no rows"},
                             {tensors({5}, 8, 3.0), {}, "one row"},
                             {tensors({}, 10, 1.0), along(0), "one number"}};
  Sample views{tensors({2, 8, 5}, 9, 1.0), {}, "strided views"};
  for (Tensor& x : views.in) x = scattered(x);
  all.push_back(std::move(views));
  return all;
}

inline std::vector<Sample> samples_of_forward(DType dtype) {
  return samples(dtype, 1, [](const Tensor& x) { return x; });
}
/// y and g, y being `forward` of the numbers.
template <Tensor (*forward)(const Tensor&, int)> std::vector<Sample> samples_of_backward(DType dtype) {
  return samples(dtype, 2, [](const Tensor& x) { return forward(x, -1); });
}

/// Permuting any axis, the normalised one as well, permutes it in the output.
inline std::vector<Symmetry> symmetries(const Sample& sample) {
  std::vector<Symmetry> all;
  const int rank = sample.in[0].rank();
  if (rank == 0) return {};
  const int along = normalize_axis("axis", sample.attrs.has("axis") ? sample.attrs.integer("axis") : -1, rank);
  for (int axis = 0; axis < rank; ++axis) {
    if (sample.in[0].shape()[axis] < 2) continue;
    Symmetry symmetry{fmt::format("axis {}", axis), {out_leg(0, axis)}, {}, axis == along};
    for (std::size_t i = 0; i < sample.in.size(); ++i) symmetry.legs.push_back(in_leg(static_cast<int>(i), axis));
    all.push_back(std::move(symmetry));
  }
  return all;
}

/// Refused calls of an op with `count` inputs.
template <int count> std::vector<Refusal> refuses() {
  const Tensor x = Tensor::ones({4, 3});
  const Tensor integers = Tensor::ones({4, 3}, DType::i64);
  const auto same = [](const Tensor& t) { return std::vector<Tensor>(count, t); };
  std::vector<Refusal> all = {{same(integers), {}, "must be f32 or f64, it is i64"},
                              {same(x), Attrs{{"axis", std::int64_t{2}}}, "axis"},
                              {same(Tensor::full({}, 1.0)), Attrs{{"axis", std::int64_t{1}}}, "no axes"}};
  if (count == 2) all.push_back({{x, Tensor::ones({3, 4})}, {}, "shapes differ"});
  return all;
}

/// The forward row of `own`, which gives name, math, input, attributes, kernels, rule and reference.
consteval OpDef forward_row(OpDef own) {
  own.infer = infer;
  own.saves = saves::out(0);
  own.samples = samples_of_forward;
  own.refuses = refuses<1>;
  own.symmetries = symmetries;
  own.work = elementwise_work<12>;
  return row(own);
}

/// The backward row of `own`, which gives the samples and the work as well.
consteval OpDef backward_row(OpDef own) {
  own.outputs = {"gx"};
  own.infer = infer;
  own.saves = saves::in(0) | saves::in(1);
  own.refuses = refuses<2>;
  own.symmetries = symmetries;
  return row(own);
}

} // namespace eg::softmax_kernels
