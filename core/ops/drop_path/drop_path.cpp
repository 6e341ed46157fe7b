// Stochastic depth (Huang et al., "Deep networks with stochastic depth", 2016): whole samples are dropped. As with
// dropout the mask is a function of the key, so the gradient is the same op on the cotangent.

#include "core/call.h"
#include "core/device/module.h"
#include "core/ops.h"
#include "core/ops/dropout/kernels.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace eg {
namespace {

RandomKey mask_key(const Attrs& attrs) {
  return {std::bit_cast<std::uint64_t>(attrs.integer("seed")), std::bit_cast<std::uint64_t>(attrs.integer("stream"))};
}

/// What sample `index` is multiplied with.
double factor(const Attrs& attrs, std::int64_t index) {
  const double p = attrs.real("p");
  return p == 0.0 || uniform_at(mask_key(attrs), static_cast<std::uint64_t>(index)) >= p ? 1.0 / (1.0 - p) : 0.0;
}

std::vector<TensorSpec> infer(const OpArgs& args) {
  check_floating(args, 0);
  check_rank_at_least(args, 0, 1);
  const double p = args.attrs.real("p");
  if (!(p >= 0.0 && p < 1.0)) throw ValueError(fmt::format("drop_path: p must be in [0, 1), it is {}", p));
  return {{args.in[0].shape(), args.in[0].dtype()}};
}

void run(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]);
  if (x.numel() == 0) return;
  const std::int64_t n = x.numel() / x.shape()[0];
  visit_floating(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = out[0].mutable_data<T>("drop_path");
    const std::int64_t grain = parallel::grain_for_bytes(n * static_cast<std::int64_t>(sizeof(T)));
    parallel::for_each(x.shape()[0], grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T scale = static_cast<T>(factor(args.attrs, i));
        if (scale == T{0})
          std::fill_n(to + i * n, n, T{0}); // dropped, whatever it holds
        else
          std::transform(from + i * n, from + (i + 1) * n, to + i * n, [&](T v) { return v * scale; });
      }
    });
  });
}

void run_on_device(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]);
  const double p = args.attrs.real("p");
  if (p == 0.0 || x.numel() == 0) return out[0].copy_from(x);
  const RandomKey key = mask_key(args.attrs);
  const device::DropoutJob job{x.dtype(),
                               out[0].mutable_device_bytes("drop_path"),
                               x.device_bytes(),
                               x.numel(),
                               x.numel() / x.shape()[0],
                               key.seed,
                               key.stream,
                               largest_dropped(p),
                               1.0 / (1.0 - p)};
  device::launch(x.device(), "drop_path", &device::Table::dropout, job);
}

std::vector<Sample> samples(DType dtype) {
  const auto attrs = [](double p, std::int64_t seed, std::int64_t stream) {
    return Attrs{{"p", p}, {"seed", seed}, {"stream", stream}};
  };
  const auto x = [&](const Shape& s, std::uint64_t tag) { return sample_normal(s, dtype, 1200 + tag); };
  return {{{x({7, 33}, 1)}, attrs(0.25, 11, 3), "seven samples"},
          {{scattered(x({9, 3, 5}, 2))}, attrs(0.5, 12, -4), "strided"},
          {{x({65}, 3)}, attrs(0.5, 5, 0), "one number a sample"},
          {{x({1, 4}, 4)}, attrs(0.0, 5, 0), "p = 0 keeps all"},
          {{x({0, 2}, 5)}, attrs(0.3, 6, 1), "no samples"},
          {{x({2, 0}, 6)}, attrs(0.3, 6, 1), "empty samples"}};
}

std::vector<Refusal> refuses() {
  const Attrs half{{"p", 0.5}, {"seed", std::int64_t{1}}};
  return {{{Tensor::zeros({3}, DType::i64)}, half, "x must be f32 or f64, it is i64"},
          {{Tensor::zeros({})}, half, "at least 1 axes"},
          {{Tensor::zeros({3})}, {{"p", 1.0}, {"seed", std::int64_t{1}}}, "p must be in [0, 1), it is 1"},
          {{Tensor::zeros({3})}, {{"p", 0.5}}, "attribute 'seed' must be given"}};
}

/// Every axis but the first: the mask belongs to the places of the samples.
std::vector<Symmetry> symmetries(const Sample& sample) {
  std::vector<Symmetry> all;
  for (int axis = 1; axis < sample.in[0].rank(); ++axis)
    if (sample.in[0].size(axis) >= 2)
      all.push_back(
          {.name = fmt::format("kept axis {}", axis), .legs = {in_leg(0, axis), out_leg(0, axis)}, .bit_exact = true});
  return all;
}

} // namespace

constinit const OpDef drop_path_op = row({
    .name = "drop_path",
    .math = "y[b] = x[b] [u_b >= p] / (1 - p), u_b uniform: word b of Philox(seed, stream) / 2^32",
    .inputs = {{"x"}},
    .attributes = {required_attr("p", AttrKind::real, "probability that a sample is dropped, in [0, 1)"),
                   required_attr("seed", AttrKind::integer, "key of the mask, 64 bits"),
                   attr_int("stream", 0, "stream of the mask, 64 bits")},
    .infer = infer,
    .cpu = run,
    .cuda = run_on_device,
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& args) -> Gradients {
      return {args.wants(0) ? call1(drop_path_op, {args.grad[0]}, args.attrs) : Tensor{}};
    },
    .reference = [](const OpArgs& args) -> std::vector<Tensor> {
      Tensor y = reference_output(args.in[0].shape());
      for (std::int64_t i = 0; i < y.numel(); ++i)
        values(y)[i] = values(args.in[0])[i] * factor(args.attrs, i / (y.numel() / y.shape()[0]));
      return {y};
    },
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = elementwise_work<1>,
});

Tensor drop_path(const Tensor& x, double p, RandomKey key) {
  return call1(
      drop_path_op, {x},
      {{"p", p}, {"seed", std::bit_cast<std::int64_t>(key.seed)}, {"stream", std::bit_cast<std::int64_t>(key.stream)}});
}

} // namespace eg
