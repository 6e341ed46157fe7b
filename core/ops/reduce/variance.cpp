// Rows of center, var and std: two passes, so that a large mean costs no digits.

#include "core/device/axes.h"
#include "core/device/module.h"
#include "core/ops/list.h"
#include "core/ops/pointwise/broadcast.h"
#include "core/ops/reduce/groups.h"
#include "core/ops/reduce/on_device.h"

#include <fmt/format.h>

namespace eg {
namespace {

using namespace reduce;

template <class Adder, class T> double mean_of(const T* x, std::int64_t n) {
  const auto count = static_cast<double>(n);
  const double mean = Adder{}(n, [x](std::int64_t i) { return static_cast<double>(x[i]); }) / count;
  if (std::isfinite(mean)) return mean;
  return Adder{}(n, [x, count](std::int64_t i) { return static_cast<double>(x[i]) / count; }); // the sum overflowed
}

double divisor(const OpArgs& args) {
  const auto n = static_cast<double>(reduced_count(args.in[0].shape(), axes_attribute(args)));
  return std::max(0.0, n - args.attrs.real("correction"));
}

std::vector<TensorSpec> infer_variance(const OpArgs& args) {
  const double correction = args.attrs.real("correction");
  if (!std::isfinite(correction) || correction < 0)
    throw ValueError(fmt::format("{}: correction is {}; it must not be negative", args.op.name, correction));
  return infer_floating(args);
}

template <class Adder, bool root> void variance_cpu(const OpArgs& args, std::span<Tensor> out) {
  const Groups groups = groups_of(args.in[0], axes_attribute(args));
  const double by = divisor(args);
  visit_floating(out[0].dtype(), [&]<class T>() {
    T* y = out[0].mutable_data<T>();
    for_each_group<T>(groups, [&](std::int64_t g, const T* x) {
      const double mean = mean_of<Adder>(x, groups.extent);
      const auto deviation = [x, mean](std::int64_t i) { return static_cast<double>(x[i]) - mean; };
      const ScaledSquares squares = sum_of_squares<Adder>(groups.extent, deviation);
      const double scaled = squares.sum / by;
      y[g] = static_cast<T>(root ? squares.scale * std::sqrt(scaled) : squares.scale * squares.scale * scaled);
    });
  });
}

/// y_i = x_i - mean, rounded once.
template <class T> void shifted(const T* x, std::int64_t n, double mean, T* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(static_cast<double>(x[i]) - mean);
}

/// The same with one mean for each element.
template <class T> void shifted_each(const T* x, std::int64_t n, const double* means, T* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(static_cast<double>(x[i]) - means[i]);
}

/// Means first; then they are subtracted from the elements in place.
template <class Adder, class T> void center_scattered(const OpArgs& args, const Groups& groups, Tensor& out) {
  Tensor means = Tensor::empty(kept_shape(args), DType::f64);
  double* mean = means.mutable_data<double>();
  for_each_group<T>(groups, [&](std::int64_t g, const T* row) { mean[g] = mean_of<Adder>(row, groups.extent); });
  const Tensor x = packed(args.in[0]);
  T* y = out.mutable_data<T>();
  const auto loop = pointwise::broadcast_loop<2>({x, means}, x.shape());
  pointwise::for_each_piece(loop, [&](const std::array<std::int64_t, 2>& at, std::int64_t to, std::int64_t n) {
    if (loop.step(1) == 0)
      shifted(x.data<T>() + at[0], n, mean[at[1]], y + to);
    else
      shifted_each(x.data<T>() + at[0], n, mean + at[1], y + to);
  });
}

/// True when all reduced axes come after the kept ones (axes of one element do not count): groups are in x's order.
bool reduces_last_axes(const Shape& shape, const Reduced& reduced) {
  bool before = true;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    const bool gone = reduced[static_cast<std::size_t>(axis)];
    if (!gone && !before) return false;
    before = before && !gone;
  }
  return true;
}

template <class Adder> void center_cpu(const OpArgs& args, std::span<Tensor> out) {
  if (out[0].numel() == 0) return;
  const Reduced reduced = axes_attribute(args);
  const Groups groups = groups_of(args.in[0], reduced);
  visit_floating(out[0].dtype(), [&]<class T>() {
    if (!reduces_last_axes(args.in[0].shape(), reduced)) return center_scattered<Adder, T>(args, groups, out[0]);
    T* y = out[0].mutable_data<T>();
    for_each_group<T>(groups, [&](std::int64_t g, const T* row) { // while the row is in cache
      shifted(row, groups.extent, mean_of<Adder>(row, groups.extent), y + g * groups.extent);
    });
  });
}

template <bool root> void variance_on_device(const OpArgs& args, std::span<Tensor> out) {
  const Reduced reduced = axes_attribute(args);
  const Tensor means = means_on_device(args.op.name, args.in[0], reduced);
  run_on_device(args.op.name, root ? device::ReduceKind::deviation : device::ReduceKind::variance, args.in[0], reduced,
                {out[0], {}, {}}, {.factor = divisor(args)}, means);
}

void center_on_device(const OpArgs& args, std::span<Tensor> out) {
  Tensor& y = out[0];
  if (y.numel() == 0) return;
  const Tensor means = means_on_device("center", args.in[0], axes_attribute(args));
  const device::CenterJob job{y.dtype(), y.mutable_device_bytes(), args.in[0].device_bytes(),
                              reinterpret_cast<const double*>(means.device_bytes()),
                              device::broadcast_axes<2>(y, {&args.in[0], &means})};
  device::launch(y.device(), "center", &device::Table::center, job);
}

/// d var / d x = 2 (x - mean) / divisor.
Tensor variance_gradient(const VjpArgs& args, const Tensor& g) {
  const Tensor centred = center(args.in[0], args.attrs.integers("axes"));
  return mul(affine(with_kept_axes(args, g), 2.0 / divisor(args), 0.0), centred);
}

/// 1 where y is 0, else 0: no tape sees it.
Tensor is_zero(const Tensor& y) {
  const PauseRecording pause;
  return cast(eq(y, 0.0), y.dtype());
}

/// d std / d x = (x - mean) / (divisor std); 0 where std is 0.
Gradients std_rule(const VjpArgs& args) {
  if (!args.wants(0)) return {Tensor()};
  const Tensor zero = is_zero(args.out[0]);
  const Tensor inverse = div(affine(zero, -0.5, 0.5), add(args.out[0], zero)); // 1/(2 std), or 0
  return {variance_gradient(args, mul(args.grad[0], inverse))};
}

double naive_variance(const std::vector<double>& x, double correction) {
  double mean = 0;
  for (const double value : x) mean += value / static_cast<double>(x.size());
  double squares = 0;
  for (const double value : x) squares += (value - mean) * (value - mean);
  return squares / std::max(0.0, static_cast<double>(x.size()) - correction);
}

template <bool root> std::vector<Tensor> naive(const OpArgs& args) {
  Tensor y = reference_output(result_shape(args));
  for_each_naive_group(args, [&](std::int64_t g, const std::vector<double>& x) {
    const double variance = naive_variance(x, args.attrs.real("correction"));
    values(y)[g] = root ? std::sqrt(variance) : variance;
  });
  return {y};
}

std::vector<Sample> samples(DType dtype) {
  std::vector<Sample> list = axes_samples(dtype, 1200);
  for (const Sample& biased : axes_samples(dtype, 1220, {2.0, 5.0, false}, {{"correction", 0.0}}))
    list.push_back(biased);
  list.push_back({{sample_normal({4, 7}, dtype, 1240)},
                  {{"axes", std::vector<std::int64_t>{1}}, {"correction", 2.5}},
                  "a correction that is no integer"});
  return list;
}

std::vector<Refusal> refuses() {
  std::vector<Refusal> list = axes_refusals();
  list.push_back({{Tensor::zeros({2, 3})}, {{"correction", -1.0}}, "correction is -1; it must not be negative"});
  return list;
}

constexpr AttrSpec correction_spec =
    attr_real("correction", 1.0, "taken from the number of elements in the divisor: 1 unbiased, 0 biased");

} // namespace

constinit const OpDef var_op = row({
    .name = "var",
    .math = "y = sum of (x - mean)^2 over the axes / max(0, n - correction)",
    .inputs = {{"x"}},
    .attributes = {axes_spec, correction_spec, keepdim_spec},
    .infer = infer_variance,
    .cpu = variance_cpu<TreeAdder, false>,
    .exact = variance_cpu<ExactAdder, false>,
    .cuda = variance_on_device<false>,
    .saves = saves::in(0),
    .vjp = [](const VjpArgs& args) -> Gradients {
      if (!args.wants(0)) return {Tensor()};
      return {variance_gradient(args, args.grad[0])};
    },
    .rounding = {.mean = Rounding::Mean::in_f64},
    .reference = naive<false>,
    .samples = samples,
    .refuses = refuses,
    .symmetries = axes_symmetries,
    .work = group_work<4>,
});

constinit const OpDef std_op = row({
    .name = "std",
    .math = "y = sqrt(sum of (x - mean)^2 over the axes / max(0, n - correction))",
    .inputs = {{"x"}},
    .attributes = {axes_spec, correction_spec, keepdim_spec},
    .infer = infer_variance,
    .cpu = variance_cpu<TreeAdder, true>,
    .exact = variance_cpu<ExactAdder, true>,
    .cuda = variance_on_device<true>,
    .saves = saves::in(0) | saves::out(0),
    .vjp = std_rule,
    .rounding = {.mean = Rounding::Mean::in_f64},
    .reference = naive<true>,
    .samples = samples,
    .refuses = refuses,
    .symmetries = axes_symmetries,
    .work = group_work<4>,
});

constinit const OpDef center_op = row({
    .name = "center",
    .math = "y = x - (mean of x over the axes)",
    .inputs = {{"x"}},
    .attributes = {axes_spec},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      check_floating(args, 0);
      axes_attribute(args);
      return {{args.in[0].shape(), args.in[0].dtype()}};
    },
    .cpu = center_cpu<TreeAdder>,
    .exact = center_cpu<ExactAdder>,
    .cuda = center_on_device,
    .vjp = [](const VjpArgs& args) -> Gradients { // it is its own adjoint
      if (!args.wants(0)) return {Tensor()};
      return {center(args.grad[0], args.attrs.integers("axes"))};
    },
    .rounding = {.mean = Rounding::Mean::in_f64},
    .reference = [](const OpArgs& args) -> std::vector<Tensor> {
      Tensor means = reference_output(kept_shape(args));
      for_each_naive_group(args, [&](std::int64_t g, const std::vector<double>& x) {
        for (const double value : x) values(means)[g] += value / static_cast<double>(x.size());
      });
      const Tensor& x = args.in[0];
      Tensor y = reference_output(x.shape());
      for_each_offset2(x.shape(), x.strides(), expand(means, x.shape()).strides(),
                       [&](std::int64_t i, std::int64_t j) { values(y)[i] = values(x)[i] - values(means)[j]; });
      return {y};
    },
    .samples =
        [](DType dtype) {
          std::vector<Sample> list = axes_samples(dtype, 1260, {1.0, 2.0, false});
          for (Sample& s : list) s.attrs = s.attrs.has("axes") ? Attrs{{"axes", s.attrs.integers("axes")}} : Attrs{};
          return list;
        },
    .refuses = axes_refusals,
    .symmetries =
        [](const Sample& sample) {
          const Shape& shape = sample.in[0].shape();
          const std::vector<std::int64_t> axes =
              sample.attrs.has("axes") ? sample.attrs.integers("axes") : std::vector<std::int64_t>{};
          const Reduced reduced = reduced_axes("axes", axes, shape);
          std::vector<Symmetry> list;
          for (int axis = 0; axis < shape.rank(); ++axis)
            if (shape[axis] >= 2)
              list.push_back({fmt::format("axis {}", axis),
                              {in_leg(0, axis), out_leg(0, axis)},
                              {},
                              reduced[static_cast<std::size_t>(axis)]});
          return list;
        },
    .work = group_work<2>,
});

Tensor var(const Tensor& x, const std::vector<std::int64_t>& axes, double correction, bool keepdim) {
  return call1(var_op, {x}, {{"axes", axes}, {"correction", correction}, {"keepdim", keepdim}});
}

Tensor std_deviation(const Tensor& x, const std::vector<std::int64_t>& axes, double correction, bool keepdim) {
  return call1(std_op, {x}, {{"axes", axes}, {"correction", correction}, {"keepdim", keepdim}});
}

Tensor center(const Tensor& x, const std::vector<std::int64_t>& axes) {
  return call1(center_op, {x}, {{"axes", axes}});
}

} // namespace eg
