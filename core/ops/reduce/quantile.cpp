// Rows of median and quantile: the values in order, and a place among them.

#include "core/ops/list.h"
#include "core/ops/reduce/groups.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg {
namespace {

using namespace reduce;

double level_of(const OpArgs& args) { return args.attrs.has("q") ? args.attrs.real("q") : 0.5; }

std::vector<TensorSpec> infer(const OpArgs& args) {
  const double q = level_of(args);
  if (!(q >= 0.0 && q <= 1.0)) throw ValueError(fmt::format("{}: q is {}; it must be in [0, 1]", args.op.name, q));
  std::vector<TensorSpec> out = infer_floating(args);
  if (reduced_count(args.in[0].shape(), axes_attribute(args)) == 0)
    throw ShapeError(
        fmt::format("{}: the reduced axes have no elements: x is {}", args.op.name, args.in[0].shape().str()));
  return out;
}

/// The place q (n - 1) between two neighbours.
struct Place {
  std::int64_t below, above;
  double weight; ///< of the one above
};
Place place_of(double q, std::int64_t n) {
  const double place = q * static_cast<double>(n - 1);
  const auto below = static_cast<std::int64_t>(std::floor(place));
  return {below, std::min(below + 1, n - 1), place - std::floor(place)};
}

/// (1 - w) a + w b. Where b - a is finite, as a + w (b - a), which of equal neighbours is their value; elsewhere by two
/// products, since b - a is infinite between large numbers of both signs and NaN between equal infinities.
Tensor between(const Tensor& a, const Tensor& b, double weight) {
  const Tensor near = [&] {
    const PauseRecording pause;
    return isfinite(b - a);
  }();
  return where(near, lerp_scalar(a, b, weight), a * (1.0 - weight) + b * weight);
}

/// The reduced axes joined into a last one.
Tensor lines_of(const OpArgs& args, std::int64_t n) {
  const Tensor& x = args.in[0];
  const Reduced reduced = axes_attribute(args);
  std::vector<std::int64_t> order;
  for (const bool gone : {false, true})
    for (int axis = 0; axis < x.rank(); ++axis)
      if (reduced[static_cast<std::size_t>(axis)] == gone) order.push_back(axis);
  Shape shape = reduced_shape(x.shape(), reduced, false);
  shape.push_back(n);
  return reshape(permute_axes(x, order), shape);
}

std::vector<Tensor> body(const OpArgs& args) {
  const std::int64_t n = reduced_count(args.in[0].shape(), axes_attribute(args));
  const Tensor line = sort(lines_of(args, n), -1).values;
  const auto at = [&](std::int64_t place) { return slice(line, -1, place, place + 1); };
  const Place place = place_of(level_of(args), n);
  Tensor y = at(place.below);
  if (place.weight > 0.0) y = between(y, at(place.above), place.weight);
  const Tensor nan = Tensor::full({}, std::numeric_limits<double>::quiet_NaN(), y.dtype());
  y = where(isnan(at(n - 1)), nan, y); // a NaN is last
  return {reshape(y, result_shape(args))};
}

std::vector<Tensor> reference(const OpArgs& args) {
  Tensor y = reference_output(result_shape(args));
  for_each_naive_group(args, [&](std::int64_t g, const std::vector<double>& x) {
    std::vector<double> line = x;
    std::sort(line.begin(), line.end());
    const Place place = place_of(level_of(args), static_cast<std::int64_t>(line.size()));
    const double below = line[static_cast<std::size_t>(place.below)];
    const double above = line[static_cast<std::size_t>(place.above)];
    values(y)[g] = below == above || place.weight == 0.0 ? below : (1 - place.weight) * below + place.weight * above;
  });
  return {y};
}

std::vector<Sample> median_samples(DType dtype) {
  std::vector<Sample> list = axes_samples(dtype, 1940);
  list.push_back({{sample_normal({3, 4}, dtype, 1955)}, {{"axes", std::vector<std::int64_t>{1}}}, "an even number"});
  return list;
}

std::vector<Sample> quantile_samples(DType dtype) {
  std::vector<Sample> list = axes_samples(dtype, 1960, {}, {{"q", 0.3}});
  for (const double q : {0.0, 1.0, 0.8125})
    list.push_back(
        {{sample_normal({4, 7}, dtype, 1975)}, {{"q", q}, {"axes", std::vector<std::int64_t>{-1}}}, "others"});
  return list;
}

std::vector<Refusal> median_refuses() {
  std::vector<Refusal> list = axes_refusals();
  list.push_back({{Tensor::zeros({2, 0})}, {}, "the reduced axes have no elements: x is [2, 0]"});
  return list;
}

std::vector<Refusal> quantile_refuses() {
  std::vector<Refusal> list = median_refuses();
  for (Refusal& refusal : list) refusal.attrs.set("q", 0.5);
  list.push_back({{Tensor::zeros({3})}, {{"q", 1.5}}, "q is 1.5; it must be in [0, 1]"});
  list.push_back({{Tensor::zeros({3})}, {{"q", std::nan("")}}, "it must be in [0, 1]"});
  list.push_back({{Tensor::zeros({3})}, {}, "attribute 'q' must be given"});
  return list;
}

} // namespace

constinit const OpDef median_op = row({
    .name = "median",
    .math = "y = the middle one of x over the axes in order, of an even number the mean of the two; NaN beside NaN",
    .inputs = {{"x"}},
    .attributes = {axes_spec, keepdim_spec},
    .infer = infer,
    .body = body,
    .reference = reference,
    .samples = median_samples,
    .refuses = median_refuses,
    .symmetries = axes_symmetries,
    .least_extents = {{"reduced axis", 1, "no elements have no median"}},
    .work = group_work<10>,
});

constinit const OpDef quantile_op = row({
    .name = "quantile",
    .math = "y = the value at place q (n - 1) of the n x over the axes in order, linear between two; NaN beside NaN",
    .inputs = {{"x"}},
    .attributes = {required_attr("q", AttrKind::real, "which part of the values is below, in [0, 1]"), axes_spec,
                   keepdim_spec},
    .infer = infer,
    .body = body,
    .reference = reference,
    .samples = quantile_samples,
    .refuses = quantile_refuses,
    .symmetries = axes_symmetries,
    .least_extents = {{"reduced axis", 1, "no elements have no quantile"}},
    .work = group_work<10>,
});

Tensor median(const Tensor& x, const std::vector<std::int64_t>& axes, bool keepdim) {
  return call1(median_op, {x}, {{"axes", axes}, {"keepdim", keepdim}});
}

Tensor quantile(const Tensor& x, double q, const std::vector<std::int64_t>& axes, bool keepdim) {
  return call1(quantile_op, {x}, {{"q", q}, {"axes", axes}, {"keepdim", keepdim}});
}

} // namespace eg
