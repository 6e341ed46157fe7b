// The gradients of layer_norm. Mean and rstd are recomputed for each row, which is in cache anyway, so that the tape
// keeps x and gamma alone.
//
// With xh = (x - mean) rstd, gh = g gamma, means taken over the row:
//   dx = rstd (gh - mean(gh) - xh mean(gh xh)),   dgamma = sum over rows of g xh,   dbeta = sum over rows of g.

#include "core/call.h"
#include "core/memory/allocator.h"
#include "core/ops.h"
#include "core/ops/layer_norm/kernels.h"
#include "core/ops/list.h"
#include "core/ops/norm_tools.h"
#include "core/threads/parallel.h"

#include <cmath>
#include <cstring>
#include <utility>

namespace eg {
namespace {

std::vector<TensorSpec> infer(const OpArgs& args) {
  check_all_floating(args);
  check_rank_at_least(args, 0, 1);
  const Shape& shape = args.in[0].shape();
  if (args.given(1)) check_shape(args, 1, {shape[-1]});
  check_shape(args, 2, shape);
  const DType dtype = args.in[0].dtype();
  const Shape parameter = {args.attrs.flag("parameters") ? shape[-1] : 0};
  return {{shape, dtype}, {parameter, dtype}, {parameter, dtype}};
}

template <class T> void run(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]);
  const Tensor gamma = args.given(1) ? packed(args.in[1]) : Tensor{};
  const Tensor g = packed(args.in[2]);
  const bool parameters = args.attrs.flag("parameters");
  if (x.numel() == 0) {
    for (Tensor& t : out) t.fill(0.0);
    return;
  }
  const std::int64_t n = x.shape()[-1];
  const std::int64_t rows = x.numel() / n;
  const std::int64_t grain = norm_tools::rows_per_chunk(rows, n * static_cast<std::int64_t>(sizeof(T)));
  const std::int64_t chunks = parallel::chunks(rows, grain);
  const auto partial_bytes = static_cast<std::size_t>(chunks * 2 * n) * sizeof(T);
  const auto scratch = parameters ? allocator::allocate(partial_bytes) : nullptr;
  T* const partial = reinterpret_cast<T*>(scratch.get());
  const T* const from = x.data<T>();
  const T* const cotangent = g.data<T>();
  T* const to = out[0].mutable_data<T>("layer_norm_backward");
  const auto eps = static_cast<T>(args.attrs.real("eps"));
  parallel::for_each(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    T* const sums = parameters ? partial + begin / grain * 2 * n : nullptr;
    if (sums != nullptr) std::memset(sums, 0, static_cast<std::size_t>(2 * n) * sizeof(T));
    layer_norm_kernels::run(norm_kernels::Backward<T>{from + begin * n, gamma.defined() ? gamma.data<T>() : nullptr,
                                                      cotangent + begin * n, to + begin * n, sums,
                                                      parameters ? sums + n : nullptr, end - begin, n, eps});
  });
  if (!parameters) return;
  norm_tools::join(partial, chunks, 2 * n, n, out[1].mutable_data<T>("layer_norm_backward"));
  norm_tools::join(partial + n, chunks, 2 * n, n, out[2].mutable_data<T>("layer_norm_backward"));
}

void kernel(const OpArgs& args, std::span<Tensor> out) {
  visit_floating(out[0].dtype(), [&]<class T>() { run<T>(args, out); });
}

/// The formulas at the top made of operations, whose sums are exact.
void exact_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Tensor &x = args.in[0], &g = args.in[2];
  if (x.numel() == 0) return kernel(args, out);
  const Tensor centred = center(x, {-1});
  const Tensor rstd = norm_tools::reciprocal_deviation(centred, {-1}, args.attrs.real("eps"));
  const Tensor xh = centred * rstd;
  const Tensor gh = args.given(1) ? g * args.in[1] : g;
  assign(out[0], rstd * (gh - mean(gh, {-1}, true) - xh * mean(gh * xh, {-1}, true)));
  if (!args.attrs.flag("parameters")) return;
  assign(out[1], sum_to(g * xh, {x.shape()[-1]}));
  assign(out[2], sum_to(g, {x.shape()[-1]}));
}

/// J u = rstd (u - mean(u) - xh mean(u xh)): the symmetric Jacobian of the normalisation, applied to u.
Tensor jacobian(const Tensor& x, const Tensor& u, double eps) {
  return call(layer_norm_backward_op, {x, {}, u}, {{"eps", eps}, {"parameters", false}})[0];
}

Tensor sum_rows(const Tensor& x) { return sum_to(x, {x.shape()[-1]}); }

// Cotangents a, b, c of dx, dgamma, dbeta:
//   gbar = gamma J a + b xh + c,   gammabar = sum over rows of g J a,
//   xbar = J u - rstd xh mean(a dx)   with   u = -rstd (a mean(gh xh) + gh mean(a xh)) + b g
Gradients rule(const VjpArgs& args) {
  const Tensor& x = args.in[0];
  const Tensor gamma = args.given(1) ? args.in[1] : Tensor{};
  const Tensor& g = args.in[2];
  const double eps = args.attrs.real("eps");
  const bool parameters = args.attrs.flag("parameters");
  const Tensor& a = args.grad[0];
  const Tensor b = parameters ? args.grad[1] : Tensor{};
  const Tensor c = parameters ? args.grad[2] : Tensor{};
  const Tensor ja = a.defined() && (args.wants(1) || args.wants(2)) ? jacobian(x, a, eps) : Tensor{};
  const Tensor xh = layer_norm(x, {}, {}, eps);
  Gradients gradients(3);
  if (args.wants(0)) {
    Tensor u = b.defined() ? b * g : Tensor{};
    if (a.defined()) {
      const Tensor gh = gamma.defined() ? g * gamma : g;
      const Tensor centred = center(x, {-1});
      const Tensor rstd = norm_tools::reciprocal_deviation(centred, {-1}, eps);
      add_term(u, -(rstd * (a * mean(gh * xh, {-1}, true) + gh * mean(a * xh, {-1}, true))));
      gradients[0] = -(rstd * xh * mean(a * jacobian(x, gh, eps), {-1}, true));
    }
    if (u.defined()) add_term(gradients[0], jacobian(x, u, eps));
  }
  if (args.wants(1) && ja.defined()) gradients[1] = sum_rows(g * ja);
  if (args.wants(2)) {
    if (ja.defined()) gradients[2] = gamma.defined() ? gamma * ja : ja;
    if (b.defined()) add_term(gradients[2], b * xh);
    if (c.defined()) add_term(gradients[2], expand(c, x.shape()));
  }
  return gradients;
}

std::vector<Tensor> reference(const OpArgs& args) {
  const std::int64_t n = args.in[0].shape()[-1];
  const std::int64_t rows = n > 0 ? args.in[0].numel() / n : 0;
  const auto count = static_cast<double>(n);
  const bool parameters = args.attrs.flag("parameters");
  Tensor dx = reference_output(args.in[0].shape());
  Tensor dgamma = reference_output({parameters ? n : 0});
  Tensor dbeta = reference_output({parameters ? n : 0});
  for (std::int64_t r = 0; r < rows; ++r) {
    const double* x = values(args.in[0]) + r * n;
    const double* g = values(args.in[2]) + r * n;
    const auto gamma = [&](std::int64_t j) { return args.given(1) ? values(args.in[1])[j] : 1.0; };
    double mean = 0, variance = 0, mean_gh = 0, mean_gh_xh = 0;
    for (std::int64_t j = 0; j < n; ++j) mean += x[j] / count;
    for (std::int64_t j = 0; j < n; ++j) variance += (x[j] - mean) * (x[j] - mean) / count;
    const double rstd = 1.0 / std::sqrt(variance + args.attrs.real("eps"));
    for (std::int64_t j = 0; j < n; ++j) {
      mean_gh += g[j] * gamma(j) / count;
      mean_gh_xh += g[j] * gamma(j) * (x[j] - mean) * rstd / count;
    }
    for (std::int64_t j = 0; j < n; ++j) {
      const double xh = (x[j] - mean) * rstd;
      values(dx)[r * n + j] = rstd * (g[j] * gamma(j) - mean_gh - xh * mean_gh_xh);
      if (!parameters) continue;
      values(dgamma)[j] += g[j] * xh;
      values(dbeta)[j] += g[j];
    }
  }
  return {dx, dgamma, dbeta};
}

std::vector<Sample> samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, tag, 2.0, 0.5); };
  const auto g = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, tag); };
  const auto gamma = [&](std::int64_t n, std::uint64_t tag) { return sample_normal({n}, dtype, tag, 0.5, 1.5); };
  const Attrs dx_alone{{"parameters", false}};
  return {{{x({5, 7}, 31), gamma(7, 32), g({5, 7}, 33)}, {}, "gamma"},
          {{x({3, 65}, 34), gamma(65, 35), g({3, 65}, 36)}, {{"eps", 0.1}}, "65 features, another eps"},
          {{x({2, 3, 33}, 37), {}, g({2, 3, 33}, 38)}, {}, "no gamma"},
          {{x({4, 6}, 39), gamma(6, 40), g({4, 6}, 41)}, dx_alone, "dx alone"},
          {{scattered(x({4, 9}, 42)), scattered(gamma(9, 43)), scattered(g({4, 9}, 44))}, {}, "strided views"},
          {{x({4, 1}, 45), gamma(1, 46), g({4, 1}, 47)}, {}, "one feature"},
          {{x({0, 5}, 48), gamma(5, 49), g({0, 5}, 50)}, {}, "no rows"},
          {{x({3, 0}, 51), gamma(0, 52), g({3, 0}, 53)}, {}, "no features"}};
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::ones({4, 3});
  return {{{x, {}, Tensor::ones({3, 4})}, {}, "layer_norm_backward: g must be [4, 3], it is [3, 4]"},
          {{x, Tensor::ones({4}), x}, {}, "gamma must be [3], it is [4]"},
          {{Tensor::ones({4, 3}, DType::i64), {}, x}, {}, "must be f32 or f64"}};
}

std::vector<Symmetry> symmetries(const Sample& sample) {
  std::vector<Leg> columns = {in_leg(0, -1), in_leg(1, -1), in_leg(2, -1), out_leg(0, -1)};
  if (norm_tools::gives_parameters(sample)) columns.insert(columns.end(), {out_leg(1, -1), out_leg(2, -1)});
  return norm_tools::symmetries(sample, sample.in[0].rank() - 1, "rows, axis", {0, 2}, "columns", std::move(columns),
                                norm_tools::Mixed::along);
}

} // namespace

constinit const OpDef layer_norm_backward_op = row({
    .name = "layer_norm_backward",
    .math = "dx = rstd (gh - mean(gh) - xh mean(gh xh)), dgamma = sum_rows g xh, dbeta = sum_rows g; "
            "gh = g gamma, xh = (x - mean(x)) rstd",
    .inputs = {{"x"}, {"gamma", true}, {"g"}},
    .outputs = {"dx", "dgamma", "dbeta"},
    .attributes = {attr_real("eps", 1e-5, "added to the variance"),
                   attr_bool("parameters", true, "give dgamma and dbeta; otherwise they are empty")},
    .infer = infer,
    .cpu = kernel,
    .exact = exact_kernel,
    .cuda = [](const OpArgs& args, std::span<Tensor> out) { norm_tools::backward_on_device(args, true, out); },
    .saves = saves::in(0) | saves::in(1) | saves::in(2),
    .vjp = rule,
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = elementwise_work<16>,
});

} // namespace eg
