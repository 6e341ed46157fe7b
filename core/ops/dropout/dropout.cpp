// Row of dropout. The mask is a function of (seed, stream, element index) alone, so it is never stored: the gradient is
// the same op on the cotangent.

#include "core/device/module.h"
#include "core/ops/dropout/kernels.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"
#include "core/threads/parallel.h"

#include <bit>
#include <fmt/format.h>

namespace eg {
namespace {

constexpr std::int64_t chunk = 16384;

RandomKey key_of(const Attrs& attrs) {
  return {std::bit_cast<std::uint64_t>(attrs.integer("seed")), std::bit_cast<std::uint64_t>(attrs.integer("stream"))};
}

std::vector<TensorSpec> infer(const OpArgs& args) {
  check_floating(args, 0);
  const double p = args.attrs.real("p");
  if (!(p >= 0.0 && p < 1.0)) throw ValueError(fmt::format("dropout: p must be in [0, 1), it is {}", p));
  return {{args.in[0].shape(), args.in[0].dtype()}};
}

void run(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]);
  const double p = args.attrs.real("p");
  const RandomKey key = key_of(args.attrs);
  if (p == 0.0) return out[0].copy_from(x);
  const std::uint32_t last = largest_dropped(p);
  visit_floating(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = out[0].mutable_data<T>();
    parallel::for_each(x.numel(), chunk, [&](std::int64_t begin, std::int64_t end) {
      dropout_chunk(from + begin, to + begin, end - begin, begin, key, last, 1.0 / (1.0 - p));
    });
  });
}

void run_on_device(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]);
  const double p = args.attrs.real("p");
  if (p == 0.0 || x.numel() == 0) return out[0].copy_from(x);
  const RandomKey key = key_of(args.attrs);
  const device::DropoutJob job{x.dtype(),
                               out[0].mutable_device_bytes("dropout"),
                               x.device_bytes(),
                               x.numel(),
                               1,
                               key.seed,
                               key.stream,
                               largest_dropped(p),
                               1.0 / (1.0 - p)};
  device::launch(x.device(), "dropout", &device::Table::dropout, job);
}

std::vector<Sample> samples(DType dtype) {
  const auto attrs = [](double p, std::int64_t seed, std::int64_t stream) {
    return Attrs{{"p", p}, {"seed", seed}, {"stream", stream}};
  };
  const auto x = [&](const Shape& s, std::uint64_t tag) { return sample_normal(s, dtype, 400 + tag); };
  return {{{x({7, 33}, 1)}, attrs(0.25, 11, 3), "matrix"},
          {{scattered(x({9, 13}, 2))}, attrs(0.5, 12, -4), "strided"},
          {{x({3, 1}, 3).expand({3, 5})}, attrs(0.1, -1, 0), "expanded"},
          {{x({65}, 4)}, attrs(0.0, 5, 0), "p = 0 keeps all"},
          {{x({}, 5)}, attrs(0.3, 6, 1), "scalar"},
          {{x({0, 2}, 6)}, attrs(0.3, 6, 1), "empty"}};
}

std::vector<Refusal> refusals() {
  const Attrs half{{"p", 0.5}, {"seed", std::int64_t{1}}};
  return {{{Tensor::zeros({3}, DType::i64)}, half, "x must be f32 or f64, it is i64"},
          {{Tensor::zeros({3})}, {{"p", 1.0}, {"seed", std::int64_t{1}}}, "p must be in [0, 1), it is 1"},
          {{Tensor::zeros({3})}, {{"p", -0.5}, {"seed", std::int64_t{1}}}, "p must be in [0, 1), it is -0.5"},
          {{Tensor::zeros({3})}, {{"p", 0.5}}, "attribute 'seed' must be given"}};
}

} // namespace

constinit const OpDef dropout_op = row({
    .name = "dropout",
    .math = "y_i = x_i [u_i >= p] / (1 - p), u_i uniform: word i of Philox(seed, stream) / 2^32",
    .inputs = {{"x"}},
    .attributes = {required_attr("p", AttrKind::real, "probability of a 0, in [0, 1)"),
                   required_attr("seed", AttrKind::integer, "key of the mask, 64 bits"),
                   attr_int("stream", 0, "stream of the mask, 64 bits")},
    .infer = infer,
    .cpu = run,
    .cuda = run_on_device,
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& args) -> Gradients {
      if (!args.wants(0)) return {Tensor()};
      return {call1(dropout_op, {args.grad[0]}, args.attrs)};
    },
    .reference = [](const OpArgs& args) -> std::vector<Tensor> {
      const Tensor& x = args.in[0];
      const double p = args.attrs.real("p");
      Tensor y = reference_output(x.shape());
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        const bool kept = uniform_at(key_of(args.attrs), static_cast<std::uint64_t>(i)) >= p;
        values(y)[i] = kept ? values(x)[i] / (1.0 - p) : 0.0;
      }
      return {y};
    },
    .samples = samples,
    .refuses = refusals,
    .no_symmetry = "the mask belongs to places, not to values: moving the values does not move the mask",
    .work = elementwise_work<12>,
});

Tensor dropout(const Tensor& x, double p, RandomKey key) {
  return call1(
      dropout_op, {x},
      {{"p", p}, {"seed", std::bit_cast<std::int64_t>(key.seed)}, {"stream", std::bit_cast<std::int64_t>(key.stream)}});
}

} // namespace eg
