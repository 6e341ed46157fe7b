// Rows of amax and amin: over several axes, the gradient shared evenly among equals.

#include "core/ops/list.h"
#include "core/ops/reduce/groups.h"
#include "core/ops/reduce/on_device.h"
#include "core/ops/reduce/rows.h"
#include "core/ops/reduce/whole.h"

#include <fmt/format.h>

namespace eg {
namespace {

using namespace reduce;

std::vector<TensorSpec> infer(const OpArgs& args) {
  check_number(args, 0);
  const Shape& shape = args.in[0].shape();
  const Shape out = result_shape(args);
  if (reduced_count(shape, axes_attribute(args)) == 0)
    throw ShapeError(fmt::format("{}: the reduced axes have no elements: x is {}", args.op.name, shape.str()));
  return {{out, args.in[0].dtype()}};
}

/// Rows that are compared in one go, whatever the number of threads.
constexpr std::int64_t rows_at_once = 256;
constexpr std::int64_t columns_at_once = 512;

/// Of columns, rows being cut so that few columns keep all threads busy: the best of each cut, then of those.
template <class T> void extremes_of_columns(const T* x, AxisSplit s, bool largest, T* y) {
  if (s.extent > rows_at_once) {
    const std::int64_t cuts = parallel::chunks(s.extent, rows_at_once);
    Tensor best = Tensor::empty({s.outer, cuts, s.inner}, dtype_of<T>);
    T* to = best.mutable_data<T>();
    for_each_block({s.outer * cuts, std::min(rows_at_once, s.extent), s.inner}, columns_at_once, sizeof(T),
                   [&](std::int64_t at, std::int64_t column, std::int64_t columns) {
                     const std::int64_t row = at % cuts * rows_at_once;
                     column_extremes(x + (at / cuts * s.extent + row) * s.inner + column,
                                     std::min(rows_at_once, s.extent - row), s.inner, columns, largest,
                                     to + at * s.inner + column);
                   });
    return extremes_of_columns<T>(to, {s.outer, cuts, s.inner}, largest, y);
  }
  for_each_block(s, columns_at_once, sizeof(T), [&](std::int64_t o, std::int64_t column, std::int64_t columns) {
    column_extremes(x + o * s.extent * s.inner + column, s.extent, s.inner, columns, largest, y + o * s.inner + column);
  });
}

template <bool largest> void extreme_cpu(const OpArgs& args, std::span<Tensor> out) {
  const std::optional<AxisSplit> split = split_of(args.in[0].shape(), axes_attribute(args));
  if (split && split->inner > 1 && is_floating(out[0].dtype()) && out[0].numel() > 0) {
    const Tensor x = packed(args.in[0]);
    return visit_floating(
        x.dtype(), [&]<class T>() { extremes_of_columns(x.data<T>(), *split, largest, out[0].mutable_data<T>()); });
  }
  const Groups groups = groups_of(args.in[0], axes_attribute(args));
  visit_number(out[0].dtype(), [&]<class T>() {
    T* y = out[0].mutable_data<T>();
    const auto extreme = [](const T* x, std::int64_t n) { return extreme_of(x, n, largest); };
    for_each_group<T>(groups,
                      [&](std::int64_t g, const T* x) { y[g] = of_pieces(x, groups.extent, extreme, extreme); });
  });
}

template <bool largest> void extreme_on_device(const OpArgs& args, std::span<Tensor> out) {
  if (is_whole(args.in[0].dtype())) return run_on_host(extreme_cpu<largest>, args, out);
  run_on_device(args.op.name, largest ? device::ReduceKind::largest : device::ReduceKind::smallest, args.in[0],
                axes_attribute(args), {out[0], {}, {}});
}

Gradients rule(const VjpArgs& args) {
  if (!args.wants(0)) return {Tensor()};
  return {mul(with_kept_axes(args, args.grad[0]),
              even_shares(args.in[0], with_kept_axes(args, args.out[0]), args.attrs.integers("axes"), false))};
}

template <bool largest> std::vector<Tensor> naive(const OpArgs& args) {
  Tensor y = reference_output(result_shape(args));
  for_each_naive_group(args, [&](std::int64_t g, const std::vector<double>& x) {
    double best = x[0];
    for (const double value : x) best = largest ? std::max(best, value) : std::min(best, value);
    values(y)[g] = best;
  });
  return {y};
}

std::vector<Sample> samples(DType dtype) {
  std::vector<Sample> list = axes_samples(dtype, 1100, {2.0, 0.0, false});
  const std::vector<Sample> whole = whole_axes_samples(1120);
  list.insert(list.end(), whole.begin(), whole.end());
  return list;
}

std::vector<Refusal> refuses() {
  std::vector<Refusal> list = axes_number_refusals();
  list.push_back({{Tensor::zeros({2, 0})}, {}, "the reduced axes have no elements: x is [2, 0]"});
  return list;
}

consteval OpDef extreme_row(std::string_view name, std::string_view math, KernelFn cpu, KernelFn cuda,
                            ReferenceFn reference) {
  return row({.name = name,
              .math = math,
              .inputs = {{"x"}},
              .attributes = {axes_spec, keepdim_spec},
              .infer = infer,
              .cpu = cpu,
              .cuda = cuda,
              .saves = saves::in(0) | saves::out(0),
              .vjp = rule,
              .reference = reference,
              .samples = samples,
              .refuses = refuses,
              .symmetries = axes_symmetries,
              .least_extents = {{"reduced axis", 1, "no elements have no extreme"}},
              .work = group_work<1>});
}

} // namespace

constinit const OpDef amax_op = extreme_row("amax", "y = largest of x over the axes; equals share the gradient",
                                            extreme_cpu<true>, extreme_on_device<true>, naive<true>);
constinit const OpDef amin_op = extreme_row("amin", "y = smallest of x over the axes; equals share the gradient",
                                            extreme_cpu<false>, extreme_on_device<false>, naive<false>);

Tensor amax(const Tensor& x, const std::vector<std::int64_t>& axes, bool keepdim) {
  return call1(amax_op, {x}, {{"axes", axes}, {"keepdim", keepdim}});
}

Tensor amin(const Tensor& x, const std::vector<std::int64_t>& axes, bool keepdim) {
  return call1(amin_op, {x}, {{"axes", axes}, {"keepdim", keepdim}});
}

} // namespace eg
