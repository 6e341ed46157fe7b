// y = x W^T + b (+ addend), and y = gelu(x W^T + b): matrix products whose tiles are filled and finished in cache.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/linear/parts.h"
#include "core/ops/list.h"
#include "core/ops/matmul/operands.h"
#include "core/ops/pointwise/kernels.h"
#include "core/ops/row_tools.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace eg {
namespace {

/// Shape of x W^T. Throws for anything that does not fit.
Shape output_shape(const OpArgs& args) {
  check_all_floating(args);
  const Shape shape = shape_of_product(args);
  check_bias(args, 2);
  return shape;
}

Shape linear_shape(const OpArgs& args) {
  const Shape shape = output_shape(args);
  check_addend(args, 3, shape);
  return shape;
}

/// out[rows, columns] = x W^T + plus, then after(tile).
template <class T>
void product(const Tensor& x, const Tensor& weight, const LinearAddends& plus, T* out, std::int64_t columns,
             FunctionRef<void(const blas::Tile&)> after) {
  const Tensor rows = flatten_to_rows(x);
  const MatrixOperand w = matrix_operand(weight, true);
  blas::gemm_tiled<T>(rows.shape()[0], columns, rows.shape()[1], T(1), {rows.data<T>(), rows.strides()[0], false},
                      {w.tensor.data<T>(), w.ld, w.transposed}, plus.of<T>(columns), out, columns, after);
}

void linear_kernel(const OpArgs& args, std::span<Tensor> out) {
  visit_floating(out[0].dtype(), [&]<class T>() {
    if (out[0].numel() == 0) return;
    product<T>(args.in[0], args.in[1], LinearAddends(args, 2), out[0].mutable_data<T>("linear"), out[0].shape()[-1],
               [](const blas::Tile&) {});
  });
}

void linear_on_device(const OpArgs& args, std::span<Tensor> out) {
  linear_product_on_device(args, args.in[1], Tensor(), 2, out[0]);
}

/// Gradients of x, weight and bias from g = dL/d(x W^T + b): g W, g^T x, column sums of g.
Gradients product_gradients(const VjpArgs& args, const Tensor& g) {
  Gradients gradients(args.in.size());
  if (args.wants(0)) gradients[0] = matmul(as_rows(g), args.in[1]).reshape(args.in[0].shape());
  if (args.wants(1)) gradients[1] = matmul(as_rows(g), as_rows(args.in[0]), true, false);
  if (args.given(2) && args.wants(2)) gradients[2] = sum(as_rows(g), {0});
  return gradients;
}

Gradients linear_vjp(const VjpArgs& args) {
  Gradients gradients = product_gradients(args, args.grad[0]);
  if (args.given(3) && args.wants(3)) gradients[3] = args.grad[0];
  return gradients;
}

// y[r, o] = sum_i x[r, i] weight[o, i] + bias[o] + addend[r, o]
Tensor linear_loops(const OpArgs& args) {
  const Shape shape = output_shape(args);
  Tensor y = Tensor::empty(shape, DType::f64);
  const std::int64_t outs = args.in[1].shape()[0];
  const std::int64_t ins = args.in[1].shape()[1];
  const auto* x = args.in[0].data<double>();
  const auto* w = args.in[1].data<double>();
  auto* out = y.mutable_data<double>();
  for (std::int64_t r = 0; r < y.numel() / std::max<std::int64_t>(outs, 1); ++r)
    for (std::int64_t o = 0; o < outs; ++o) {
      double total = args.given(2) ? args.in[2].data<double>()[o] : 0.0;
      if (args.given(3)) total += args.in[3].data<double>()[r * outs + o];
      for (std::int64_t i = 0; i < ins; ++i) total += x[r * ins + i] * w[o * ins + i];
      out[r * outs + o] = total;
    }
  return y;
}

struct Draw {
  DType dtype;
  Tensor operator()(const Shape& shape, std::uint64_t stream) const {
    return random_normal(shape, {12, stream}, 0.0, 1.0, dtype);
  }
};

std::vector<Sample> linear_samples(DType dtype) {
  const Draw random{dtype};
  return {{{random({4, 5}, 1), random({3, 5}, 2), random({3}, 3)}, {}, "bias"},
          {{random({4, 5}, 4), random({3, 5}, 5)}, {}, "no bias"},
          {{random({2, 7, 5}, 6), random({3, 5}, 7), random({3}, 8), random({2, 7, 3}, 9)}, {}, "bias and addend"},
          {{random({4, 5}, 10), random({3, 5}, 11), Tensor(), random({4, 3}, 12)}, {}, "addend alone"},
          {{random({65, 33}, 13), random({17, 33}, 14), random({17}, 15)}, {}, "odd"},
          {{random({5, 4}, 16).transpose(), random({5, 3}, 17).transpose(), random({3}, 18)}, {}, "transposed views"},
          {{random({2, 1}, 19), random({1, 1}, 20), random({1}, 21)}, {}, "extents 1"},
          {{random({0, 5}, 22), random({3, 5}, 23), random({3}, 24)}, {}, "no rows"},
          {{random({5}, 25), random({3, 5}, 26), random({3}, 27)}, {}, "one vector"},
          {{random({2, 4, 5}, 28), random({3, 5}, 29), random({3}, 30)}, {}, "batch"}};
}

std::vector<Refusal> linear_refuses() {
  const Tensor x = Tensor::ones({4, 5});
  const Tensor weight = Tensor::ones({3, 5});
  return {{{x, Tensor::ones({5, 3})}, {}, "was it transposed?"},
          {{x, Tensor::ones({3, 6})}, {}, "x is [4, 5], weight is [3, 6]"},
          {{x, weight, Tensor::ones({4})}, {}, "bias must be [3], it is [4]"},
          {{x, weight, Tensor(), Tensor::ones({3})}, {}, "addend must have the output's shape"},
          {{x, Tensor::ones({5})}, {}, "weight must be [out, in]"},
          {{Tensor::ones({4, 5}, DType::u8), Tensor::ones({3, 5}, DType::u8)}, {}, "must be f32 or f64"},
          {{x, Tensor::ones({3, 5}, DType::i64)}, {}, "weight must be f32 or f64, it is i64"},
          {{x, weight, Tensor::ones({3}, DType::i64)}, {}, "bias must be f32 or f64, it is i64"},
          {{x, weight, Tensor(), Tensor::ones({4, 3}, DType::u8)}, {}, "addend must be f32 or f64, it is u8"},
          {{x, Tensor::ones({3, 5}, DType::f64)}, {}, "different types"}};
}

// W_(P) = P_out^T W P_in, b_(P) = b P_out gives f(P_R X P_in) = P_R f(X) P_out (lem9.3, eq38).
std::vector<Symmetry> linear_symmetries(const Sample& sample) {
  std::vector<Symmetry> all{{"in", {in_leg(0, -1), in_leg(1, 1)}},
                            {"out", {in_leg(1, 0), in_leg(2, 0), in_leg(3, -1), out_leg(0, -1)}}};
  add_row_axes(all, sample.in[0], [](int axis) { return std::vector<Leg>{in_leg(3, axis), out_leg(0, axis)}; });
  return all;
}

Work linear_work(const OpArgs& args, std::span<const TensorSpec> out) {
  return {2.0 * static_cast<double>(out[0].shape.numel()) * static_cast<double>(args.in[1].shape()[1]),
          bytes_moved(args, out)};
}

// --- linear_gelu ---

void linear_gelu_kernel(const OpArgs& args, std::span<Tensor> out) {
  const bool approximate = args.attrs.flag("approximate");
  visit_floating(out[0].dtype(), [&]<class T>() {
    if (out[0].numel() == 0) return;
    T* const y = out[0].mutable_data<T>("linear_gelu");
    T* const pre = out[1].mutable_data<T>("linear_gelu");
    const std::int64_t columns = out[0].shape()[-1];
    const auto gelu = pointwise::kernel<T>(approximate ? pointwise::Unary::gelu_tanh : pointwise::Unary::gelu);
    product<T>(args.in[0], args.in[1], LinearAddends(args, 2), pre, columns, [&](const blas::Tile& tile) {
      for (std::int64_t i = tile.row; i < tile.row + tile.rows; ++i)
        gelu(pre + i * columns + tile.col, y + i * columns + tile.col, tile.cols, nullptr);
    });
  });
}

void linear_gelu_on_device(const OpArgs& args, std::span<Tensor> out) {
  const auto gelu = args.attrs.flag("approximate") ? device::GeluOf::tanh : device::GeluOf::erf;
  linear_product_on_device(args, args.in[1], Tensor(), 2, out[1], out[0], gelu);
}

Gradients linear_gelu_vjp(const VjpArgs& args) {
  const Tensor& pre = args.out[1];
  Tensor g;
  if (args.grad[0].defined())
    g = call1(args.attrs.flag("approximate") ? gelu_tanh_backward_op : gelu_backward_op, {pre, args.grad[0]});
  if (args.grad[1].defined()) g = g.defined() ? g + args.grad[1] : args.grad[1];
  return product_gradients(args, g);
}

double gelu_of(double x, bool approximate) {
  if (!approximate) return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

std::vector<Tensor> linear_gelu_reference(const OpArgs& args) {
  const Tensor pre = linear_loops(args);
  Tensor y = Tensor::empty(pre.shape(), DType::f64);
  for (std::int64_t i = 0; i < pre.numel(); ++i)
    y.mutable_data<double>()[i] = gelu_of(pre.data<double>()[i], args.attrs.flag("approximate"));
  return {y, pre};
}

std::vector<Sample> linear_gelu_samples(DType dtype) {
  std::vector<Sample> all;
  for (Sample& sample : linear_samples(dtype)) {
    if (sample.in.size() > 3) continue;
    sample.attrs.set("approximate", all.size() % 2 == 1);
    all.push_back(std::move(sample));
  }
  return all;
}

std::vector<Refusal> linear_gelu_refuses() {
  std::vector<Refusal> all = linear_refuses();
  std::erase_if(all, [](const Refusal& refusal) { return refusal.in.size() > 3; });
  return all;
}

std::vector<Symmetry> linear_gelu_symmetries(const Sample& sample) {
  std::vector<Symmetry> all{{"in", {in_leg(0, -1), in_leg(1, 1)}},
                            {"out", {in_leg(1, 0), in_leg(2, 0), out_leg(0, -1), out_leg(1, -1)}}};
  add_row_axes(all, sample.in[0], [](int axis) { return std::vector<Leg>{out_leg(0, axis), out_leg(1, axis)}; });
  return all;
}

} // namespace

constinit const OpDef linear_op = row({
    .name = "linear",
    .math = "y = x W^T + b + addend",
    .inputs = {{"x"}, {"weight"}, {"bias", true}, {"addend", true}},
    .infer =
        [](const OpArgs& args) {
          return std::vector<TensorSpec>{{linear_shape(args), args.in[0].dtype()}};
        },
    .cpu = linear_kernel,
    .exact = [](const OpArgs& args, std::span<Tensor> out) { assign(out[0], exact_linear(args, args.in[1], 2)); },
    .cuda = linear_on_device,
    .cuda_same_bits = true,
    .saves = saves::in(0) | saves::in(1),
    .vjp = linear_vjp,
    .rounding = {.by_layout = true},
    .reference = [](const OpArgs& args) { return std::vector<Tensor>{linear_loops(args)}; },
    .samples = linear_samples,
    .refuses = linear_refuses,
    .symmetries = linear_symmetries,
    .work = linear_work,
});

constinit const OpDef linear_gelu_op = row({
    .name = "linear_gelu",
    .math = "y = gelu(pre), pre = x W^T + b",
    .inputs = {{"x"}, {"weight"}, {"bias", true}},
    .outputs = {"y", "pre"},
    .auxiliary = 1,
    .attributes = {attr_bool("approximate", false, "the tanh form of GELU")},
    .infer =
        [](const OpArgs& args) {
          const TensorSpec spec{output_shape(args), args.in[0].dtype()};
          return std::vector<TensorSpec>{spec, spec};
        },
    .cpu = linear_gelu_kernel,
    .exact =
        [](const OpArgs& args, std::span<Tensor> out) {
          assign(out[1], exact_linear(args, args.in[1], 2));
          assign(out[0], args.attrs.flag("approximate") ? gelu_tanh(out[1]) : gelu(out[1]));
        },
    .cuda = linear_gelu_on_device,
    .cuda_same_bits = true,
    .saves = saves::in(0) | saves::in(1) | saves::out(1),
    .vjp = linear_gelu_vjp,
    .rounding = {.by_layout = true},
    .reference = linear_gelu_reference,
    .samples = linear_gelu_samples,
    .refuses = linear_gelu_refuses,
    .symmetries = linear_gelu_symmetries,
    .work = linear_work,
});

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& addend) {
  return call1(linear_op, {widened(x), widened(weight), widened(bias), widened(addend)});
}

Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias, bool approximate) {
  return call1(linear_gelu_op, {widened(x), widened(weight), widened(bias)}, {{"approximate", approximate}});
}

} // namespace eg
