// y = x W^T + b (+ addend) of weights in 8 bits or in bf16, which are read in place.

#include "core/call.h"
#include "core/gemm/int8_product.h"
#include "core/gemm/low_bit_weights.h"
#include "core/gemm/matmul_precision.h"
#include "core/ops.h"
#include "core/ops/linear/parts.h"
#include "core/ops/list.h"
#include "core/ops/matmul/operands.h"
#include "core/ops/row_tools.h"

#include <algorithm>

namespace eg {
namespace {

/// out = x W^T + bias + addend, W's numbers at b, packed; bias and addend are inputs `more` and `more` + 1.
template <class T, class B>
void product(const OpArgs& args, const B* b, const T* scales, std::size_t more, Tensor& out) {
  const Tensor rows = flatten_to_rows(args.in[0]);
  const LinearAddends plus(args, more);
  const std::int64_t k = rows.shape()[1], columns = out.shape()[-1];
  const skinny_gemm::Operands<T, B> operands{.k = k,
                                             .a = rows.data<T>(),
                                             .lda = rows.strides()[0],
                                             .b = b,
                                             .ldb = k,
                                             .c = out.mutable_data<T>("linear"),
                                             .ldc = columns,
                                             .scales = scales};
  low_bit_weights::product<T, B>(rows.shape()[0], columns, operands, plus.of<T>(columns));
}

/// Gradients of x, bias and addend from g = dL/dy: g W, column sums of g, g.
Gradients common_gradients(const VjpArgs& args, const Tensor& weight, std::size_t more) {
  const Tensor& g = args.grad[0];
  Gradients gradients(args.in.size());
  if (args.wants(0)) gradients[0] = matmul(as_rows(g), weight).reshape(args.in[0].shape());
  if (args.given(more) && args.wants(more)) gradients[more] = sum(as_rows(g), {0});
  if (args.given(more + 1) && args.wants(more + 1)) gradients[more + 1] = g;
  return gradients;
}

// y[r, o] = sum_i x[r, i] w(o, i) + bias[o] + addend[r, o]
template <class Weight> Tensor loops(const OpArgs& args, Weight&& w, std::size_t more) {
  const Shape shape = shape_of_product(args);
  Tensor y = reference_output(shape);
  const std::int64_t outs = args.in[1].shape()[0], ins = args.in[1].shape()[1];
  for (std::int64_t at = 0; at < y.numel(); ++at) {
    const std::int64_t r = at / outs, o = at % outs;
    double total = args.given(more) ? values(args.in[more])[o] : 0.0;
    if (args.given(more + 1)) total += values(args.in[more + 1])[at];
    for (std::int64_t i = 0; i < ins; ++i) total += values(args.in[0])[r * ins + i] * w(o, i);
    values(y)[at] = total;
  }
  return y;
}

/// W_(P) = P_out^T W P_in, b_(P) = b P_out gives f(P_R X P_in) = P_R f(X) P_out, as for linear: a scale belongs to a
/// row of W, so it moves with the row, and columns move under it.
std::vector<Symmetry> symmetries_of(const Sample& sample, int more) {
  std::vector<Leg> out{in_leg(1, 0), in_leg(more, 0), in_leg(more + 1, -1), out_leg(0, -1)};
  if (more == 3) out.push_back(in_leg(2, 0));
  std::vector<Symmetry> all{{"in", {in_leg(0, -1), in_leg(1, 1)}}, {"out", out}};
  add_row_axes(all, sample.in[0], [&](int axis) { return std::vector<Leg>{in_leg(more + 1, axis), out_leg(0, axis)}; });
  return all;
}

Work work_of(const OpArgs& args, std::span<const TensorSpec> out) {
  return {2.0 * static_cast<double>(out[0].shape.numel()) * static_cast<double>(args.in[1].shape()[1]),
          bytes_moved(args, out)};
}

/// A sample's shapes: x [..., in], the weight [out, in], and what else is given.
struct Case {
  Shape x;
  std::int64_t outs;
  bool bias, addend;
  const char* note;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all{{{4, 5}, 3, true, false, "bias"},
                                     {{4, 5}, 3, false, false, "no bias"},
                                     {{2, 7, 5}, 3, true, true, "bias and addend, more rows than few"},
                                     {{4, 5}, 3, false, true, "addend alone"},
                                     {{33, 65}, 17, true, false, "odd"},
                                     {{3, 130}, 19, true, false, "odd, few rows"},
                                     {{2, 1}, 1, true, false, "extents 1"},
                                     {{0, 5}, 3, true, false, "no rows"},
                                     {{5}, 3, true, true, "one vector"}};
  return all;
}

Tensor drawn(const Shape& shape, DType dtype, std::uint64_t tag) { return sample_normal(shape, dtype, 7700 + tag); }

std::vector<Sample> samples_of(DType dtype, const auto& weight_of) {
  std::vector<Sample> all;
  for (const Case& c : cases()) {
    const std::uint64_t tag = 10 * all.size();
    Shape out = c.x;
    out[-1] = c.outs;
    std::vector<Tensor> in{drawn(c.x, dtype, tag)};
    for (Tensor& part : weight_of(Shape{c.outs, c.x[-1]}, tag)) in.push_back(std::move(part));
    in.push_back(c.bias ? drawn({c.outs}, dtype, tag + 3) : Tensor());
    if (c.addend) in.push_back(drawn(out, dtype, tag + 4));
    all.push_back({std::move(in), {}, c.note});
  }
  all[0].in[0] = scattered(all[0].in[0]);
  all[0].in[1] = scattered(all[0].in[1]);
  return all;
}

// --- linear_int8 ---

std::vector<TensorSpec> int8_infer(const OpArgs& args) {
  for (const std::size_t i : {0U, 2U, 3U, 4U})
    if (args.given(i)) check_floating(args, i);
  check_dtype(args, 1, DType::u8);
  const Shape shape = shape_of_product(args);
  check_shape(args, 2, {args.in[1].shape()[0]});
  check_bias(args, 3);
  check_addend(args, 4, shape);
  return {{shape, args.in[0].dtype()}};
}

/// x in 8 bits as well.
void whole_number_product(const OpArgs& args, const Tensor& codes, const Tensor& scales, Tensor& out) {
  const Tensor rows = flatten_to_rows(args.in[0]);
  const std::int64_t m = rows.shape()[0], k = rows.shape()[1], columns = out.shape()[-1];
  Tensor x = Tensor::empty({m, k}, DType::u8), x_scales = Tensor::empty({m});
  auto* const x_codes = reinterpret_cast<std::int8_t*>(x.mutable_data<std::uint8_t>("linear_int8"));
  int8_product::quantize_rows(m, k, rows.data<float>(), rows.strides()[0], x_codes,
                              x_scales.mutable_data<float>("linear_int8"));
  int8_product::product({.m = m,
                         .n = columns,
                         .k = k,
                         .a = x_codes,
                         .lda = k,
                         .row_scales = x_scales.data<float>(),
                         .b = reinterpret_cast<const std::int8_t*>(codes.data<std::uint8_t>()),
                         .ldb = k,
                         .column_scales = scales.data<float>(),
                         .plus = LinearAddends(args, 3).of<float>(columns),
                         .c = out.mutable_data<float>("linear_int8"),
                         .ldc = columns});
}

void int8_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Tensor codes = packed(args.in[1]);
  const Tensor scales = packed(args.in[2]);
  const std::int64_t k = codes.shape()[1];
  const bool many_rows = out[0].numel() > skinny_gemm::most * out[0].shape()[-1];
  if (matmul_precision() == MatmulPrecision::int8 && out[0].dtype() == DType::f32 && many_rows && k > 0 &&
      k <= int8_product::most_terms)
    return whole_number_product(args, codes, scales, out[0]);
  visit_floating(out[0].dtype(), [&]<class T>() {
    product<T>(args, reinterpret_cast<const std::int8_t*>(codes.data<std::uint8_t>()), scales.data<T>(), 3, out[0]);
  });
}

Gradients int8_vjp(const VjpArgs& args) {
  const Tensor& codes = args.in[1];
  const Tensor& scales = args.in[2];
  Gradients gradients = common_gradients(args, args.wants(0) ? dequantize_int8(codes, scales) : Tensor(), 3);
  if (args.wants(2)) {
    const Tensor unscaled = linear_int8(args.in[0], codes, Tensor::ones(scales.shape(), scales.dtype()));
    gradients[2] = sum(as_rows(args.grad[0] * unscaled), {0});
  }
  return gradients;
}

std::vector<Tensor> int8_reference(const OpArgs& args) {
  const auto* codes = args.in[1].data<std::uint8_t>();
  const std::int64_t ins = args.in[1].shape()[1];
  return {loops(
      args,
      [&](std::int64_t o, std::int64_t i) {
        return values(args.in[2])[o] * static_cast<double>(static_cast<std::int8_t>(codes[o * ins + i]));
      },
      3)};
}

std::vector<Sample> int8_samples(DType dtype) {
  return samples_of(dtype, [&](const Shape& shape, std::uint64_t tag) {
    const Tensor codes = random_integers(shape, {20240613, tag}, 0, 256).to(DType::u8);
    return std::vector<Tensor>{codes, sample_uniform({shape[0]}, dtype, 7700 + tag, 0.005, 0.02)};
  });
}

std::vector<Refusal> int8_refuses() {
  const Tensor x = Tensor::ones({4, 5});
  const Tensor codes = Tensor::ones({3, 5}, DType::u8);
  const Tensor scales = Tensor::ones({3});
  return {{{x, Tensor::ones({5, 3}, DType::u8), scales}, {}, "was it transposed?"},
          {{x, Tensor::ones({3, 6}, DType::u8), scales}, {}, "x is [4, 5], codes is [3, 6]"},
          {{x, Tensor::ones({5}, DType::u8), scales}, {}, "codes must be [out, in]"},
          {{x, Tensor::ones({3, 5}), scales}, {}, "codes must be u8, it is f32"},
          {{x, codes, Tensor::ones({4})}, {}, "scales must be [3], it is [4]"},
          {{x, codes, Tensor::ones({3}, DType::f64)}, {}, "different types"},
          {{x, codes, scales, Tensor::ones({4})}, {}, "bias must be [3], it is [4]"},
          {{x, codes, scales, Tensor(), Tensor::ones({3})}, {}, "addend must have the output's shape"},
          {{Tensor::ones({4, 5}, DType::bf16), codes, scales}, {}, "x must be f32 or f64, it is bf16"}};
}

// --- linear_bf16 ---

std::vector<TensorSpec> bf16_infer(const OpArgs& args) {
  for (const std::size_t i : {0U, 2U, 3U})
    if (args.given(i)) check_floating(args, i);
  check_dtype(args, 1, DType::bf16);
  const Shape shape = shape_of_product(args);
  check_bias(args, 2);
  check_addend(args, 3, shape);
  return {{shape, args.in[0].dtype()}};
}

void bf16_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Tensor weight = packed(args.in[1]);
  visit_floating(out[0].dtype(), [&]<class T>() {
    product<T>(args, weight.data<BFloat16>(), static_cast<const T*>(nullptr), 2, out[0]);
  });
}

std::vector<Tensor> bf16_reference(const OpArgs& args) {
  const auto* weight = args.in[1].data<BFloat16>();
  const std::int64_t ins = args.in[1].shape()[1];
  return {loops(
      args,
      [&](std::int64_t o, std::int64_t i) { return static_cast<double>(static_cast<float>(weight[o * ins + i])); }, 2)};
}

std::vector<Sample> bf16_samples(DType dtype) {
  return samples_of(dtype, [&](const Shape& shape, std::uint64_t tag) {
    return std::vector<Tensor>{drawn(shape, DType::f32, tag + 1).to(DType::bf16)};
  });
}

std::vector<Refusal> bf16_refuses() {
  const Tensor x = Tensor::ones({4, 5});
  const Tensor weight = Tensor::ones({3, 5}, DType::bf16);
  return {{{x, Tensor::ones({5, 3}, DType::bf16)}, {}, "was it transposed?"},
          {{x, Tensor::ones({3, 6}, DType::bf16)}, {}, "x is [4, 5], weight is [3, 6]"},
          {{x, Tensor::ones({5}, DType::bf16)}, {}, "weight must be [out, in]"},
          {{x, Tensor::ones({3, 5})}, {}, "weight must be bf16, it is f32"},
          {{x, weight, Tensor::ones({4})}, {}, "bias must be [3], it is [4]"},
          {{x, weight, Tensor::ones({3}, DType::f64)}, {}, "different types"},
          {{x, weight, Tensor(), Tensor::ones({3})}, {}, "addend must have the output's shape"},
          {{Tensor::ones({4, 5}, DType::bf16), weight}, {}, "x must be f32 or f64, it is bf16"}};
}

} // namespace

constinit const OpDef linear_int8_op = row({
    .name = "linear_int8",
    .math = "y = x W^T + b + addend, w_oi = scales_o q_oi, q the codes as signed numbers",
    .inputs = {{"x"}, {"codes"}, {"scales"}, {"bias", true}, {"addend", true}},
    .infer = int8_infer,
    .cpu = int8_kernel,
    .exact =
        [](const OpArgs& args, std::span<Tensor> out) {
          assign(out[0], exact_linear(args, dequantize_int8(args.in[1], args.in[2]), 3));
        },
    .cuda = [](const OpArgs& args,
               std::span<Tensor> out) { linear_product_on_device(args, args.in[1], packed(args.in[2]), 3, out[0]); },
    .saves = saves::in(0) | saves::in(1) | saves::in(2),
    .vjp = int8_vjp,
    .reference = int8_reference,
    .samples = int8_samples,
    .refuses = int8_refuses,
    .symmetries = [](const Sample& sample) { return symmetries_of(sample, 3); },
    .work = work_of,
});

constinit const OpDef linear_bf16_op = row({
    .name = "linear_bf16",
    .math = "y = x W^T + b + addend, W in bf16",
    .inputs = {{"x"}, {"weight"}, {"bias", true}, {"addend", true}},
    .infer = bf16_infer,
    .cpu = bf16_kernel,
    .exact = [](const OpArgs& args,
                std::span<Tensor> out) { assign(out[0], exact_linear(args, args.in[1].to(args.in[0].dtype()), 2)); },
    .cuda = [](const OpArgs& args,
               std::span<Tensor> out) { linear_product_on_device(args, args.in[1], Tensor(), 2, out[0]); },
    .saves = saves::in(1),
    .vjp =
        [](const VjpArgs& args) {
          return common_gradients(args, args.wants(0) ? args.in[1].to(args.in[0].dtype()) : Tensor(), 2);
        },
    .reference = bf16_reference,
    .samples = bf16_samples,
    .refuses = bf16_refuses,
    .symmetries = [](const Sample& sample) { return symmetries_of(sample, 2); },
    .work = work_of,
});

Tensor linear_int8(const Tensor& x, const Tensor& codes, const Tensor& scales, const Tensor& bias,
                   const Tensor& addend) {
  return call1(linear_int8_op, {x, codes, scales, bias, addend});
}

Tensor linear_bf16(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& addend) {
  return call1(linear_bf16_op, {x, weight, bias, addend});
}

} // namespace eg
