// Rows of sum, mean and sum_to.

#include "core/exact/exact.h"
#include "core/ops/list.h"
#include "core/ops/reduce/axes.h"
#include "core/ops/reduce/kernels.h"
#include "core/ops/reduce/on_device.h"
#include "core/ops/reduce/whole.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace eg {
namespace {

using reduce::Reduced;

/// Neighbouring axes that are both reduced or both kept are one; each reduced group is summed by one pass, last first.
template <class T> void sum_groups(const Tensor& x, const Reduced& reduced, double factor, Tensor& y) {
  Shape groups;
  std::vector<bool> gone;
  std::vector<int> first; // axis of `held` at which the group begins
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool r = reduced[static_cast<std::size_t>(axis)];
    if (x.shape()[axis] == 1) continue;
    if (!gone.empty() && gone.back() == r) {
      groups[-1] *= x.shape()[axis];
    } else {
      groups.push_back(x.shape()[axis]);
      gone.push_back(r);
      first.push_back(axis);
    }
  }
  first.push_back(x.rank());
  auto passes = std::count(gone.begin(), gone.end(), true);
  // Where there is nothing to add up, the copy is scaled.
  if (passes == 0) return reduce::sum_axes(packed(x), x.rank(), x.rank(), factor, y.mutable_data<T>());
  Tensor held = x;
  for (int g = groups.rank() - 1; g >= 0; --g) {
    const auto at = static_cast<std::size_t>(g);
    if (!gone[at]) continue;
    groups[g] = 1;
    const bool last = --passes == 0;
    Tensor target = last ? y : Tensor::empty(groups, x.dtype());
    reduce::sum_axes(held, first[at], first[at + 1], last ? factor : 1.0, target.mutable_data<T>());
    held = target;
    std::iota(first.begin(), first.end(), 0);
  }
}

void run_sum(const Tensor& x, const Reduced& reduced, double factor, Tensor& y) {
  if (y.numel() == 0) return;
  visit_floating(x.dtype(), [&]<class T>() { sum_groups<T>(x, reduced, factor, y); });
}

/// One sum over all reduced axes at once. Leading axes are summed in place; others are brought to the end first.
void run_exact_sum(const Tensor& x, const Reduced& reduced, double factor, Tensor& y) {
  if (y.numel() == 0) return;
  std::vector<std::int64_t> order;
  std::int64_t count = 1;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (!reduced[static_cast<std::size_t>(axis)]) order.push_back(axis);
  const int reduced_axes = x.rank() - static_cast<int>(order.size());
  bool leading = true; // the reduced axes come first
  for (int axis = 0; axis < x.rank(); ++axis)
    if (reduced[static_cast<std::size_t>(axis)]) {
      leading = leading && axis < reduced_axes;
      order.push_back(axis);
      count *= x.shape()[axis];
    }
  visit_floating(x.dtype(), [&]<class T>() {
    const Tensor held = packed(leading ? x : permute_axes(x, order));
    const std::int64_t kept = y.numel();
    exact::sum_axis(held.data<T>(), leading ? 1 : kept, count, leading ? kept : 1, factor, y.mutable_data<T>());
  });
}

// --- sum and mean ---

Reduced axes_of(const OpArgs& args) {
  return reduce::reduced_axes(args.op.name, args.attrs.integers("axes"), args.in[0].shape());
}

/// of_whole: the type of the result for whole numbers.
template <DType of_whole> std::vector<TensorSpec> infer_reduction(const OpArgs& args) {
  check_number(args, 0);
  const DType dtype = args.in[0].dtype();
  return {{reduce::reduced_shape(args.in[0].shape(), axes_of(args), args.attrs.flag("keepdim")),
           is_whole(dtype) ? of_whole : dtype}};
}

double mean_factor(const OpArgs& args) {
  return 1.0 / static_cast<double>(reduce::reduced_count(args.in[0].shape(), axes_of(args)));
}

/// The mean, by run_sum or run_exact_sum. A sum that leaves the type is taken again of elements divided by a power of
/// two above their number.
template <void run(const Tensor&, const Reduced&, double, Tensor&)>
void mean_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Tensor& x = args.in[0];
  const Reduced reduced = axes_of(args);
  const std::int64_t count = reduce::reduced_count(x.shape(), reduced);
  run(x, reduced, mean_factor(args), out[0]);
  if (count == 0) return;
  visit_floating(x.dtype(), [&]<class T>() {
    T* const y = out[0].mutable_data<T>();
    const std::int64_t n = out[0].numel();
    bool left = false; // without branches: there may be as many means as a tenth of the elements
    for (std::int64_t i = 0; i < n; ++i) left |= !(std::abs(y[i]) <= std::numeric_limits<T>::max());
    if (!left) return;
    const int exponent = std::ilogb(static_cast<double>(count)) + 1;
    Tensor scaled = Tensor::empty(out[0].shape(), x.dtype());
    run(affine(x, std::ldexp(1.0, -exponent), 0.0), reduced, std::ldexp(mean_factor(args), exponent), scaled);
    const T* const again = scaled.data<T>();
    for (std::int64_t i = 0; i < n; ++i)
      if (!std::isfinite(y[i])) y[i] = again[i];
  });
}

void sum_on_device(const OpArgs& args, const Reduced& reduced, Tensor& y) {
  reduce::run_on_device(args.op.name, device::ReduceKind::sum, args.in[0], reduced, {y, {}, {}});
}

void mean_on_device(const OpArgs& args, std::span<Tensor> out) {
  const Reduced reduced = axes_of(args);
  const std::int64_t count = reduce::reduced_count(args.in[0].shape(), reduced);
  const int exponent = count > 0 ? std::ilogb(static_cast<double>(count)) + 1 : 0;
  reduce::run_on_device("mean", device::ReduceKind::mean, args.in[0], reduced, {out[0], {}, {}},
                        {.factor = mean_factor(args), .small = std::ldexp(1.0, -exponent)});
}

/// The gradient of every summed element is that of the sum.
Tensor spread(const VjpArgs& args, const Tensor& g) {
  const Shape& shape = args.in[0].shape();
  return expand(reshape(g, reduce::reduced_shape(shape, axes_of(args), true)), shape);
}

/// sum over the reduced axes by walking all elements; the output's place follows from strides that are 0 there.
Tensor naive_sum(const Tensor& any, const Reduced& reduced, const Shape& out) {
  const Shape kept = reduce::reduced_shape(any.shape(), reduced, true);
  Shape strides = contiguous_strides(kept);
  for (int axis = 0; axis < any.rank(); ++axis)
    if (reduced[static_cast<std::size_t>(axis)]) strides[axis] = 0;
  Tensor y = reference_output(out);
  const Tensor x = as_type(any, DType::f64);
  for_each_offset2(x.shape(), x.strides(), strides,
                   [&](std::int64_t i, std::int64_t j) { values(y)[j] += values(x)[i]; });
  return y;
}

std::vector<Sample> reduction_samples(DType dtype) {
  const auto axes = [](std::vector<std::int64_t> list, bool keepdim = false) {
    return Attrs{{"axes", std::move(list)}, {"keepdim", keepdim}};
  };
  const auto x = [&](const Shape& shape, std::uint64_t tag) {
    return sample_normal(shape, dtype, 100 + tag, 1.2, 0.3);
  };
  return {{{x({3, 5}, 1)}, {}, "all"},
          {{x({3, 33}, 2)}, axes({-1}), "last axis"},
          {{x({65, 7}, 3)}, axes({0}), "first axis: column sums"},
          {{x({3, 4, 5}, 4)}, axes({1}, true), "middle axis, kept as 1"},
          {{x({2, 3, 4, 5}, 5)}, axes({-1, 0}), "two axes apart"},
          {{x({2, 3, 4, 5}, 6)}, axes({0, 2}, true), "two axes, column sums twice"},
          {{scattered(x({5, 6}, 7))}, axes({0}), "strided"},
          {{x({4, 1}, 8).expand({4, 3})}, axes({1}), "expanded"},
          {{x({2, 1, 3}, 9)}, axes({1}), "axis of one element"},
          {{x({}, 10)}, {}, "scalar"},
          {{x({3, 0}, 11)}, axes({0}), "empty result"}};
}

std::vector<Sample> sum_samples(DType dtype) {
  std::vector<Sample> samples = reduction_samples(dtype);
  samples.push_back({{Tensor::zeros({0, 3}, dtype)}, {{"axes", std::vector<std::int64_t>{0}}}, "sum of nothing: 0"});
  const std::vector<Sample> whole = reduce::whole_axes_samples(120);
  samples.insert(samples.end(), whole.begin(), whole.end());
  return samples;
}

/// Groups of 8 and 4 elements, whose means f32 holds.
std::vector<Sample> mean_samples(DType dtype) {
  std::vector<Sample> samples = reduction_samples(dtype);
  const std::vector<Sample> whole = reduce::whole_axes_samples(120);
  samples.insert(samples.end(), whole.begin(), whole.end());
  return samples;
}

/// The kernel for floating x, or the one for whole x.
template <KernelFn floating, KernelFn whole> void by_type(const OpArgs& args, std::span<Tensor> out) {
  is_whole(args.in[0].dtype()) ? whole(args, out) : floating(args, out);
}
template <KernelFn floating, KernelFn whole> void by_type_on_device(const OpArgs& args, std::span<Tensor> out) {
  is_whole(args.in[0].dtype()) ? run_on_host(whole, args, out) : floating(args, out);
}

void sum_cpu(const OpArgs& args, std::span<Tensor> out) { run_sum(args.in[0], axes_of(args), 1.0, out[0]); }
void sum_exact(const OpArgs& args, std::span<Tensor> out) { run_exact_sum(args.in[0], axes_of(args), 1.0, out[0]); }
void sum_cuda(const OpArgs& args, std::span<Tensor> out) { sum_on_device(args, axes_of(args), out[0]); }

std::vector<Refusal> reduction_refusals() {
  const Tensor x = Tensor::zeros({2, 3});
  return {{{Tensor::zeros({2, 3}, DType::bf16)}, {}, "x must be f32, f64, i64, u8 or bool, it is bf16"},
          {{x}, {{"axes", std::vector<std::int64_t>{2}}}, "axis 2 is outside"},
          {{x}, {{"axes", std::vector<std::int64_t>{1, -1}}}, "axis -1 is named twice"},
          {{x}, {{"axes", std::int64_t{1}}}, "must be a list of integers"}};
}

std::vector<Symmetry> axes_symmetries(const Sample& sample) {
  const Shape& shape = sample.in[0].shape();
  const std::vector<std::int64_t> axes =
      sample.attrs.has("axes") ? sample.attrs.integers("axes") : std::vector<std::int64_t>{};
  const bool keepdim = sample.attrs.has("keepdim") && sample.attrs.flag("keepdim");
  return reduce::reduction_symmetries(shape, reduce::reduced_axes("sum", axes, shape), keepdim);
}

Work reduction_work(const OpArgs& args, std::span<const TensorSpec> out) {
  return {static_cast<double>(args.in[0].numel()), bytes_moved(args, out)};
}

// --- sum_to ---

Shape target_of(const Attrs& attrs) { return Shape(std::span<const std::int64_t>(attrs.integers("shape"))); }

std::vector<TensorSpec> infer_sum_to(const OpArgs& args) {
  check_floating(args, 0);
  const Shape target = target_of(args.attrs);
  for (const std::int64_t extent : target)
    if (extent < 0) throw ShapeError("sum_to: shape has a negative extent: " + target.str());
  reduce::summed_axes("sum_to", args.in[0].shape(), target);
  return {{target, args.in[0].dtype()}};
}

Reduced summed_axes_of(const OpArgs& args) {
  return reduce::summed_axes("sum_to", args.in[0].shape(), target_of(args.attrs));
}

std::vector<Sample> sum_to_samples(DType dtype) {
  const auto shape = [](std::vector<std::int64_t> extents) { return Attrs{{"shape", std::move(extents)}}; };
  const auto x = [&](const Shape& s, std::uint64_t tag) { return sample_normal(s, dtype, 200 + tag, 1.2, 0.3); };
  return {{{x({3, 4, 5}, 1)}, shape({5}), "leading axes"},   {{x({3, 4, 5}, 2)}, shape({4, 1}), "leading and last"},
          {{x({3, 4, 5}, 3)}, shape({3, 1, 5}), "middle"},   {{x({3, 4}, 4)}, shape({}), "to a scalar"},
          {{x({3, 4}, 5)}, shape({3, 4}), "nothing to sum"}, {{scattered(x({6, 7}, 6))}, shape({7}), "strided"},
          {{x({33}, 7)}, shape({1}), "one element"},         {{x({0, 4}, 8)}, shape({4}), "sum of nothing: 0"}};
}

std::vector<Refusal> sum_to_refusals() {
  const auto shape = [](std::vector<std::int64_t> extents) { return Attrs{{"shape", std::move(extents)}}; };
  return {{{Tensor::zeros({2, 3}, DType::i64)}, shape({3}), "x must be f32 or f64, it is i64"},
          {{Tensor::zeros({2, 3})}, shape({2}), "x is [2, 3], shape is [2]"},
          {{Tensor::zeros({3})}, shape({1, 3}), "x is [3], shape is [1, 3]"},
          {{Tensor::zeros({3})}, {}, "attribute 'shape' must be given"}};
}

std::vector<Symmetry> sum_to_symmetries(const Sample& sample) {
  const Shape& shape = sample.in[0].shape();
  const Shape target = target_of(sample.attrs);
  std::vector<Symmetry> all = reduce::reduction_symmetries(shape, reduce::summed_axes("sum_to", shape, target), true);
  for (Symmetry& symmetry : all) // the output may have fewer axes: count from the end
    for (Leg& leg : symmetry.legs) leg.axis -= shape.rank();
  return all;
}

constexpr AttrSpec axes_attr = attr_ints("axes", "axes to reduce, negative ones count from the end; empty: all");
constexpr AttrSpec keepdim_attr = attr_bool("keepdim", false, "reduced axes stay, with extent 1");

} // namespace

constinit const OpDef sum_op = row({
    .name = "sum",
    .math = "y = sum of x over the axes",
    .inputs = {{"x"}},
    .attributes = {axes_attr, keepdim_attr},
    .infer = infer_reduction<DType::i64>,
    .cpu = by_type<sum_cpu, reduce::whole_sum>,
    .exact = by_type<sum_exact, reduce::whole_sum>,
    .cuda = by_type_on_device<sum_cuda, reduce::whole_sum>,
    .vjp = [](const VjpArgs& args) -> Gradients {
      if (!args.wants(0)) return {Tensor()};
      return {spread(args, args.grad[0])};
    },
    .reference = [](const OpArgs& args) -> std::vector<Tensor> {
      const Shape out = reduce::reduced_shape(args.in[0].shape(), axes_of(args), args.attrs.flag("keepdim"));
      return {naive_sum(args.in[0], axes_of(args), out)};
    },
    .samples = sum_samples,
    .refuses = reduction_refusals,
    .symmetries = axes_symmetries,
    .work = reduction_work,
});

constinit const OpDef mean_op = row({
    .name = "mean",
    .math = "y = (sum of x over the axes) / (number of summed elements)",
    .inputs = {{"x"}},
    .attributes = {axes_attr, keepdim_attr},
    .infer = infer_reduction<DType::f32>,
    .cpu = by_type<mean_kernel<run_sum>, reduce::whole_mean>,
    .exact = by_type<mean_kernel<run_exact_sum>, reduce::whole_mean>,
    .cuda = by_type_on_device<mean_on_device, reduce::whole_mean>,
    .vjp = [](const VjpArgs& args) -> Gradients {
      if (!args.wants(0)) return {Tensor()};
      return {spread(args, affine(args.grad[0], mean_factor(args), 0.0))};
    },
    .reference = [](const OpArgs& args) -> std::vector<Tensor> {
      const Shape out = reduce::reduced_shape(args.in[0].shape(), axes_of(args), args.attrs.flag("keepdim"));
      Tensor y = naive_sum(args.in[0], axes_of(args), out);
      const double count = 1.0 / mean_factor(args);
      for (std::int64_t i = 0; i < y.numel(); ++i) values(y)[i] /= count;
      return {y};
    },
    .samples = mean_samples,
    .refuses = reduction_refusals,
    .symmetries = axes_symmetries,
    .work = reduction_work,
});

constinit const OpDef sum_to_op = row({
    .name = "sum_to",
    .math = "y = sum of x over the axes along which `shape` would be broadcast to x",
    .inputs = {{"x"}},
    .attributes = {required_attr("shape", AttrKind::integers, "shape of the result; x is a broadcast of it")},
    .infer = infer_sum_to,
    .cpu = [](const OpArgs& args, std::span<Tensor> out) { run_sum(args.in[0], summed_axes_of(args), 1.0, out[0]); },
    .exact = [](const OpArgs& args,
                std::span<Tensor> out) { run_exact_sum(args.in[0], summed_axes_of(args), 1.0, out[0]); },
    .cuda = [](const OpArgs& args, std::span<Tensor> out) { sum_on_device(args, summed_axes_of(args), out[0]); },
    .vjp = [](const VjpArgs& args) -> Gradients {
      if (!args.wants(0)) return {Tensor()};
      return {expand(args.grad[0], args.in[0].shape())};
    },
    .reference = [](const OpArgs& args) -> std::vector<Tensor> {
      return {naive_sum(args.in[0], summed_axes_of(args), target_of(args.attrs))};
    },
    .samples = sum_to_samples,
    .refuses = sum_to_refusals,
    .symmetries = sum_to_symmetries,
    .least_extents = {{"kept axis", 2, "the attribute gives the extents"}},
    .work = reduction_work,
});

Tensor sum(const Tensor& x, const std::vector<std::int64_t>& axes, bool keepdim) {
  return call1(sum_op, {x}, {{"axes", axes}, {"keepdim", keepdim}});
}

Tensor mean(const Tensor& x, const std::vector<std::int64_t>& axes, bool keepdim) {
  return call1(mean_op, {x}, {{"axes", axes}, {"keepdim", keepdim}});
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  return call1(sum_to_op, {x}, {{"shape", std::vector<std::int64_t>(shape.begin(), shape.end())}});
}

} // namespace eg
