// max_pool2d and adaptive_max_pool2d. The gradient goes to the place of the largest element.

#include "core/base/function_ref.h"
#include "core/call.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/pool/bins.h"
#include "core/ops/row_tools.h"

#include <cmath>
#include <fmt/format.h>

namespace eg {
namespace {

using pool::Extents;
using pool::Rules;

Extents sliding(const OpArgs& args) { return pool::sliding_extents(args, pool::images_of(args)); }
Extents adaptive(const OpArgs& args) { return pool::adaptive_extents(args, pool::images_of(args)); }

std::vector<TensorSpec> specs(const OpArgs& args, const Extents& e) {
  return {{e.y_shape(), args.in[0].dtype()}, {e.y_shape(), DType::i64}};
}

void run(const OpArgs& args, std::span<Tensor> out, const Extents& e, const Rules& rules) {
  if (out[0].numel() == 0) return;
  const Tensor x = packed(args.in[0]);
  visit_floating(x.dtype(), [&]<class T>() {
    pool::largest<T>(rules.grid(), e.images * e.channels, x.data<T>(), out[0].mutable_data<T>("max_pool2d"),
                     out[1].mutable_data<std::int64_t>("max_pool2d"));
  });
}

void run_on_device(const OpArgs& args, std::span<Tensor> out, const Extents& e, const Rules& rules) {
  if (out[0].numel() == 0) return;
  pool::start_on_device(args.op.name.data(), device::PoolJob::Kind::largest, rules, e.images * e.channels,
                        packed(args.in[0]), out[0], out[1]);
}

Gradients rule(const VjpArgs& args) {
  const Shape& x = args.in[0].shape();
  const Shape& y = args.grad[0].shape();
  if (y.numel() == 0) return {Tensor::zeros(x, args.grad[0].dtype())};
  const Shape outputs{y[0], y[1], y[2] * y[3]};
  const Tensor plane = Tensor::zeros({x[0], x[1], x[2] * x[3]}, args.grad[0].dtype());
  return {reshape(scatter_add(plane, 2, reshape(args.out[1], outputs), reshape(args.grad[0], outputs)), x)};
}

/// Largest over the places for which holds(output, place) is true along both axes.
std::vector<Tensor> loops(const Tensor& x, const Extents& e,
                          FunctionRef<bool(int axis, std::int64_t output, std::int64_t place)> holds) {
  Tensor y = reference_output(e.y_shape());
  Tensor places = Tensor::zeros(e.y_shape(), DType::i64);
  std::int64_t at = 0;
  for (std::int64_t p = 0; p < e.images * e.channels; ++p)
    for (std::int64_t i = 0; i < e.count.rows; ++i)
      for (std::int64_t j = 0; j < e.count.columns; ++j, ++at) {
        values(y)[at] = -INFINITY;
        for (std::int64_t r = 0; r < e.image.rows; ++r)
          for (std::int64_t q = 0; q < e.image.columns; ++q) {
            const double value = values(x)[(p * e.image.rows + r) * e.image.columns + q];
            if (!holds(0, i, r) || !holds(1, j, q) || value <= values(y)[at]) continue;
            values(y)[at] = value;
            places.mutable_data<std::int64_t>()[at] = r * e.image.columns + q;
          }
      }
  return {y, places};
}

std::vector<Tensor> sliding_reference(const OpArgs& args) {
  return loops(args.in[0], sliding(args), [&](int axis, std::int64_t i, std::int64_t p) {
    const auto of = [&](const char* name, std::int64_t fallback) {
      const auto& list = args.attrs.integers(name);
      return list.empty() ? fallback : axis == 0 ? list.front() : list.back();
    };
    const std::int64_t kernel = of("kernel_size", 0);
    const std::int64_t from_first = p - (i * of("stride", kernel) - of("padding", 0));
    return from_first >= 0 && from_first % of("dilation", 1) == 0 && from_first / of("dilation", 1) < kernel;
  });
}

std::vector<Tensor> adaptive_reference(const OpArgs& args) {
  const Extents e = adaptive(args);
  return loops(args.in[0], e, [&](int axis, std::int64_t i, std::int64_t p) {
    const std::int64_t extent = axis == 0 ? e.image.rows : e.image.columns;
    const std::int64_t count = axis == 0 ? e.count.rows : e.count.columns;
    return p >= i * extent / count && p * count < (i + 1) * extent;
  });
}

Attrs sliding_attrs(Size2 kernel, const Pool2dOptions& o) {
  return {{"kernel_size", windows::list(kernel)},
          {"stride", windows::list(o.stride.rows == 0 ? kernel : o.stride)},
          {"padding", windows::list(o.padding)},
          {"dilation", windows::list(o.dilation)},
          {"ceil_mode", o.ceil_mode}};
}
Attrs adaptive_attrs(Size2 count) { return {{"output_size", windows::list(count)}}; }

std::vector<Sample> sliding_samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, 2400 + tag, 2.0); };
  const auto with = [](Size2 kernel, const Pool2dOptions& o = {}) { return sliding_attrs(kernel, o); };
  const Tensor negative = affine(sample_uniform({1, 2, 5, 5}, dtype, 2410, 0.0, 1.0), 1.0, -3.0);
  return {
      {{x({2, 3, 6, 4}, 1)}, with(2), "2 x 2"},
      {{x({2, 2, 7, 9}, 2)}, with({3, 2}, {.stride = {2, 1}, .padding = 1}), "overlapping, padded"},
      {{x({1, 2, 6, 8}, 3)}, with(3, {.stride = 2, .padding = 1, .ceil_mode = true}), "beyond the padding"},
      {{scattered(x({2, 1, 9, 8}, 4))}, with({2, 3}, {.stride = 1, .dilation = {3, 2}}), "dilated, strided storage"},
      {{negative}, with(3, {.stride = 2, .padding = 1}), "negative beside padding"},
      {{x({1, 1, 1, 1}, 5)}, with(1), "one pixel"},
      {{x({0, 2, 4, 4}, 6)}, with(2), "no images"}};
}

std::vector<Sample> adaptive_samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, 2420 + tag, 2.0); };
  return {{{x({2, 3, 6, 4}, 1)}, adaptive_attrs({3, 2}), "bins that divide"},
          {{scattered(x({2, 2, 7, 5}, 2))}, adaptive_attrs({3, 4}), "bins that overlap"},
          {{x({1, 2, 3, 2}, 3)}, adaptive_attrs({5, 3}), "more bins than pixels"},
          {{x({2, 2, 33, 7}, 4)}, adaptive_attrs(1), "largest of the plane"},
          {{x({0, 2, 4, 4}, 5)}, adaptive_attrs(2), "no images"}};
}

std::vector<Refusal> sliding_refuses() {
  const Tensor x = Tensor::zeros({1, 2, 4, 4});
  return {
      {{Tensor::zeros({4, 4})}, sliding_attrs(2, {}), "x must be [N, C, H, W], it is [4, 4]"},
      {{x}, sliding_attrs(5, {}), "no window fits: the image has 4 rows and 0 of padding on both sides"},
      {{x}, sliding_attrs(2, {.padding = 2}), "padding must be at most half the kernel: 2 and 2 rows"},
      {{x}, sliding_attrs(2, {.stride = 3, .padding = 1, .dilation = 5, .ceil_mode = true}), "covers padding alone"},
      {{x}, sliding_attrs(2, {.dilation = 0}), "dilation is 0"}};
}

std::vector<Refusal> adaptive_refuses() {
  return {{{Tensor::zeros({2, 4, 4})}, adaptive_attrs(2), "x must be [N, C, H, W], it is [2, 4, 4]"},
          {{Tensor::zeros({1, 2, 4, 4})}, adaptive_attrs(-1), "output_size is -1"},
          {{Tensor::zeros({1, 2, 0, 4})}, adaptive_attrs(2), "the image has no pixels"}};
}

std::vector<Symmetry> planes(const Sample&) {
  return {{.name = "kept: images", .legs = {in_leg(0, 0), out_leg(0, 0), out_leg(1, 0)}, .bit_exact = true},
          {.name = "kept: channels", .legs = {in_leg(0, 1), out_leg(0, 1), out_leg(1, 1)}, .bit_exact = true}};
}

Work pool_work(const OpArgs& args, std::span<const TensorSpec> out) {
  return {static_cast<double>(args.in[0].numel()), bytes_moved(args, out)};
}

MaxPool pooled(const OpDef& op, const Tensor& x, const Attrs& attrs) {
  std::vector<Tensor> out = call(op, {x}, attrs);
  return {out[0], out[1]};
}

} // namespace

constinit const OpDef max_pool2d_op = row({
    .name = "max_pool2d",
    .math = "y[n, c, i, j] = largest over u, v of x[n, c, i s - p + u d, j s - p + v d]; its place r W + q",
    .inputs = {{"x"}},
    .outputs = {"y", "places"},
    .attributes = {required_attr("kernel_size", AttrKind::integers,
                                 "rows and columns of a window; one number stands for both"),
                   attr_ints("stride", "steps between windows; empty: the kernel's size"),
                   attr_ints("padding", "-infinity around the image, at most half a kernel; empty: 0"),
                   attr_ints("dilation", "steps between the elements of a window; empty: 1"),
                   attr_bool("ceil_mode", false, "windows may reach beyond the padding")},
    .infer = [](const OpArgs& args) { return specs(args, sliding(args)); },
    .cpu =
        [](const OpArgs& args, std::span<Tensor> out) {
          const Extents e = sliding(args);
          run(args, out, e, pool::sliding_rules(args, e));
        },
    .cuda =
        [](const OpArgs& args, std::span<Tensor> out) {
          const Extents e = sliding(args);
          run_on_device(args, out, e, pool::sliding_rules(args, e));
        },
    .cuda_same_bits = true,
    .saves = saves::out(1),
    .vjp = rule,
    .reference = sliding_reference,
    .samples = sliding_samples,
    .refuses = sliding_refuses,
    .symmetries = planes,
    .work = pool_work,
});

constinit const OpDef adaptive_max_pool2d_op = row({
    .name = "adaptive_max_pool2d",
    .math = "y[n, c, i, j] = largest x[n, c, r, q] with floor(i H / h) <= r < ceil((i + 1) H / h), q likewise",
    .inputs = {{"x"}},
    .outputs = {"y", "places"},
    .attributes = {required_attr("output_size", AttrKind::integers, "rows and columns of the result")},
    .infer = [](const OpArgs& args) { return specs(args, adaptive(args)); },
    .cpu =
        [](const OpArgs& args, std::span<Tensor> out) {
          const Extents e = adaptive(args);
          run(args, out, e, pool::adaptive_rules(e));
        },
    .cuda =
        [](const OpArgs& args, std::span<Tensor> out) {
          const Extents e = adaptive(args);
          run_on_device(args, out, e, pool::adaptive_rules(e));
        },
    .cuda_same_bits = true,
    .saves = saves::out(1),
    .vjp = rule,
    .reference = adaptive_reference,
    .samples = adaptive_samples,
    .refuses = adaptive_refuses,
    .symmetries = planes,
    .work = pool_work,
});

MaxPool max_pool2d(const Tensor& x, Size2 kernel, const Pool2dOptions& options) {
  return pooled(max_pool2d_op, x, sliding_attrs(kernel, options));
}

MaxPool adaptive_max_pool2d(const Tensor& x, Size2 output_size) {
  return pooled(adaptive_max_pool2d_op, x, adaptive_attrs(output_size));
}

} // namespace eg
