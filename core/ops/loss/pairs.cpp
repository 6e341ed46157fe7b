// Losses of two tensors of one shape, element by element: mean squares, absolute values, Huber's, Kullback and
// Leibler's. They are compositions, in one pass where nothing records them.

#include "core/ops/list.h"
#include "core/ops/loss/huber_kernels.h"
#include "core/ops/loss/parts.h"
#include "core/ops/pointwise/kernels.h"
#include "core/ops/reduce/kernels.h"
#include "core/reduction.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <vector>

namespace eg {
namespace {

using namespace loss_parts;

std::vector<TensorSpec> infer(const OpArgs& args) {
  const auto specs = same_shape_everywhere(args);
  check_reduction(args);
  return {{reduced_shape(args, specs[0].shape), specs[0].dtype}};
}

/// infer with a real attribute that must not be negative (smooth_l1) or must be positive (huber).
std::vector<TensorSpec> infer_beta(const OpArgs& args) {
  if (const double beta = args.attrs.real("beta"); !(beta >= 0.0))
    throw ValueError(fmt::format("{}: beta must not be negative, it is {}", args.op.name, beta));
  return infer(args);
}

std::vector<TensorSpec> infer_delta(const OpArgs& args) {
  if (const double delta = args.attrs.real("delta"); !(delta > 0.0))
    throw ValueError(fmt::format("{}: delta must be positive, it is {}", args.op.name, delta));
  return infer(args);
}

std::vector<TensorSpec> infer_kl(const OpArgs& args) {
  const auto specs = same_shape_everywhere(args);
  check_reduction(args, true);
  return {{reduced_shape(args, specs[0].shape), specs[0].dtype}};
}

/// The mean or sum of f(x - t) in one pass, with the bits of reduced(). Nothing where the reduction is another, the sum
/// leaves the type, in exact mode, and where may_fuse() says no. f(d, n) replaces n elements of d.
template <class F> std::optional<Tensor> reduced_at_once(const OpArgs& args, F f) {
  constexpr std::int64_t block = reduce::row_block;
  const std::int64_t n = args.in[0].numel();
  const bool is_mean = args.attrs.text("reduction") == "mean";
  const bool adds = is_mean || args.attrs.text("reduction") == "sum";
  if (n == 0 || !adds || reduction() == Reduction::exact || !may_fuse(args.in)) return {};
  const Tensor x = packed(args.in[0]), t = packed(args.in[1]);
  Tensor loss = Tensor::empty({}, x.dtype());
  visit_floating(x.dtype(), [&]<class T>() {
    const auto minus = pointwise::kernel<T>(pointwise::Binary::sub);
    const T *const from = x.data<T>(), *const target = t.data<T>();
    std::vector<double> sums(static_cast<std::size_t>(parallel::chunks(n, reduce::row_piece)));
    parallel::for_each(n, reduce::row_piece, [&](std::int64_t begin, std::int64_t end) {
      T d[block];
      double sum = 0.0;
      for (std::int64_t i = begin; i < end; i += block) {
        const std::int64_t count = std::min(block, end - i);
        minus(from + i, target + i, d, count, pointwise::Steps::both);
        f(d, count);
        sum = reduce::row_sum(d, count, sum);
      }
      sums[static_cast<std::size_t>(begin / reduce::row_piece)] = sum;
    });
    const double total = reduce::row_sum(sums.data(), std::ssize(sums));
    *loss.mutable_data<T>() = static_cast<T>((is_mean ? 1.0 / static_cast<double>(n) : 1.0) * total);
  });
  return left_the_type(loss) ? std::nullopt : std::optional(loss);
}

/// 1, or where squares of finite d leave the type the power of two that brings the largest below them.
double unit_of_squares(const Tensor& d) {
  const PauseRecording pause;
  const double largest = amax(abs(d)).item();
  const int most = d.dtype() == DType::f32 ? 62 : 510;
  return std::isfinite(largest) && std::ilogb(largest) > most ? std::ldexp(1.0, std::ilogb(largest) - most) : 1.0;
}

/// Of squares that leave the type the mean may still be in its range.
std::vector<Tensor> mse_body(const OpArgs& args) {
  const auto squares = []<class T>(T* d, std::int64_t n) {
    pointwise::kernel<T>(pointwise::Unary::square)(d, d, n, nullptr);
  };
  if (const auto loss = reduced_at_once(args, squares)) return {*loss};
  const Tensor d = args.in[0] - args.in[1];
  const Tensor loss = reduced(args, d * d);
  if (args.attrs.text("reduction") != "mean" || d.numel() == 0 || !left_the_type(loss)) return {loss};
  const double unit = unit_of_squares(d);
  if (unit == 1.0) return {loss};
  const Tensor scaled = d * (1.0 / unit);
  return {reduced(args, scaled * scaled) * unit * unit};
}
/// factor times Huber's function of the differences, reduced.
std::vector<Tensor> huber_losses(const OpArgs& args, double beta, double factor = 1.0) {
  if (factor == 1.0)
    if (const auto loss = reduced_at_once(args, [beta](auto* d, std::int64_t n) { eg::huber_of(d, d, n, beta); }))
      return {*loss};
  const Tensor losses = huber(args.in[0] - args.in[1], beta);
  return {reduced(args, factor == 1.0 ? losses : losses * factor)};
}
std::vector<Tensor> l1_body(const OpArgs& args) { return huber_losses(args, 0.0); }
std::vector<Tensor> smooth_l1_body(const OpArgs& args) { return huber_losses(args, args.attrs.real("beta")); }
std::vector<Tensor> huber_body(const OpArgs& args) {
  const double delta = args.attrs.real("delta");
  return huber_losses(args, delta, delta);
}
std::vector<Tensor> kl_body(const OpArgs& args) {
  const Tensor &x = args.in[0], &t = args.in[1];
  return {reduced(args, args.attrs.flag("log_target") ? exp(t) * (t - x) : xlogx(t) - t * x)};
}

/// Reference of a loss whose element is f(x, t, args).
template <double f(double, double, const OpArgs&)> std::vector<Tensor> reference(const OpArgs& args) {
  Tensor losses = reference_output(args.in[0].shape());
  for (std::int64_t i = 0; i < losses.numel(); ++i)
    values(losses)[i] = f(values(args.in[0])[i], values(args.in[1])[i], args);
  return {reduced_reference(args, losses)};
}

double smooth(double d, double beta) { return std::abs(d) < beta ? 0.5 * d * d / beta : std::abs(d) - 0.5 * beta; }
double mse_of(double x, double t, const OpArgs&) { return (x - t) * (x - t); }
double l1_of(double x, double t, const OpArgs&) { return std::abs(x - t); }
double smooth_l1_of(double x, double t, const OpArgs& args) { return smooth(x - t, args.attrs.real("beta")); }
double huber_of(double x, double t, const OpArgs& args) {
  return smooth(x - t, args.attrs.real("delta")) * args.attrs.real("delta");
}
double kl_of(double x, double t, const OpArgs& args) {
  return args.attrs.flag("log_target") ? std::exp(t) * (t - x) : t * (std::log(t) - x);
}

/// An input and a target whose difference keeps away from 0, 0.4 and 1 in size.
std::vector<Tensor> pair(const Shape& shape, DType dtype, std::uint64_t tag) {
  const Tensor target = sample_normal(shape, DType::f64, 1800 + tag);
  Tensor x = sample_off_zero(shape, DType::f64, 1820 + tag, 0.1).contiguous().clone();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    double& d = values(x)[i];
    for (const double kink : {1.0, 0.4})
      if (std::abs(std::abs(d) - kink) < 0.1) d *= 1.5;
    d += values(target)[i];
  }
  return {x.to(dtype), target.to(dtype)};
}

std::vector<Sample> samples(DType dtype) {
  std::vector<Sample> all = {{pair({5, 7}, dtype, 1), reducing("none"), "none"},
                             {pair({3, 33}, dtype, 2), {}, "mean"},
                             {pair({65}, dtype, 3), reducing("sum"), "sum"},
                             {pair({4, 6}, dtype, 4), reducing("none"), "strided views"},
                             {pair({}, dtype, 5), {}, "scalars"},
                             {pair({0, 4}, dtype, 6), {}, "nothing"}};
  for (Tensor& x : all[3].in) x = scattered(x);
  return all;
}

std::vector<Sample> with_real(DType dtype, const char* name) {
  std::vector<Sample> all = samples(dtype);
  for (const std::size_t i : {0U, 1U}) {
    all.push_back(all[i]);
    all.back().attrs.set(name, 0.4);
    all.back().note = i == 0 ? "none, another threshold" : "mean, another threshold";
  }
  return all;
}

std::vector<Sample> kl_samples(DType dtype) {
  std::vector<Sample> all;
  for (Sample& sample : samples(dtype)) {
    const bool strided = !sample.in[1].is_contiguous();
    sample.in[0] = log_softmax(sample.in[0].rank() > 0 ? sample.in[0] : sample.in[0].reshape({1}));
    // Probabilities far from 0, where t ln t bends too sharply for central differences.
    sample.in[1] = sample_uniform(sample.in[0].shape(), dtype, 1840 + all.size(), 0.2, 1.0);
    if (strided) sample.in[1] = scattered(sample.in[1]);
    all.push_back(sample);
  }
  for (const std::size_t i : {0U, 1U}) {
    Sample logs = all[i];
    logs.in[1] = log_softmax(logs.in[0] * 0.5);
    logs.attrs.set("log_target", true);
    logs.note = i == 0 ? "none, log targets" : "mean, log targets";
    all.push_back(std::move(logs));
  }
  all.push_back({all[1].in, reducing("batchmean"), "batchmean"});
  return all;
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::ones({4, 3});
  return {{{x, Tensor::ones({3})}, {}, "[4, 3]"},
          {{Tensor::ones({3}, DType::i64), Tensor::ones({3}, DType::i64)}, {}, "must be f32 or f64"},
          {{x, x}, reducing("median"), "reduction must be mean, sum"}};
}
template <bool positive> std::vector<Refusal> threshold_refuses() {
  std::vector<Refusal> all = refuses();
  const Tensor x = Tensor::ones({4, 3});
  if (positive)
    all.push_back({{x, x}, {{"delta", 0.0}}, "delta must be positive"});
  else
    all.push_back({{x, x}, {{"beta", -1.0}}, "beta must not be negative"});
  return all;
}

std::vector<Symmetry> symmetries(const Sample& sample) {
  const bool kept = sample.attrs.has("reduction") && sample.attrs.text("reduction") == "none";
  std::vector<Symmetry> all;
  for (int axis = 0; axis < sample.in[0].rank(); ++axis) {
    if (sample.in[0].size(axis) < 2) continue;
    Symmetry symmetry{fmt::format("axis {}", axis), {in_leg(0, axis), in_leg(1, axis)}};
    if (kept) symmetry.legs.push_back(out_leg(0, axis));
    all.push_back(std::move(symmetry));
  }
  return all;
}

Work work(const OpArgs& args, std::span<const TensorSpec> out) {
  return {6.0 * static_cast<double>(args.in[0].numel()), bytes_moved(args, out)};
}

} // namespace

constinit const OpDef mse_loss_op = row({
    .name = "mse_loss",
    .math = "loss = (x - t)^2, reduced",
    .inputs = {{"input"}, {"target"}},
    .outputs = {"loss"},
    .attributes = {reduction_attr},
    .infer = infer,
    .body = mse_body,
    .reference = reference<mse_of>,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = work,
});

constinit const OpDef l1_loss_op = row({
    .name = "l1_loss",
    .math = "loss = |x - t|, reduced",
    .inputs = {{"input"}, {"target"}},
    .outputs = {"loss"},
    .attributes = {reduction_attr},
    .infer = infer,
    .body = l1_body,
    .reference = reference<l1_of>,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = work,
});

constinit const OpDef smooth_l1_loss_op = row({
    .name = "smooth_l1_loss",
    .math = "loss = d^2 / (2 beta) where |d| < beta, else |d| - beta / 2, d = x - t, reduced",
    .inputs = {{"input"}, {"target"}},
    .outputs = {"loss"},
    .attributes = {reduction_attr, attr_real("beta", 1.0, "where the parabola ends; 0 gives l1_loss")},
    .infer = infer_beta,
    .body = smooth_l1_body,
    .reference = reference<smooth_l1_of>,
    .samples = [](DType dtype) { return with_real(dtype, "beta"); },
    .refuses = threshold_refuses<false>,
    .symmetries = symmetries,
    .work = work,
});

constinit const OpDef huber_loss_op = row({
    .name = "huber_loss",
    .math = "loss = d^2 / 2 where |d| < delta, else delta (|d| - delta / 2), d = x - t, reduced",
    .inputs = {{"input"}, {"target"}},
    .outputs = {"loss"},
    .attributes = {reduction_attr, attr_real("delta", 1.0, "where the parabola ends")},
    .infer = infer_delta,
    .body = huber_body,
    .reference = reference<huber_of>,
    .samples = [](DType dtype) { return with_real(dtype, "delta"); },
    .refuses = threshold_refuses<true>,
    .symmetries = symmetries,
    .work = work,
});

constinit const OpDef kl_div_op = row({
    .name = "kl_div",
    .math = "loss = t (ln t - x), or e^t (t - x) for log targets, x the logarithms of probabilities, reduced",
    .inputs = {{"input"}, {"target"}},
    .outputs = {"loss"},
    .attributes = {attr_text("reduction", "mean", "mean, sum, batchmean (the sum over the first extent) or none"),
                   attr_bool("log_target", false, "the targets are logarithms")},
    .infer = infer_kl,
    .body = kl_body,
    .reference = reference<kl_of>,
    .samples = kl_samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = work,
});

Tensor mse_loss(const Tensor& input, const Tensor& target, const char* reduction) {
  return call1(mse_loss_op, {input, target}, reducing(reduction));
}
Tensor l1_loss(const Tensor& input, const Tensor& target, const char* reduction) {
  return call1(l1_loss_op, {input, target}, reducing(reduction));
}
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, double beta, const char* reduction) {
  return call1(smooth_l1_loss_op, {input, target}, {{"beta", beta}, {"reduction", std::string(reduction)}});
}
Tensor huber_loss(const Tensor& input, const Tensor& target, double delta, const char* reduction) {
  return call1(huber_loss_op, {input, target}, {{"delta", delta}, {"reduction", std::string(reduction)}});
}
Tensor kl_div(const Tensor& input, const Tensor& target, bool log_target, const char* reduction) {
  return call1(kl_div_op, {input, target}, {{"log_target", log_target}, {"reduction", std::string(reduction)}});
}

} // namespace eg
