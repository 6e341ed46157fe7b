// avg_pool2d, adaptive_avg_pool2d and their adjoints. They are linear: each row's rule is the other.

#include "core/base/function_ref.h"
#include "core/call.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/pool/bins.h"
#include "core/ops/row_tools.h"

#include <fmt/format.h>

namespace eg {
namespace {

using pool::Extents;
using pool::Rules;

/// What a pooling and its adjoint need to know of their kind.
struct Kind {
  Extents (*extents)(const OpArgs&, const Shape& images);
  Rules (*rules)(const OpArgs&, const Extents&);
};
constexpr Kind sliding = {pool::sliding_extents, pool::sliding_rules};
constexpr Kind adaptive = {pool::adaptive_extents,
                           [](const OpArgs&, const Extents& e) { return pool::adaptive_rules(e); }};

template <const Kind& kind> Extents pooling(const OpArgs& args) { return kind.extents(args, pool::images_of(args)); }

/// The pooling whose outputs the adjoint's input g has.
template <const Kind& kind> Extents adjoint(const OpArgs& args) {
  const Shape g = pool::images_of(args);
  const Size2 image = pool::size_attribute(args, "input_size");
  const Extents e = kind.extents(args, {g[0], g[1], image.rows, image.columns});
  check_shape(args, 0, e.y_shape());
  return e;
}

template <const Kind& kind> std::vector<TensorSpec> infer(const OpArgs& args) {
  return {{pooling<kind>(args).y_shape(), args.in[0].dtype()}};
}
template <const Kind& kind> std::vector<TensorSpec> adjoint_infer(const OpArgs& args) {
  return {{adjoint<kind>(args).x_shape(), args.in[0].dtype()}};
}

template <const Kind& kind, bool exact> void kernel(const OpArgs& args, std::span<Tensor> out) {
  const Extents e = pooling<kind>(args);
  if (out[0].numel() == 0) return;
  const Tensor x = packed(args.in[0]);
  visit_floating(x.dtype(), [&]<class T>() {
    (exact ? pool::mean_exact<T> : pool::mean<T>)(kind.rules(args, e).grid(), e.images * e.channels, x.data<T>(),
                                                  out[0].mutable_data<T>("pool"));
  });
}

template <const Kind& kind> void adjoint_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Extents e = adjoint<kind>(args);
  if (out[0].numel() == 0) return;
  const Tensor g = packed(args.in[0]);
  visit_floating(g.dtype(), [&]<class T>() {
    pool::mean_backward<T>(kind.rules(args, e).grid(), e.images * e.channels, g.data<T>(),
                           out[0].mutable_data<T>("pool"));
  });
}

template <const Kind& kind> void kernel_cuda(const OpArgs& args, std::span<Tensor> out) {
  const Extents e = pooling<kind>(args);
  if (out[0].numel() == 0) return;
  pool::start_on_device(args.op.name.data(), device::PoolJob::Kind::mean, kind.rules(args, e), e.images * e.channels,
                        packed(args.in[0]), out[0]);
}

template <const Kind& kind> void adjoint_cuda(const OpArgs& args, std::span<Tensor> out) {
  const Extents e = adjoint<kind>(args);
  if (out[0].numel() == 0) return;
  pool::start_on_device(args.op.name.data(), device::PoolJob::Kind::mean_backward, kind.rules(args, e),
                        e.images * e.channels, packed(args.in[0]), out[0]);
}

/// The call's attributes with input_size, or without it.
Attrs with_size(const Attrs& attrs, const Shape& images) {
  Attrs more = attrs;
  more.set("input_size", std::vector<std::int64_t>{images[2], images[3]});
  return more;
}
Attrs without_size(const Attrs& attrs) {
  Attrs fewer;
  for (const auto& [name, value] : attrs.items())
    if (name != "input_size") fewer.set(name, value);
  return fewer;
}

/// One axis in plain loops: weight of place p in output i.
using Share = FunctionRef<double(std::int64_t i, std::int64_t p)>;

double adaptive_share(std::int64_t extent, std::int64_t count, std::int64_t i, std::int64_t p) {
  const auto e = static_cast<double>(extent);
  const auto n = static_cast<double>(count);
  const double begin = std::floor(static_cast<double>(i) * e / n);
  const double end = std::ceil(static_cast<double>(i + 1) * e / n);
  return static_cast<double>(p) >= begin && static_cast<double>(p) < end ? 1.0 / (end - begin) : 0.0;
}

double sliding_share(const OpArgs& args, int axis, std::int64_t extent, std::int64_t i, std::int64_t p) {
  const auto of = [&](const char* name, std::int64_t fallback) {
    const auto& list = args.attrs.integers(name);
    return list.empty() ? fallback : axis == 0 ? list.front() : list.back();
  };
  const std::int64_t kernel = of("kernel_size", 0);
  const std::int64_t padding = of("padding", 0);
  const std::int64_t first = i * of("stride", kernel) - padding;
  if (p < first || p >= first + kernel) return 0.0;
  if (const std::int64_t divisor = args.attrs.integer("divisor"); divisor != 0)
    return axis == 0 ? 1.0 / static_cast<double>(divisor) : 1.0;
  std::int64_t elements = 0;
  for (std::int64_t k = first; k < first + kernel; ++k)
    if (args.attrs.flag("count_include_pad") ? k < extent + padding : k >= 0 && k < extent) ++elements;
  return 1.0 / static_cast<double>(elements);
}

/// y[i, j] = sum over pixels (r, q) of share(i, r) share(j, q) x[r, q], or its adjoint.
Tensor separable(const Extents& e, bool backward, const Tensor& in, Share rows, Share columns) {
  Tensor out = reference_output(backward ? e.x_shape() : e.y_shape());
  for (std::int64_t p = 0; p < e.images * e.channels; ++p)
    for (std::int64_t i = 0; i < e.count.rows; ++i)
      for (std::int64_t j = 0; j < e.count.columns; ++j)
        for (std::int64_t r = 0; r < e.image.rows; ++r)
          for (std::int64_t q = 0; q < e.image.columns; ++q) {
            const std::int64_t y = (p * e.count.rows + i) * e.count.columns + j;
            const std::int64_t x = (p * e.image.rows + r) * e.image.columns + q;
            values(out)[backward ? x : y] += rows(i, r) * columns(j, q) * values(in)[backward ? y : x];
          }
  return out;
}

std::vector<Tensor> sliding_loops(const OpArgs& args, const Extents& e, bool backward) {
  return {separable(
      e, backward, args.in[0],
      [&](std::int64_t i, std::int64_t p) { return sliding_share(args, 0, e.image.rows, i, p); },
      [&](std::int64_t i, std::int64_t p) { return sliding_share(args, 1, e.image.columns, i, p); })};
}
std::vector<Tensor> adaptive_loops(const OpArgs& args, const Extents& e, bool backward) {
  return {separable(
      e, backward, args.in[0],
      [&](std::int64_t i, std::int64_t p) { return adaptive_share(e.image.rows, e.count.rows, i, p); },
      [&](std::int64_t i, std::int64_t p) { return adaptive_share(e.image.columns, e.count.columns, i, p); })};
}

Attrs sliding_attrs(Size2 kernel, const Pool2dOptions& o) {
  return {{"kernel_size", windows::list(kernel)},     {"stride", windows::list(o.stride.rows == 0 ? kernel : o.stride)},
          {"padding", windows::list(o.padding)},      {"ceil_mode", o.ceil_mode},
          {"count_include_pad", o.count_include_pad}, {"divisor", o.divisor}};
}
Attrs adaptive_attrs(Size2 count) { return {{"output_size", windows::list(count)}}; }

struct Case {
  Shape x;
  Attrs attrs;
  bool strided;
  const char* note;
};

std::vector<Case> sliding_cases() {
  const auto with = [](Size2 kernel, const Pool2dOptions& o = {}) { return sliding_attrs(kernel, o); };
  return {
      {{2, 3, 6, 4}, with(2), false, "2 x 2"},
      {{2, 2, 7, 9}, with({3, 2}, {.stride = {2, 1}, .padding = 1}), false, "overlapping, padding counts"},
      {{2, 2, 7, 9}, with(3, {.stride = 2, .padding = 1, .count_include_pad = false}), false, "padding left out"},
      {{1, 2, 6, 8}, with(3, {.stride = 2, .padding = 1, .ceil_mode = true}), false, "windows beyond the padding"},
      {{2, 1, 5, 5}, with(2, {.stride = 3, .ceil_mode = true, .count_include_pad = false}), true, "clipped windows"},
      {{1, 2, 5, 4}, with(2, {.divisor = 3}), false, "another divisor"},
      {{1, 1, 2, 3}, with(5, {.padding = 2, .ceil_mode = true}), false, "a kernel larger than the image"},
      {{2, 2, 5, 7}, with({5, 7}), false, "one window: the mean of the plane"},
      {{2, 1, 3, 6}, with({3, 2}), false, "windows of whole columns"},
      {{2, 1, 6, 3}, with({2, 3}), false, "windows of whole rows"},
      {{1, 1, 1, 1}, with(1), false, "one pixel"},
      {{0, 2, 4, 4}, with(2), false, "no images"}};
}

std::vector<Case> adaptive_cases() {
  return {{{2, 3, 6, 4}, adaptive_attrs({3, 2}), false, "bins that divide"},
          {{2, 2, 7, 5}, adaptive_attrs({3, 4}), true, "bins that overlap"},
          {{1, 2, 3, 2}, adaptive_attrs({5, 3}), false, "more bins than pixels"},
          {{2, 2, 33, 7}, adaptive_attrs(1), false, "mean of the plane"},
          {{2, 1, 4, 5}, adaptive_attrs({1, 2}), false, "bins of whole columns"},
          {{2, 1, 5, 4}, adaptive_attrs({2, 1}), false, "bins of whole rows"},
          {{1, 1, 1, 1}, adaptive_attrs(1), false, "one pixel"},
          {{0, 2, 4, 4}, adaptive_attrs(2), false, "no images"}};
}

template <std::vector<Case> (*cases)(), int tag> std::vector<Sample> samples_of(DType dtype) {
  std::vector<Sample> all;
  for (const Case& c : cases()) {
    const Tensor x = sample_normal(c.x, dtype, tag + all.size());
    all.push_back({{c.strided ? scattered(x) : x}, c.attrs, c.note});
  }
  return all;
}

/// Samples of the adjoint: cotangents of the pooling's outputs.
template <std::vector<Case> (*cases)(), const Kind& kind, const OpDef& op, int tag>
std::vector<Sample> adjoint_samples_of(DType dtype) {
  std::vector<Sample> all;
  for (const Case& c : cases()) {
    const Shape y = call1(op, {Tensor::zeros(c.x)}, c.attrs).shape();
    const Tensor g = sample_normal(y, dtype, tag + all.size());
    all.push_back({{c.strided ? scattered(g) : g}, with_size(c.attrs, c.x), c.note});
  }
  return all;
}

std::vector<Refusal> sliding_refuses() {
  const Tensor x = Tensor::zeros({1, 2, 4, 4});
  return {{{Tensor::zeros({4, 4})}, sliding_attrs(2, {}), "x must be [N, C, H, W], it is [4, 4]"},
          {{x}, sliding_attrs(5, {}), "no window fits: the image has 4 rows and 0 of padding on both sides"},
          {{x}, sliding_attrs(2, {.padding = 2}), "padding must be at most half the kernel: 2 and 2 rows"},
          {{x}, sliding_attrs(0, {}), "kernel_size is 0"},
          {{x}, {{"kernel_size", std::vector<std::int64_t>{}}}, "kernel_size must not be empty"},
          {{x}, sliding_attrs(2, {.divisor = -1}), "divisor is -1"},
          {{x.to(DType::i64)}, sliding_attrs(2, {}), "x must be f32 or f64, it is i64"}};
}

std::vector<Refusal> adaptive_refuses() {
  const Tensor x = Tensor::zeros({1, 2, 4, 4});
  return {{{Tensor::zeros({2, 4, 4})}, adaptive_attrs(2), "x must be [N, C, H, W], it is [2, 4, 4]"},
          {{x}, adaptive_attrs(-1), "output_size is -1"},
          {{Tensor::zeros({1, 2, 0, 4})}, adaptive_attrs(2), "the image has no pixels"},
          {{x}, {{"output_size", std::vector<std::int64_t>{}}}, "output_size must not be empty"}};
}

std::vector<Refusal> sliding_adjoint_refuses() {
  const Tensor g = Tensor::zeros({1, 2, 2, 2});
  return {{{g}, with_size(sliding_attrs(2, {}), {1, 2, 6, 4}), "g must be [1, 2, 3, 2], it is [1, 2, 2, 2]"},
          {{Tensor::zeros({2, 2})}, with_size(sliding_attrs(2, {}), {1, 2, 4, 4}), "g must be [N, C, H, W]"},
          {{g}, with_size(sliding_attrs(2, {}), {1, 2, -4, 4}), "input_size is -4"}};
}

std::vector<Refusal> adaptive_adjoint_refuses() {
  const Tensor g = Tensor::zeros({1, 2, 2, 2});
  return {{{g}, with_size(adaptive_attrs({2, 3}), {1, 2, 6, 4}), "g must be [1, 2, 2, 3], it is [1, 2, 2, 2]"},
          {{Tensor::zeros({2, 2})}, with_size(adaptive_attrs(2), {1, 2, 4, 4}), "g must be [N, C, H, W]"},
          {{g}, with_size(adaptive_attrs(2), {1, 2, 0, 4}), "the image has no pixels"}};
}

/// Whether one window or bin, without padding, covers the whole axis (0: rows, 1: columns) of `extent` places: then all
/// its places are equal.
bool covers(const Attrs& attrs, int axis, std::int64_t extent) {
  const auto of = [&](const char* name, std::int64_t fallback) {
    const std::vector<std::int64_t> list = attrs.has(name) ? attrs.integers(name) : std::vector<std::int64_t>{};
    return list.empty() ? fallback : axis == 0 ? list.front() : list.back();
  };
  if (attrs.has("output_size")) return of("output_size", 0) == 1;
  return of("kernel_size", 0) == extent && of("padding", 0) == 0;
}

/// Images; channels; and the pixels along each axis that single bins cover. They are in x, or in dx.
std::vector<Symmetry> symmetries(const Sample& sample) {
  std::vector<Symmetry> all{{.name = "kept: images", .legs = {in_leg(0, 0), out_leg(0, 0)}, .bit_exact = true},
                            {.name = "kept: channels", .legs = {in_leg(0, 1), out_leg(0, 1)}, .bit_exact = true}};
  const bool backward = sample.attrs.has("input_size");
  for (const int axis : {0, 1}) {
    const std::int64_t extent =
        backward ? sample.attrs.integers("input_size")[static_cast<std::size_t>(axis)] : sample.in[0].shape()[axis + 2];
    if (extent >= 2 && covers(sample.attrs, axis, extent))
      all.push_back({axis == 0 ? "rows of pixels" : "columns of pixels",
                     {backward ? out_leg(0, axis + 2) : in_leg(0, axis + 2)}});
  }
  return all;
}

Work pool_work(const OpArgs& args, std::span<const TensorSpec> out) {
  return {static_cast<double>(args.in[0].numel() + out[0].shape.numel()), bytes_moved(args, out)};
}

constexpr AttrSpec kernel_attr =
    required_attr("kernel_size", AttrKind::integers, "rows and columns of a window; one number stands for both");
constexpr AttrSpec stride_attr = attr_ints("stride", "steps between windows; empty: the kernel's size");
constexpr AttrSpec padding_attr = attr_ints("padding", "zeros around the image, at most half a kernel; empty: 0");
constexpr AttrSpec ceil_attr = attr_bool("ceil_mode", false, "windows may reach beyond the padding");
constexpr AttrSpec include_attr = attr_bool("count_include_pad", true, "padding counts among the elements");
constexpr AttrSpec divisor_attr = attr_int("divisor", 0, "what the sum is divided by; 0: the number of elements");
constexpr AttrSpec bins_attr = required_attr("output_size", AttrKind::integers, "rows and columns of the result");
constexpr AttrSpec input_attr = required_attr("input_size", AttrKind::integers, "rows and columns of x");

} // namespace

constinit const OpDef avg_pool2d_op = row({
    .name = "avg_pool2d",
    .math = "y[n, c, i, j] = 1 / elements sum over u, v of x[n, c, i s - p + u, j s - p + v]",
    .inputs = {{"x"}},
    .attributes = {kernel_attr, stride_attr, padding_attr, ceil_attr, include_attr, divisor_attr},
    .infer = infer<sliding>,
    .cpu = kernel<sliding, false>,
    .exact = kernel<sliding, true>,
    .cuda = kernel_cuda<sliding>,
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& v) -> Gradients {
      return {call1(avg_pool2d_backward_op, {v.grad[0]}, with_size(v.attrs, v.in[0].shape()))};
    },
    .reference = [](const OpArgs& args) { return sliding_loops(args, pooling<sliding>(args), false); },
    .samples = samples_of<sliding_cases, 2300>,
    .refuses = sliding_refuses,
    .symmetries = symmetries,
    .least_extents = {{"rows of pixels", 2, "a window must fit"}, {"columns of pixels", 2, "a window must fit"}},
    .work = pool_work,
});

constinit const OpDef avg_pool2d_backward_op = row({
    .name = "avg_pool2d_backward",
    .math = "dx[n, c, r, q] = sum over the windows (i, j) that hold (r, q) of g[n, c, i, j] / elements",
    .inputs = {{"g"}},
    .outputs = {"dx"},
    .attributes = {input_attr, kernel_attr, stride_attr, padding_attr, ceil_attr, include_attr, divisor_attr},
    .infer = adjoint_infer<sliding>,
    .cpu = adjoint_kernel<sliding>,
    .cuda = adjoint_cuda<sliding>,
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& v) -> Gradients { return {call1(avg_pool2d_op, {v.grad[0]}, without_size(v.attrs))}; },
    .reference = [](const OpArgs& args) { return sliding_loops(args, adjoint<sliding>(args), true); },
    .samples = adjoint_samples_of<sliding_cases, sliding, avg_pool2d_op, 2320>,
    .refuses = sliding_adjoint_refuses,
    .symmetries = symmetries,
    .work = pool_work,
});

constinit const OpDef adaptive_avg_pool2d_op = row({
    .name = "adaptive_avg_pool2d",
    .math = "y[n, c, i, j] = mean of x[n, c, r, q] over floor(i H / h) <= r < ceil((i + 1) H / h), q likewise",
    .inputs = {{"x"}},
    .attributes = {bins_attr},
    .infer = infer<adaptive>,
    .cpu = kernel<adaptive, false>,
    .exact = kernel<adaptive, true>,
    .cuda = kernel_cuda<adaptive>,
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& v) -> Gradients {
      return {call1(adaptive_avg_pool2d_backward_op, {v.grad[0]}, with_size(v.attrs, v.in[0].shape()))};
    },
    .reference = [](const OpArgs& args) { return adaptive_loops(args, pooling<adaptive>(args), false); },
    .samples = samples_of<adaptive_cases, 2340>,
    .refuses = adaptive_refuses,
    .symmetries = symmetries,
    .least_extents = {{"rows of pixels", 1, "no pixels have no mean"},
                      {"columns of pixels", 1, "no pixels have no mean"}},
    .work = pool_work,
});

constinit const OpDef adaptive_avg_pool2d_backward_op = row({
    .name = "adaptive_avg_pool2d_backward",
    .math = "dx[n, c, r, q] = sum over the bins (i, j) that hold (r, q) of g[n, c, i, j] / elements",
    .inputs = {{"g"}},
    .outputs = {"dx"},
    .attributes = {input_attr, bins_attr},
    .infer = adjoint_infer<adaptive>,
    .cpu = adjoint_kernel<adaptive>,
    .cuda = adjoint_cuda<adaptive>,
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& v) -> Gradients {
      return {call1(adaptive_avg_pool2d_op, {v.grad[0]}, without_size(v.attrs))};
    },
    .reference = [](const OpArgs& args) { return adaptive_loops(args, adjoint<adaptive>(args), true); },
    .samples = adjoint_samples_of<adaptive_cases, adaptive, adaptive_avg_pool2d_op, 2360>,
    .refuses = adaptive_adjoint_refuses,
    .symmetries = symmetries,
    .work = pool_work,
});

Tensor avg_pool2d(const Tensor& x, Size2 kernel, const Pool2dOptions& options) {
  return call1(avg_pool2d_op, {x}, sliding_attrs(kernel, options));
}

Tensor adaptive_avg_pool2d(const Tensor& x, Size2 output_size) {
  return call1(adaptive_avg_pool2d_op, {x}, adaptive_attrs(output_size));
}

} // namespace eg
