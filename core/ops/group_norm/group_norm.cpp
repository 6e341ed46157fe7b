// Group normalisation (Wu, He, 2018) and instance normalisation (Ulyanov et al., 2016): layer_norm over rows that hold
// the channels of one group, then an affine map of each channel.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/layer_norm/kernels.h"
#include "core/ops/list.h"
#include "core/ops/norm_tools.h"
#include "core/ops/pointwise/kernels.h"
#include "core/reduction.h"
#include "core/threads/parallel.h"

#include <cmath>
#include <fmt/format.h>

namespace eg {
namespace {

/// Checks x [N, C, ...], gamma [C], beta [C] and eps.
void check(const OpArgs& args) {
  check_all_floating(args);
  check_rank_at_least(args, 0, 2);
  for (const std::size_t i : {1U, 2U})
    if (args.given(i)) check_shape(args, i, {args.in[0].shape()[1]});
  norm_tools::check_eps(args);
}

std::vector<TensorSpec> group_infer(const OpArgs& args) {
  check(args);
  const std::int64_t groups = args.attrs.integer("groups"), channels = args.in[0].shape()[1];
  if (groups < 1 || channels % groups != 0)
    throw ValueError(fmt::format("group_norm: groups must divide the {} channels of x, it is {}", channels, groups));
  return {{args.in[0].shape(), args.in[0].dtype()}};
}

std::vector<TensorSpec> instance_infer(const OpArgs& args) {
  check(args);
  return {{args.in[0].shape(), args.in[0].dtype()}};
}

std::int64_t groups_of(const OpArgs& args) {
  return args.attrs.has("groups") ? args.attrs.integer("groups") : args.in[0].shape()[1];
}

Tensor beside(const Tensor& vector, const Tensor& x) {
  Shape shape = {vector.numel()};
  for (int axis = 2; axis < x.rank(); ++axis) shape.push_back(1);
  return vector.reshape(shape);
}

/// The steps of body() for one row after another, while it is in a near cache.
template <class T> void run_rows(const OpArgs& args, std::int64_t rows, Tensor& y) {
  const Tensor x = packed(args.in[0]);
  const Tensor gamma = args.given(1) ? packed(args.in[1]) : Tensor{},
               beta = args.given(2) ? packed(args.in[2]) : Tensor{};
  const AxisSplit split = split_at(x.shape(), 1);
  const std::int64_t n = x.numel() / rows;
  const auto times = pointwise::kernel<T>(pointwise::Binary::mul), plus = pointwise::kernel<T>(pointwise::Binary::add);
  const auto eps = static_cast<T>(args.attrs.real("eps"));
  const T* const from = x.data<T>();
  T* const to = y.mutable_data<T>(args.op.name.data());
  const std::int64_t grain = parallel::grain_for_bytes(n * static_cast<std::int64_t>(sizeof(T)));
  parallel::for_each(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    layer_norm_kernels::run(
        norm_kernels::Forward<T>{from + begin * n, nullptr, nullptr, to + begin * n, end - begin, n, eps});
    for (std::int64_t at = begin * n; at < end * n; at += split.inner) {
      const std::int64_t channel = at / split.inner % split.extent;
      if (gamma.defined()) times(to + at, gamma.data<T>() + channel, to + at, split.inner, pointwise::Steps::first);
      if (beta.defined()) plus(to + at, beta.data<T>() + channel, to + at, split.inner, pointwise::Steps::first);
    }
  });
}

std::vector<Tensor> body(const OpArgs& args) {
  const Tensor& x = args.in[0];
  Tensor y;
  if (x.numel() > 0 && reduction() == Reduction::fast && may_fuse(args.in)) {
    y = Tensor::empty(x.shape(), x.dtype());
    visit_floating(x.dtype(), [&]<class T>() { run_rows<T>(args, x.shape()[0] * groups_of(args), y); });
    return {y};
  }
  if (x.numel() == 0) { // the other extents may be too large to multiply
    y = expand(x, x.shape());
  } else {
    const std::int64_t rows = x.shape()[0] * groups_of(args);
    y = reshape(layer_norm(reshape(x, {rows, x.numel() / rows}), {}, {}, args.attrs.real("eps")), x.shape());
  }
  if (args.given(1)) y = y * beside(args.in[1], x);
  if (args.given(2)) y = y + beside(args.in[2], x);
  return {y};
}

std::vector<Tensor> reference(const OpArgs& args) {
  const Tensor& x = args.in[0];
  Tensor y = reference_output(x.shape());
  if (x.numel() == 0) return {y};
  const AxisSplit split = split_at(x.shape(), 1);
  const std::int64_t rows = split.outer * groups_of(args), n = x.numel() / rows;
  for (std::int64_t r = 0; r < rows; ++r) {
    const double* row = values(x) + r * n;
    double mean = 0, variance = 0;
    for (std::int64_t j = 0; j < n; ++j) mean += row[j] / static_cast<double>(n);
    for (std::int64_t j = 0; j < n; ++j) variance += (row[j] - mean) * (row[j] - mean) / static_cast<double>(n);
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t c = (r * n + j) / split.inner % split.extent;
      values(y)[r * n + j] = (row[j] - mean) / std::sqrt(variance + args.attrs.real("eps")) *
                                 (args.given(1) ? values(args.in[1])[c] : 1.0) +
                             (args.given(2) ? values(args.in[2])[c] : 0.0);
    }
  }
  return {y};
}

std::vector<Sample> instance_samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) {
    return sample_normal(shape, dtype, 1600 + tag, 2.0, 0.5);
  };
  const auto c = [&](std::int64_t n, std::uint64_t tag) { return sample_normal({n}, dtype, 1600 + tag, 0.5, 1.5); };
  return {{{x({2, 4, 3, 5}, 1), c(4, 2), c(4, 3)}, {}, "images"},
          {{x({3, 6, 7}, 4), c(6, 5)}, {{"eps", 0.1}}, "sequences, gamma alone, another eps"},
          {{x({2, 4, 33}, 6)}, {}, "neither gamma nor beta"},
          {{scattered(x({2, 4, 5}, 7)), scattered(c(4, 8)), scattered(c(4, 9))}, {}, "strided views"},
          {{x({2, 4, 3}, 10), {}, c(4, 11)}, {}, "beta alone"},
          {{x({0, 4, 3}, 12), c(4, 13), c(4, 14)}, {}, "no samples"},
          {{x({2, 4, 0}, 15), c(4, 16), c(4, 17)}, {}, "no places"}};
}

std::vector<Sample> group_samples(DType dtype) {
  std::vector<Sample> all = instance_samples(dtype);
  for (Sample& sample : all) sample.attrs.set("groups", std::int64_t{2});
  all[4].attrs.set("groups", std::int64_t{1});
  all.push_back({{sample_normal({3, 6}, dtype, 1630)}, {{"groups", std::int64_t{2}}}, "vectors"});
  all.push_back({{sample_normal({2, 5, 3}, dtype, 1631, 2.0), sample_normal({5}, dtype, 1632, 0.5, 1.5),
                  sample_normal({5}, dtype, 1633)},
                 {{"groups", std::int64_t{1}}},
                 "one group"});
  return all;
}

/// Samples and places; channels where all of them, or each by itself, make a group.
std::vector<Symmetry> symmetries_for(const Sample& sample, bool channels, bool of_a_group) {
  std::vector<Symmetry> all;
  const Shape& shape = sample.in[0].shape();
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (axis != 1 && shape[axis] >= 2)
      all.push_back({fmt::format("axis {}", axis), {in_leg(0, axis), out_leg(0, axis)}, {}, axis > 0});
  if (channels && shape[1] >= 2)
    all.push_back({"channels", {in_leg(0, 1), in_leg(1, 0), in_leg(2, 0), out_leg(0, 1)}, {}, of_a_group});
  return all;
}

std::vector<Symmetry> group_symmetries(const Sample& sample) {
  return symmetries_for(sample, sample.attrs.integer("groups") == 1, true);
}
std::vector<Symmetry> instance_symmetries(const Sample& sample) { return symmetries_for(sample, true, false); }

std::vector<Refusal> group_refuses() {
  const Tensor x = Tensor::ones({2, 4, 3});
  const Attrs two{{"groups", std::int64_t{2}}};
  return {{{x}, {{"groups", std::int64_t{3}}}, "group_norm: groups must divide the 4 channels of x, it is 3"},
          {{x}, {{"groups", std::int64_t{0}}}, "groups must divide"},
          {{x}, {}, "groups"},
          {{x, Tensor::ones({3})}, two, "gamma must be [4], it is [3]"},
          {{Tensor::ones({4})}, two, "at least 2 axes"},
          {{Tensor::ones({2, 4}, DType::i64)}, two, "must be f32 or f64"},
          {{x}, {{"groups", std::int64_t{2}}, {"eps", -1.0}}, "eps must not be negative"}};
}

std::vector<Refusal> instance_refuses() {
  const Tensor x = Tensor::ones({2, 4, 3});
  return {{{x, Tensor::ones({3})}, {}, "instance_norm: gamma must be [4], it is [3]"},
          {{Tensor::ones({4})}, {}, "at least 2 axes"},
          {{x}, {{"eps", -1.0}}, "eps must not be negative"}};
}

} // namespace

constinit const OpDef group_norm_op = row({
    .name = "group_norm",
    .math = "y = (x - mean) / sqrt(variance + eps) * gamma + beta, statistics over the C / groups channels and all "
            "places of "
            "each group of a sample; gamma, beta for each channel (axis 1)",
    .inputs = {{"x"}, {"gamma", true}, {"beta", true}},
    .attributes = {required_attr("groups", AttrKind::integer, "a divisor of the number of channels"),
                   attr_real("eps", 1e-5, "added to the variance")},
    .infer = group_infer,
    .body = body,
    .rounding = {.mean = Rounding::Mean::in_type},
    .reference = reference,
    .samples = group_samples,
    .refuses = group_refuses,
    .symmetries = group_symmetries,
    .work = elementwise_work<10>,
});

constinit const OpDef instance_norm_op = row({
    .name = "instance_norm",
    .math = "y = (x - mean) / sqrt(variance + eps) * gamma + beta, statistics over the places of each channel (axis 1) "
            "of a "
            "sample",
    .inputs = {{"x"}, {"gamma", true}, {"beta", true}},
    .attributes = {attr_real("eps", 1e-5, "added to the variance")},
    .infer = instance_infer,
    .body = body,
    .rounding = {.mean = Rounding::Mean::in_type},
    .reference = reference,
    .samples = instance_samples,
    .refuses = instance_refuses,
    .symmetries = instance_symmetries,
    .work = elementwise_work<10>,
});

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma, const Tensor& beta, double eps) {
  return call1(group_norm_op, {x, gamma, beta}, {{"groups", groups}, {"eps", eps}});
}

Tensor instance_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps) {
  return call1(instance_norm_op, {x, gamma, beta}, {{"eps", eps}});
}

} // namespace eg
