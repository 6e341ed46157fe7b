#pragma once
// Parts of the rows of softmax and log_softmax that differ in the kernel alone.

#include "core/ops/softmax/kernels.h"

#include <fmt/format.h>

namespace eg::softmax_kernels {

/// The attribute axis, in [0, rank). Throws IndexError.
inline int axis_of(const OpArgs& args) {
  return normalize_axis(args.op.name.data(), args.attrs.integer("axis"), args.in[0].rank());
}

/// One or two floating inputs of one shape, and an axis that they have.
inline std::vector<TensorSpec> infer(const OpArgs& args) {
  auto specs = same_shape_everywhere(args);
  axis_of(args);
  return specs;
}

/// Runs `f32` or `f64` along the axis of the packed inputs.
inline void run(const OpArgs& args, Tensor& out, RowsKernel<float> f32, RowsKernel<double> f64) {
  const Tensor a = packed(args.in[0]);
  const Tensor b = args.given(1) ? packed(args.in[1]) : Tensor{};
  const AxisSplit split = split_at(a.shape(), axis_of(args));
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

/// line(first, step, n) for every line of elements along the axis: element j is at first + j * step.
template <class F> void for_each_line(const OpArgs& args, F&& line) {
  const AxisSplit split = split_at(args.in[0].shape(), axis_of(args));
  for (std::int64_t o = 0; o < split.outer; ++o)
    for (std::int64_t i = 0; i < split.inner; ++i) line(o * split.extent * split.inner + i, split.inner, split.extent);
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
                             {tensors({5}, 8, 3.0), {}, "one row"}};
  Sample views{tensors({2, 8, 5}, 9, 1.0), {}, "strided views"};
  for (Tensor& x : views.in) x = scattered(x);
  all.push_back(std::move(views));
  return all;
}

/// Permuting any axis, the normalised one as well, permutes it in the output.
inline std::vector<Symmetry> symmetries(const Sample& sample) {
  std::vector<Symmetry> all;
  for (int axis = 0; axis < sample.in[0].rank(); ++axis) {
    if (sample.in[0].shape()[axis] < 2) continue;
    Symmetry symmetry{fmt::format("axis {}", axis), {out_leg(0, axis)}};
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
                              {same(Tensor::full({}, 1.0)), {}, "axis"}};
  if (count == 2) all.push_back({{x, Tensor::ones({3, 4})}, {}, "shapes differ"});
  return all;
}

} // namespace eg::softmax_kernels
