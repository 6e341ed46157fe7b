#include "core/ops/loss/parts.h"

#include "core/device/module.h"
#include "core/ops/list.h"
#include "core/ops/loss/huber_kernels.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg {
namespace loss_parts {

void check_reduction(const OpArgs& args, bool batchmean) {
  const std::string& word = args.attrs.text("reduction");
  if (word == "mean" || word == "sum" || word == "none" || (batchmean && word == "batchmean")) return;
  throw ValueError(fmt::format("{}: reduction must be mean, sum{} or none, it is '{}'", args.op.name,
                               batchmean ? ", batchmean" : "", word));
}

Shape reduced_shape(const OpArgs& args, const Shape& losses) {
  return args.attrs.text("reduction") == "none" ? losses : Shape{};
}

bool left_the_type(const Tensor& loss) { return loss.has_storage() && !std::isfinite(loss.item()); }

Tensor reduced(const OpArgs& args, const Tensor& losses) {
  const std::string& word = args.attrs.text("reduction");
  if (word == "none") return losses;
  if (word == "sum" || losses.numel() == 0) return sum(losses);
  if (word == "mean") return mean(losses);
  const double batch = static_cast<double>(losses.rank() > 0 ? losses.shape()[0] : 1);
  const Tensor total = sum(losses);
  if (!left_the_type(total)) return total / batch;
  return mean(losses) * (static_cast<double>(losses.numel()) / batch);
}

Tensor reduced_reference(const OpArgs& args, const Tensor& losses) {
  const std::string& word = args.attrs.text("reduction");
  if (word == "none") return losses;
  Tensor total = reference_output({});
  for (std::int64_t i = 0; i < losses.numel(); ++i) *values(total) += values(losses)[i];
  if (losses.numel() == 0) return total;
  if (word == "mean") *values(total) /= static_cast<double>(losses.numel());
  if (word == "batchmean") *values(total) /= static_cast<double>(losses.rank() > 0 ? losses.shape()[0] : 1);
  return total;
}

void check_broadcasts(const OpArgs& args, std::size_t i, const Shape& shape) {
  if (!args.given(i)) return;
  const Shape& own = args.in[i].shape();
  bool fits = own.rank() <= shape.rank();
  for (int back = 1; fits && back <= own.rank(); ++back) fits = own[-back] == 1 || own[-back] == shape[-back];
  if (!fits)
    throw ShapeError(fmt::format("{}: {} must broadcast to {}, it is {}", args.op.name, args.op.inputs[i].name,
                                 shape.str(), own.str()));
}

} // namespace loss_parts

namespace {

double beta_of(const OpArgs& args) { return args.op.attributes.size() > 0 ? args.attrs.real("beta") : 0.0; }

template <bool slope> void kernel(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]);
  const double beta = beta_of(args);
  visit_floating(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = out[0].mutable_data<T>(args.op.name.data());
    parallel::for_each(x.numel(), 8192, [&](std::int64_t begin, std::int64_t end) {
      if constexpr (slope)
        huber_slope_of(from + begin, to + begin, end - begin, beta);
      else
        huber_of(from + begin, to + begin, end - begin, beta);
    });
  });
}

template <bool slope> void huber_on_device(const OpArgs& args, std::span<Tensor> out) {
  if (out[0].numel() == 0) return;
  const Tensor x = packed(args.in[0]);
  const char* const name = args.op.name.data();
  const device::HuberJob job{slope,     x.dtype(),    x.device_bytes(), out[0].mutable_device_bytes(name),
                             x.numel(), beta_of(args)};
  device::launch(x.device(), name, &device::Table::huber, job);
}

template <double f(double, double)> std::vector<Tensor> reference(const OpArgs& args) {
  Tensor y = reference_output(args.in[0].shape());
  for (std::int64_t i = 0; i < y.numel(); ++i) values(y)[i] = f(values(args.in[0])[i], beta_of(args));
  return {y};
}

std::vector<TensorSpec> huber_infer(const OpArgs& args) {
  if (const double beta = args.attrs.real("beta"); !(beta >= 0.0))
    throw ValueError(fmt::format("{}: beta must not be negative, it is {}", args.op.name, beta));
  return same_shape_as_first(args);
}

/// Numbers away from 0 and from the kinks at 1 and 0.4.
Tensor off_kinks(const Shape& shape, DType dtype, std::uint64_t tag) {
  Tensor away = sample_off_zero(shape, DType::f64, 1700 + tag, 0.1).contiguous().clone();
  double* const x = values(away);
  for (std::int64_t i = 0; i < away.numel(); ++i)
    for (const double kink : {1.0, 0.4})
      if (std::abs(std::abs(x[i]) - kink) < 0.1) x[i] *= 1.5;
  return away.to(dtype);
}

std::vector<Sample> shapes(DType dtype, Tensor (*draw)(const Shape&, DType, std::uint64_t)) {
  return {{{draw({5, 7}, dtype, 1)}, {}, "matrix"},
          {{scattered(draw({4, 9}, dtype, 2))}, {}, "strided view"},
          {{draw({65}, dtype, 3)}, {}, "odd size"},
          {{draw({}, dtype, 4)}, {}, "scalar"},
          {{draw({0, 3}, dtype, 5)}, {}, "empty"}};
}

std::vector<Sample> huber_samples(DType dtype) {
  std::vector<Sample> all = shapes(dtype, off_kinks);
  all.push_back({{off_kinks({3, 5}, dtype, 6)}, {{"beta", 0.4}}, "another beta"});
  all.push_back({{off_kinks({3, 5}, dtype, 7)}, {{"beta", 0.0}}, "beta 0: the absolute value"});
  return all;
}

std::vector<Refusal> refuses() { return {{{Tensor::ones({3}, DType::i64)}, {}, "x must be f32 or f64, it is i64"}}; }

std::vector<Refusal> huber_refuses() {
  std::vector<Refusal> all = refuses();
  all.push_back({{Tensor::ones({3})}, {{"beta", -1.0}}, "beta must not be negative"});
  return all;
}

/// 1 / beta where |x| < beta, else 0: the second derivative, a constant between the kinks.
Tensor huber_curvature(const Tensor& x, double beta) {
  const PauseRecording pause;
  return where(lt(abs(x), beta), Tensor::full({}, beta > 0.0 ? 1.0 / beta : 0.0, x.dtype()),
               Tensor::zeros({}, x.dtype()));
}

constexpr AttrSpec beta_attr = attr_real("beta", 1.0, "where the parabola meets the lines");

} // namespace

constinit const OpDef huber_op = row({
    .name = "huber",
    .math = "y = x^2 / (2 beta) where |x| < beta, else |x| - beta / 2",
    .inputs = {{"x"}},
    .attributes = {beta_attr},
    .infer = huber_infer,
    .cpu = kernel<false>,
    .cuda = huber_on_device<false>,
    .cuda_same_bits = true,
    .saves = saves::in(0),
    .vjp = [](const VjpArgs& args) -> Gradients {
      if (!args.wants(0)) return {{}};
      return {args.grad[0] * huber_slope(args.in[0], args.attrs.real("beta"))};
    },
    .reference = reference<huber_of>,
    .samples = huber_samples,
    .refuses = huber_refuses,
    .symmetries = pointwise_symmetries,
    .work = elementwise_work<4>,
});

constinit const OpDef huber_slope_op = row({
    .name = "huber_slope",
    .math = "y = x / beta where |x| < beta, else the sign of x",
    .inputs = {{"x"}},
    .attributes = {beta_attr},
    .infer = huber_infer,
    .cpu = kernel<true>,
    .cuda = huber_on_device<true>,
    .cuda_same_bits = true,
    .saves = saves::in(0),
    .vjp = [](const VjpArgs& args) -> Gradients {
      if (!args.wants(0)) return {{}};
      return {args.grad[0] * huber_curvature(args.in[0], args.attrs.real("beta"))};
    },
    .reference = reference<huber_slope_of>,
    .samples = huber_samples,
    .refuses = huber_refuses,
    .symmetries = pointwise_symmetries,
    .work = elementwise_work<3>,
});

Tensor huber(const Tensor& x, double beta) { return call1(huber_op, {x}, {{"beta", beta}}); }
Tensor huber_slope(const Tensor& x, double beta) { return call1(huber_slope_op, {x}, {{"beta", beta}}); }

} // namespace eg
