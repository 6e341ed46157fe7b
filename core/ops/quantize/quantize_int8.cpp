// quantize_int8: a matrix in 8 bits with a scale for each row; dequantize_int8: the matrix that they represent.

#include "core/call.h"
#include "core/device/module.h"
#include "core/gemm/low_bit_weights.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/quantize/scale.h"
#include "core/ops/row_tools.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg {
namespace {

using quantize::nearest;
using quantize::scale_of;

/// Codes of a row; returns its scale, NaN where the row holds a NaN or an infinity.
template <class T> double quantize_row(const T* w, std::int64_t n, std::uint8_t* codes) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits magnitude = std::numeric_limits<Bits>::max() >> 1;
  Bits largest = 0; // bits of magnitudes are ordered as the magnitudes are, NaN last
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, std::bit_cast<Bits>(w[i]) & magnitude);
  const auto most = std::bit_cast<T>(largest);
  if (!std::isfinite(most)) return std::numeric_limits<double>::quiet_NaN();
  const double scale = scale_of(static_cast<double>(most));
  for (std::int64_t i = 0; i < n; ++i)
    codes[i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(nearest(static_cast<double>(w[i]) / scale)));
  return scale;
}

template <class T> [[noreturn]] void refuse_row(const T* w, std::int64_t n, std::int64_t row) {
  const auto bad = std::find_if(w, w + n, [](T x) { return !std::isfinite(x); });
  throw ValueError(fmt::format("quantize_int8: weight is {} at [{}, {}]", *bad, row, bad - w));
}

std::vector<TensorSpec> quantize_infer(const OpArgs& args) {
  check_floating(args, 0);
  const Shape& shape = args.in[0].shape();
  if (shape.rank() != 2)
    throw ShapeError(fmt::format("quantize_int8: weight must be [out, in], it is {}", shape.str()));
  return {{shape, DType::u8}, {{shape[0]}, args.in[0].dtype()}};
}

void quantize_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Tensor weight = packed(args.in[0]);
  const std::int64_t rows = weight.size(0), n = weight.size(1);
  visit_floating(weight.dtype(), [&]<class T>() {
    const T* w = weight.data<T>();
    auto* codes = out[0].mutable_data<std::uint8_t>("quantize_int8");
    T* scales = out[1].mutable_data<T>("quantize_int8");
    parallel::for_each(rows, parallel::grain_for_bytes(n * static_cast<std::int64_t>(sizeof(T))),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t r = begin; r < end; ++r)
                           scales[r] = static_cast<T>(quantize_row(w + r * n, n, codes + r * n));
                       });
    for (std::int64_t r = 0; r < rows; ++r)
      if (std::isnan(scales[r])) refuse_row(w + r * n, n, r);
  });
}

void quantize_cuda(const OpArgs& args, std::span<Tensor> out) {
  const Tensor weight = packed(args.in[0]);
  if (weight.size(0) == 0) return;
  const device::QuantizeJob job{weight.dtype(),
                                weight.device_bytes(),
                                reinterpret_cast<std::uint8_t*>(out[0].mutable_device_bytes("quantize_int8")),
                                out[1].mutable_device_bytes("quantize_int8"),
                                weight.size(0),
                                weight.size(1)};
  device::launch(weight.device(), "quantize_int8", &device::Table::quantize_int8, job);
}

std::vector<Tensor> quantize_reference(const OpArgs& args) {
  const Tensor& weight = args.in[0];
  const std::int64_t rows = weight.size(0), n = weight.size(1);
  Tensor codes = Tensor::zeros(weight.shape(), DType::u8);
  Tensor scales = reference_output({rows});
  for (std::int64_t r = 0; r < rows; ++r) {
    const double* w = values(weight) + r * n;
    double largest = 0.0;
    for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(w[i]));
    int exponent = 0; // largest / 127 = mantissa 2^exponent, mantissa in [1/2, 1)
    const double mantissa = std::frexp(largest / 127.0, &exponent);
    values(scales)[r] = std::max(std::ldexp(std::round(mantissa * 65536.0), exponent - 16), 0x1p-126);
    for (std::int64_t i = 0; i < n; ++i) {
      const double q = std::nearbyint(w[i] / values(scales)[r]); // -127 to 127
      codes.mutable_data<std::uint8_t>()[r * n + i] = static_cast<std::uint8_t>(q < 0.0 ? q + 256.0 : q);
    }
  }
  return {codes, scales};
}

std::vector<Sample> quantize_samples(DType dtype) {
  const auto drawn = [&](const Shape& shape, std::uint64_t tag, double scale = 1.0) {
    return sample_normal(shape, dtype, 7600 + tag, scale);
  };
  return {{{drawn({4, 5}, 0)}, {}, "a matrix"},
          {{drawn({17, 65}, 1, 1e-3)}, {}, "odd, small"},
          {{scattered(drawn({3, 7}, 2, 1e30))}, {}, "strided, large"},
          {{Tensor::zeros({2, 3}, dtype)}, {}, "zeros"},
          {{drawn({2, 3}, 3, 1e-37)}, {}, "all below the least scale's reach"},
          {{drawn({1, 1}, 4)}, {}, "one number"},
          {{drawn({0, 5}, 5)}, {}, "no rows"},
          {{drawn({3, 0}, 6)}, {}, "no columns"}};
}

std::vector<Refusal> quantize_refuses() {
  const auto with = [](double value) {
    Tensor weight = Tensor::ones({3, 4});
    weight.mutable_data<float>()[9] = static_cast<float>(value);
    return weight;
  };
  return {{{Tensor::ones({3})}, {}, "weight must be [out, in], it is [3]"},
          {{Tensor::ones({3, 4}, DType::bf16)}, {}, "weight must be f32 or f64, it is bf16"},
          {{with(std::nan(""))}, {}, "weight is nan at [2, 1]"},
          {{with(-INFINITY)}, {}, "weight is -inf at [2, 1]"}};
}

// --- dequantize_int8 ---

std::vector<TensorSpec> dequantize_infer(const OpArgs& args) {
  check_dtype(args, 0, DType::u8);
  check_floating(args, 1);
  const Shape& shape = args.in[0].shape();
  if (shape.rank() != 2)
    throw ShapeError(fmt::format("dequantize_int8: codes must be [out, in], it is {}", shape.str()));
  check_shape(args, 1, {shape[0]});
  return {{shape, args.in[1].dtype()}};
}

void dequantize_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Tensor codes = packed(args.in[0]), scales = packed(args.in[1]);
  const std::int64_t n = codes.size(1);
  visit_floating(scales.dtype(), [&]<class T>() {
    low_bit_weights::widen<T, std::int8_t>(codes.size(0), n,
                                           reinterpret_cast<const std::int8_t*>(codes.data<std::uint8_t>()), n,
                                           scales.data<T>(), out[0].mutable_data<T>("dequantize_int8"));
  });
}

void dequantize_cuda(const OpArgs& args, std::span<Tensor> out) {
  const Tensor codes = packed(args.in[0]), scales = packed(args.in[1]);
  if (codes.numel() == 0) return;
  const device::DequantizeJob job{scales.dtype(),
                                  out[0].mutable_device_bytes("dequantize_int8"),
                                  reinterpret_cast<const std::uint8_t*>(codes.device_bytes()),
                                  scales.device_bytes(),
                                  codes.size(0),
                                  codes.size(1)};
  device::launch(codes.device(), "dequantize_int8", &device::Table::dequantize_int8, job);
}

/// Of the scales alone: sum_i g[o, i] q[o, i].
Gradients dequantize_vjp(const VjpArgs& args) {
  Gradients gradients(2);
  if (!args.wants(1)) return gradients;
  const Tensor unscaled = dequantize_int8(args.in[0], Tensor::ones(args.in[1].shape(), args.in[1].dtype()));
  gradients[1] = sum(args.grad[0] * unscaled, {1});
  return gradients;
}

std::vector<Tensor> dequantize_reference(const OpArgs& args) {
  const Tensor& codes = args.in[0];
  Tensor y = reference_output(codes.shape());
  for (std::int64_t at = 0; at < y.numel(); ++at) {
    const auto q = static_cast<std::int8_t>(codes.data<std::uint8_t>()[at]);
    values(y)[at] = values(args.in[1])[at / codes.size(1)] * static_cast<double>(q);
  }
  return {y};
}

std::vector<Sample> dequantize_samples(DType dtype) {
  const auto sample = [&](const Shape& shape, std::uint64_t tag, const char* note) {
    const Tensor codes = random_integers(shape, {20240614, tag}, 0, 256).to(DType::u8);
    return Sample{{codes, sample_normal({shape[0]}, dtype, 7650 + tag)}, {}, note};
  };
  std::vector<Sample> all{sample({4, 5}, 0, "a matrix"), sample({17, 65}, 1, "odd"), sample({1, 1}, 2, "one number"),
                          sample({0, 5}, 3, "no rows"), sample({3, 0}, 4, "no columns")};
  all.push_back(sample({3, 7}, 5, "strided"));
  for (Tensor& x : all.back().in) x = scattered(x);
  return all;
}

std::vector<Refusal> dequantize_refuses() {
  const Tensor codes = Tensor::ones({3, 4}, DType::u8);
  return {{{Tensor::ones({3, 4}), Tensor::ones({3})}, {}, "codes must be u8, it is f32"},
          {{Tensor::ones({3}, DType::u8), Tensor::ones({3})}, {}, "codes must be [out, in], it is [3]"},
          {{codes, Tensor::ones({4})}, {}, "scales must be [3], it is [4]"},
          {{codes, Tensor::ones({3}, DType::i64)}, {}, "scales must be f32 or f64, it is i64"}};
}

} // namespace

constinit const OpDef quantize_int8_op = row({
    .name = "quantize_int8",
    .math = "scales_o = max_i |w_oi| / 127 to 16 bits, q_oi = round(w_oi / scales_o), codes the bytes of q",
    .inputs = {{"weight"}},
    .outputs = {"codes", "scales"},
    .infer = quantize_infer,
    .cpu = quantize_kernel,
    .cuda = quantize_cuda,
    .cuda_same_bits = true,
    .no_gradient = "its codes are whole numbers, and its scales hang on the largest number of a row alone",
    .reference = quantize_reference,
    .samples = quantize_samples,
    .refuses = quantize_refuses,
    .symmetries =
        [](const Sample&) {
          return std::vector<Symmetry>{{"rows", {in_leg(0, 0), out_leg(0, 0), out_leg(1, 0)}},
                                       {"columns", {in_leg(0, 1), out_leg(0, 1)}}};
        },
    .work = elementwise_work<3>,
});

constinit const OpDef dequantize_int8_op = row({
    .name = "dequantize_int8",
    .math = "w_oi = scales_o q_oi, q the codes as signed numbers",
    .inputs = {{"codes"}, {"scales"}},
    .infer = dequantize_infer,
    .cpu = dequantize_kernel,
    .cuda = dequantize_cuda,
    .cuda_same_bits = true,
    .saves = saves::in(0),
    .vjp = dequantize_vjp,
    .reference = dequantize_reference,
    .samples = dequantize_samples,
    .refuses = dequantize_refuses,
    .symmetries =
        [](const Sample&) {
          return std::vector<Symmetry>{{"rows", {in_leg(0, 0), in_leg(1, 0), out_leg(0, 0)}},
                                       {"columns", {in_leg(0, 1), out_leg(0, 1)}}};
        },
    .work = elementwise_work<1>,
});

Int8Matrix quantize_int8(const Tensor& weight) {
  const std::vector<Tensor> out = call(quantize_int8_op, {weight});
  return {out[0], out[1]};
}

Tensor dequantize_int8(const Tensor& codes, const Tensor& scales) { return call1(dequantize_int8_op, {codes, scales}); }

} // namespace eg
