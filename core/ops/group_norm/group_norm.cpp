// Group normalisation (Wu, He, 2018) and instance normalisation (Ulyanov et al., 2016): layer_norm over rows that hold
// the channels of one group, then an affine map of each channel.

#include "core/call.h"
#include "core/memory/scratch_pool.h"
#include "core/ops.h"
#include "core/ops/layer_norm/kernels.h"
#include "core/ops/list.h"
#include "core/ops/norm_tools.h"
#include "core/ops/pointwise/kernels.h"
#include "core/ops/pointwise/ternary.h"
#include "core/ops/reduce/kernels.h"
#include "core/reduction.h"
#include "core/threads/parallel.h"

#include <cmath>
#include <fmt/format.h>

namespace eg {
namespace {

using norm_tools::beside;
using norm_tools::other_axes;

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

/// x as rows of one group each.
Tensor as_rows(const Tensor& x, std::int64_t rows) { return reshape(x, {rows, x.numel() / rows}); }

/// One group after another, while it is in a near cache: layer_norm of its row, then the affine map of each channel.
template <class T> void run_rows(const OpArgs& args, std::int64_t rows, Tensor& y) {
  const Tensor x = packed(args.in[0]);
  const Tensor gamma = args.given(1) ? packed(args.in[1]) : Tensor{},
               beta = args.given(2) ? packed(args.in[2]) : Tensor{};
  const AxisSplit split = split_at(x.shape(), 1);
  const std::int64_t n = x.numel() / rows;
  const auto times = pointwise::kernel<T>(pointwise::Binary::mul), plus = pointwise::kernel<T>(pointwise::Binary::add);
  const auto both = pointwise::kernel<T>(pointwise::Ternary::add_product);
  const auto eps = static_cast<T>(args.attrs.real("eps"));
  const T* const from = x.data<T>();
  T* const to = y.mutable_data<T>(args.op.name.data());
  const std::int64_t grain = parallel::grain_for_bytes(n * static_cast<std::int64_t>(sizeof(T)));
  parallel::for_each(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    layer_norm_kernels::run(
        norm_kernels::Forward<T>{from + begin * n, nullptr, nullptr, to + begin * n, end - begin, n, eps});
    for (std::int64_t at = begin * n; at < end * n; at += split.inner) {
      const std::int64_t channel = at / split.inner % split.extent;
      if (gamma.defined() && beta.defined())
        both({beta.data<T>() + channel, false}, {to + at, true}, {gamma.data<T>() + channel, false}, to + at,
             split.inner, 0.0);
      else if (gamma.defined())
        times(to + at, gamma.data<T>() + channel, to + at, split.inner, pointwise::Steps::first);
      else if (beta.defined())
        plus(to + at, beta.data<T>() + channel, to + at, split.inner, pointwise::Steps::first);
    }
  });
}

void forward(const OpArgs& args, std::span<Tensor> out) {
  const Tensor& x = args.in[0];
  if (x.numel() == 0) return;
  visit_floating(x.dtype(), [&]<class T>() { run_rows<T>(args, x.shape()[0] * groups_of(args), out[0]); });
}

/// The same made of operations: in exact mode, whose sums are those of layer_norm, and on devices.
void composed_forward(const OpArgs& args, std::span<Tensor> out) {
  const Tensor& x = args.in[0];
  if (x.numel() == 0) return; // the other extents may be too large to multiply
  Tensor y = layer_norm(as_rows(x, x.shape()[0] * groups_of(args)), {}, {}, args.attrs.real("eps"));
  y = reshape(y, x.shape());
  if (args.given(1)) y = y * beside(args.in[1], x);
  if (args.given(2)) y = y + beside(args.in[2], x);
  assign(out[0], y);
}

/// The gradients in one pass, with the bits of rule()'s operations. Sums over the places of a channel are one row each
/// there, so there are at least two channels, and places enough for a row but not for several pieces of it. Not for
/// beta alone, whose gradient needs no x.
template <class T> void gradient_rows(const VjpArgs& args, std::int64_t rows, Gradients& gradients) {
  const bool of_x = args.wants(0), of_gamma = args.wants(1), of_beta = args.wants(2);
  const Tensor x = packed(args.in[0]), g = packed(args.grad[0]);
  const Tensor gamma = args.given(1) ? packed(args.in[1]) : Tensor{};
  const AxisSplit split = split_at(x.shape(), 1);
  const std::int64_t n = x.numel() / rows, channels_of_row = n / split.inner;
  const auto times = pointwise::kernel<T>(pointwise::Binary::mul);
  const auto eps = static_cast<T>(args.attrs.real("eps"));
  const auto empty = [&](bool wanted, const Shape& shape) {
    return wanted ? Tensor::empty(shape, x.dtype()) : Tensor{};
  };
  Tensor dx = empty(of_x, x.shape());
  Tensor gammas = empty(of_gamma, {split.outer, split.extent}), betas = empty(of_beta, {split.outer, split.extent});
  const T *const from = x.data<T>(), *const cotangent = g.data<T>();
  T* const to = of_x ? dx.mutable_data<T>() : nullptr;
  T* const gamma_sums = of_gamma ? gammas.mutable_data<T>() : nullptr;
  T* const beta_sums = of_beta ? betas.mutable_data<T>() : nullptr;
  const std::int64_t grain = parallel::grain_for_bytes(n * static_cast<std::int64_t>(sizeof(T)));
  ScratchPool pool(parallel::chunks(rows, grain), static_cast<std::size_t>(n) * sizeof(T));
  parallel::for_each(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    const ScratchPool::Buffer buffer = pool.take();
    T* const scratch = reinterpret_cast<T*>(buffer.data());
    for (std::int64_t row = begin; row < end; ++row) {
      const T *const own = from + row * n, *const own_g = cotangent + row * n;
      const auto for_each_channel = [&](auto f) {
        for (std::int64_t k = 0; k < channels_of_row; ++k) f(k * split.inner, row * channels_of_row + k);
      };
      if (of_x) {
        if (gamma.defined())
          for_each_channel([&](std::int64_t at, std::int64_t channel) {
            times(own_g + at, gamma.data<T>() + channel % split.extent, scratch + at, split.inner,
                  pointwise::Steps::first);
          });
        layer_norm_kernels::run(norm_kernels::Backward<T>{own, nullptr, gamma.defined() ? scratch : own_g, to + row * n,
                                                          nullptr, nullptr, 1, n, eps});
      }
      if (of_gamma) {
        layer_norm_kernels::run(norm_kernels::Forward<T>{own, nullptr, nullptr, scratch, 1, n, eps});
        times(own_g, scratch, scratch, n, pointwise::Steps::both);
        for_each_channel([&](std::int64_t at, std::int64_t channel) {
          gamma_sums[channel] = static_cast<T>(reduce::row_sum(scratch + at, split.inner));
        });
      }
      if (of_beta)
        for_each_channel([&](std::int64_t at, std::int64_t channel) {
          beta_sums[channel] = static_cast<T>(reduce::row_sum(own_g + at, split.inner));
        });
    }
  });
  gradients[0] = dx;
  if (of_gamma) gradients[1] = sum(gammas, {0});
  if (of_beta) gradients[2] = sum(betas, {0});
}

// With xh, layer_norm of the groups: dgamma and dbeta are the sums of g xh and of g over each channel, and dx is that
// of layer_norm for the cotangent g gamma.
Gradients rule(const VjpArgs& args) {
  Gradients gradients(3);
  if (!args.grad[0].defined()) return gradients;
  const Tensor &x = args.in[0], &g = args.grad[0];
  const Tensor gamma = args.given(1) ? args.in[1] : Tensor{};
  const std::vector<std::int64_t> axes = other_axes(x);
  if (x.numel() == 0) {
    if (args.wants(0)) gradients[0] = g;
    for (const std::size_t i : {1U, 2U})
      if (args.wants(i)) gradients[i] = sum(g, axes);
    return gradients;
  }
  const std::int64_t rows = x.shape()[0] * groups_of(args);
  const std::int64_t places = x.numel() / (x.shape()[0] * x.shape()[1]);
  const Tensor operands[] = {x, gamma, g};
  if (reduction() == Reduction::fast && x.shape()[1] > 1 && places > 1 && places <= reduce::row_piece &&
      (args.wants(0) || args.wants(1)) && may_fuse(operands)) {
    visit_floating(x.dtype(), [&]<class T>() { gradient_rows<T>(args, rows, gradients); });
    return gradients;
  }
  const double eps = args.attrs.real("eps");
  if (args.wants(0)) {
    const Tensor gh = gamma.defined() ? g * beside(gamma, x) : g;
    gradients[0] = reshape(call(layer_norm_backward_op, {as_rows(x, rows), {}, as_rows(gh, rows)},
                                {{"eps", eps}, {"parameters", false}})[0],
                           x.shape());
  }
  if (args.wants(1)) gradients[1] = sum(g * reshape(layer_norm(as_rows(x, rows), {}, {}, eps), x.shape()), axes);
  if (args.wants(2)) gradients[2] = sum(g, axes);
  return gradients;
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
    .cpu = forward,
    .exact = composed_forward,
    .cuda = composed_forward,
    .saves = saves::in(0) | saves::in(1),
    .vjp = rule,
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
    .cpu = forward,
    .exact = composed_forward,
    .cuda = composed_forward,
    .saves = saves::in(0) | saves::in(1),
    .vjp = rule,
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
