// Rows of logsumexp and its backward formula.

#include "core/exact/elementary.h"
#include "core/ops/list.h"
#include "core/ops/pointwise/ternary.h"
#include "core/ops/reduce/groups.h"
#include "core/ops/reduce/on_device.h"
#include "core/ops/reduce/rows.h"

#include <array>
#include <fmt/format.h>
#include <limits>

namespace eg {
namespace {

using namespace reduce;

/// Shifted by the largest, which is the result itself where it is infinite or NaN.
template <bool exact, class T> double log_sum_exp(const T* x, std::int64_t n) {
  if (n == 0) return -std::numeric_limits<double>::infinity();
  const auto largest_of = [](const T* from, std::int64_t count) { return row_extreme(from, count, true); };
  const auto largest = static_cast<double>(of_pieces(x, n, largest_of, largest_of));
  if (!std::isfinite(largest)) return largest;
  if constexpr (exact) {
    const auto term = [=](std::int64_t i) { return exact::exp(static_cast<double>(x[i]) - largest); };
    return largest + exact::log(ExactAdder{}(n, term));
  } else {
    const auto sum_of = [largest](const T* from, std::int64_t count) { return row_exp_sum(from, count, largest); };
    return largest + std::log(of_pieces(x, n, sum_of, added));
  }
}

/// The same of columns, which are read where they lie.
template <class T> void log_sum_exp_of_columns(const T* x, const AxisSplit& s, T* y) {
  constexpr std::int64_t width = 512;
  constexpr std::int64_t rows_at_once = 256; // so that the error grows with 256 and with the number of such blocks
  for_each_block(s, width, sizeof(T), [&](std::int64_t o, std::int64_t column, std::int64_t columns) {
    const T* const from = x + o * s.extent * s.inner + column;
    T* const to = y + o * s.inner + column;
    std::array<double, width> shifts, some;
    std::array<double, width> sums{};
    column_extremes(from, s.extent, s.inner, columns, true, to);
    for (std::int64_t c = 0; c < columns; ++c)
      shifts[static_cast<std::size_t>(c)] = std::isfinite(to[c]) ? static_cast<double>(to[c]) : 0.0;
    for (std::int64_t row = 0; row < s.extent; row += rows_at_once) {
      column_exp_sums(from + row * s.inner, std::min(rows_at_once, s.extent - row), s.inner, columns, shifts.data(),
                      some.data());
      for (std::int64_t c = 0; c < columns; ++c) sums[static_cast<std::size_t>(c)] += some[static_cast<std::size_t>(c)];
    }
    for (std::int64_t c = 0; c < columns; ++c)
      if (std::isfinite(to[c])) {
        const auto at = static_cast<std::size_t>(c);
        to[c] = static_cast<T>(shifts[at] + std::log(sums[at]));
      }
  });
}

template <bool exact> void logsumexp_cpu(const OpArgs& args, std::span<Tensor> out) {
  const std::optional<AxisSplit> split = split_of(args.in[0].shape(), axes_attribute(args));
  if (!exact && split && split->inner > 1 && args.in[0].numel() > 0) {
    const Tensor x = packed(args.in[0]);
    return visit_floating(x.dtype(),
                          [&]<class T>() { log_sum_exp_of_columns(x.data<T>(), *split, out[0].mutable_data<T>()); });
  }
  const Groups groups = groups_of(args.in[0], axes_attribute(args));
  visit_floating(out[0].dtype(), [&]<class T>() {
    T* y = out[0].mutable_data<T>();
    for_each_group<T>(groups,
                      [&](std::int64_t g, const T* x) { y[g] = static_cast<T>(log_sum_exp<exact>(x, groups.extent)); });
  });
}

void logsumexp_on_device(const OpArgs& args, std::span<Tensor> out) {
  const Reduced reduced = axes_attribute(args);
  const Tensor& x = args.in[0];
  const Tensor largest = Tensor::empty(kept_shape(args), DType::f64);
  run_on_device("logsumexp", device::ReduceKind::largest, x, reduced, {{}, {}, largest});
  run_on_device("logsumexp", device::ReduceKind::log_sum_exp, x, reduced, {out[0], {}, {}}, {}, largest);
}

// --- backward: g exp(x - y), 0 where y is -inf ---

std::vector<TensorSpec> backward_infer(const OpArgs& args) {
  check_all_floating(args);
  const Shape& x = args.in[1].shape();
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}})
    if (broadcast_shapes("logsumexp_backward", x, args.in[i].shape()) != x)
      throw ShapeError(fmt::format("logsumexp_backward: {} does not broadcast to x: {} is {}, x is {}",
                                   args.op.inputs[i].name, args.op.inputs[i].name, args.in[i].shape().str(), x.str()));
  return {{x, args.in[1].dtype()}};
}

void backward_cpu(const OpArgs& args, std::span<Tensor> out) {
  pointwise::run(pointwise::Ternary::scaled_exp, {args.in[0], args.in[1], args.in[2]}, out[0]);
}

/// With w = exp(x - y): d/dg = w, d/dx = g w, d/dy = -g w.
Gradients backward_rule(const VjpArgs& args) {
  Gradients grads(3);
  const Tensor v = call1(logsumexp_backward_op, {args.grad[0], args.in[1], args.in[2]});
  if (args.wants(0)) grads[0] = v;
  if (!args.wants(1) && !args.wants(2)) return grads;
  const Tensor both = mul(v, args.in[0]);
  if (args.wants(1)) grads[1] = both;
  if (args.wants(2)) grads[2] = neg(both);
  return grads;
}

std::vector<Tensor> backward_naive(const OpArgs& args) {
  const Shape& shape = args.in[1].shape();
  Tensor out = reference_output(shape);
  const Tensor g = expand(args.in[0], shape);
  const Tensor y = expand(args.in[2], shape);
  for_each_offsets<3>(shape, {args.in[1].strides(), g.strides(), y.strides()},
                      [&](std::int64_t i, std::int64_t j, std::int64_t k) {
                        const double total = values(y)[k];
                        if (total == -std::numeric_limits<double>::infinity())
                          values(out)[i] = 0.0;
                        else
                          values(out)[i] = values(g)[j] * std::exp(values(args.in[1])[i] - total);
                      });
  return {out};
}

std::vector<Sample> backward_samples(DType dtype) {
  const auto r = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, 1420 + tag); };
  return {{{r({3, 33}, 1), r({3, 33}, 2), r({3, 1}, 3)}, {}, "one sum a row"},
          {{r({3, 1}, 4), r({3, 7}, 5), r({3, 1}, 6)}, {}, "one cotangent a row"},
          {{r({1, 4, 1}, 7), scattered(r({3, 4, 5}, 8)), r({1, 4, 1}, 9)}, {}, "strided"},
          {{r({}, 10), r({65}, 11), r({}, 12)}, {}, "all of a vector"},
          {{r({4, 5}, 16), r({4, 5}, 17), r({4, 5}, 18)}, {}, "a sum for each element"},
          {{r({1, 3}, 13), r({0, 3}, 14), r({1, 3}, 15)}, {}, "no elements"}};
}

std::vector<Refusal> backward_refuses() {
  const Tensor x = Tensor::zeros({2, 3});
  return {{{x, Tensor::zeros({2, 1}), x}, {}, "grad does not broadcast to x: grad is [2, 3], x is [2, 1]"},
          {{x, x, Tensor::zeros({3, 3})}, {}, "[3, 3]"},
          {{x, Tensor::zeros({2, 3}, DType::i64), x}, {}, "x must be f32 or f64, it is i64"}};
}

} // namespace

constinit const OpDef logsumexp_op = row({
    .name = "logsumexp",
    .math = "y = log of the sum of exp(x) over the axes",
    .inputs = {{"x"}},
    .attributes = {axes_spec, keepdim_spec},
    .infer = infer_floating,
    .cpu = logsumexp_cpu<false>,
    .exact = logsumexp_cpu<true>,
    .cuda = logsumexp_on_device,
    .saves = saves::in(0) | saves::out(0),
    .vjp = [](const VjpArgs& args) -> Gradients {
      if (!args.wants(0)) return {Tensor()};
      return {call1(logsumexp_backward_op,
                    {with_kept_axes(args, args.grad[0]), args.in[0], with_kept_axes(args, args.out[0])})};
    },
    .reference = [](const OpArgs& args) -> std::vector<Tensor> {
      Tensor y = reference_output(result_shape(args));
      for_each_naive_group(args, [&](std::int64_t g, const std::vector<double>& x) {
        double sum = 0;
        for (const double value : x) sum += std::exp(value);
        values(y)[g] = std::log(sum);
      });
      return {y};
    },
    .samples =
        [](DType dtype) {
          return axes_samples(dtype, 1400, {2.0, 1.0, false});
        },
    .refuses = axes_refusals,
    .symmetries = axes_symmetries,
    .work = group_work<10>,
});

constinit const OpDef logsumexp_backward_op = row({
    .name = "logsumexp_backward",
    .math = "out = grad exp(x - y), 0 where y is -inf; grad and y broadcast to x",
    .inputs = {{"grad"}, {"x"}, {"y"}},
    .outputs = {"out"},
    .infer = backward_infer,
    .cpu = backward_cpu,
    .cuda = [](const OpArgs& args,
               std::span<Tensor> out) { pointwise::run_on_device(device::Ternary::scaled_exp, args, out[0]); },
    .cuda_same_bits = true,
    .saves = saves::in(0) | saves::in(1) | saves::in(2),
    .vjp = backward_rule,
    .reference = backward_naive,
    .samples = backward_samples,
    .refuses = backward_refuses,
    .symmetries = pointwise_symmetries,
    .work = elementwise_work<10>,
});

Tensor logsumexp(const Tensor& x, const std::vector<std::int64_t>& axes, bool keepdim) {
  return call1(logsumexp_op, {x}, {{"axes", axes}, {"keepdim", keepdim}});
}

} // namespace eg
