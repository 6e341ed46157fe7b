// contiguous and cast: the rows that copy all elements in order.

#include "core/device/module.h"
#include "core/device/transfer.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/views/converted.h"
#include "core/ops/views/movement.h"
#include "core/ops/views/round_to_bf16.h"
#include "core/ops/views/strided_copy.h"
#include "core/strided.h"
#include "core/threads/parallel.h"

#include <fmt/format.h>

namespace eg {
namespace {

void contiguous_cpu(const OpArgs& a, std::span<Tensor> out) {
  if (a.in[0].numel() > 0) pack_into(out[0].mutable_bytes("contiguous"), a.in[0]);
}

void contiguous_cuda(const OpArgs& a, std::span<Tensor> out) {
  if (a.in[0].numel() > 0) device::copy_elements(out[0], a.in[0]);
}

std::vector<Tensor> copy_reference(const OpArgs& a) {
  const Tensor& x = a.in[0];
  return {tabulate(x.shape(), x.dtype(), [&](const Index& i) { return read(x, i); })};
}

std::vector<Symmetry> every_axis(const Sample& s) {
  std::vector<Symmetry> list;
  for (int axis = 0; axis < s.in[0].rank(); ++axis) add_axis_symmetry(list, s, axis, axis);
  return list;
}

std::vector<Sample> contiguous_samples(DType dtype) {
  return {{{sample_transposed({33, 65}, dtype, 1)}, {}, "a transposed matrix"},
          {{sample_values({4, 9}, dtype, 2).slice(1, 1, 8, 3)}, {}, "every third column"},
          {{sample_values({2, 3, 4, 5}, dtype, 3).permute({0, 2, 1, 3})}, {}, "tokens and heads swapped"},
          {{sample_values({3, 1}, dtype, 4).expand({3, 7})}, {}, "a repeated column"},
          {{sample_values({1, 7}, dtype, 5)}, {}, "already packed"},
          {{sample_values({0, 3}, dtype, 6)}, {}, "no elements"}};
}

std::vector<Refusal> contiguous_refuses() {
  return {{{Tensor()}, {}, "input 'x' must be given"},
          {{Tensor::zeros({2})}, {{"axis", std::int64_t{0}}}, "there is no attribute 'axis'"}};
}

void cast_cpu(const OpArgs& a, std::span<Tensor> out) {
  const Tensor x = a.in[0].contiguous();
  if (x.dtype() == out[0].dtype()) return contiguous_cpu(a, out);
  visit_dtype(x.dtype(), [&]<class From>() {
    visit_dtype(out[0].dtype(), [&]<class To>() {
      const From* from = x.data<From>();
      To* to = out[0].mutable_data<To>("cast");
      parallel::for_each(x.numel(), 16384, [=](std::int64_t begin, std::int64_t end) {
        if constexpr (std::is_same_v<From, float> && std::is_same_v<To, BFloat16>)
          round_to_bf16(from + begin, end - begin, to + begin);
        else
          for (std::int64_t i = begin; i < end; ++i) to[i] = converted<To>(from[i]);
      });
    });
  });
}

void cast_cuda(const OpArgs& a, std::span<Tensor> out) {
  if (a.in[0].dtype() == out[0].dtype()) return contiguous_cuda(a, out);
  const Tensor x = packed(a.in[0]);
  const device::CastJob job{out[0].mutable_device_bytes("cast"), x.device_bytes(), out[0].dtype(), x.dtype(),
                            x.numel()};
  if (job.count > 0) device::launch(x.device(), "cast", &device::Table::cast, job);
}

DType target(const OpArgs& a) {
  try {
    return dtype_named(a.attrs.text("dtype"));
  } catch (const ValueError& e) {
    throw ValueError(fmt::format("cast: {}", e.what()));
  }
}

std::vector<Sample> cast_samples(DType dtype) {
  const Attrs same{{"dtype", std::string(name_of(dtype))}};
  const Attrs wide{{"dtype", std::string("f64")}};
  return {{{sample_values({3, 5}, dtype, 1)}, wide, "to f64"},
          {{sample_transposed({7, 4}, dtype, 2)}, wide, "a transposed matrix"},
          {{sample_values({1, 3}, dtype, 3)}, same, "to its own type"},
          {{sample_values({2, 0}, dtype, 4)}, wide, "no elements"}};
}

std::vector<Refusal> cast_refuses() {
  return {{{Tensor::zeros({2})}, {{"dtype", std::string("f16")}}, "f16"},
          {{Tensor::zeros({2})}, {}, "attribute 'dtype' must be given"}};
}

Gradients cast_vjp(const VjpArgs& v) {
  if (!is_floating(v.in[0].dtype())) return {Tensor()};
  return {cast(v.grad[0], v.in[0].dtype())};
}

} // namespace

constinit const OpDef contiguous_op = row({
    .name = "contiguous",
    .math = "y = x, densely packed in row-major order",
    .inputs = {{"x"}},
    .infer = [](const OpArgs& a) -> std::vector<TensorSpec> {
      return {{a.in[0].shape(), a.in[0].dtype()}};
    },
    .cpu = contiguous_cpu,
    .cuda = contiguous_cuda,
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& v) -> Gradients { return {v.grad[0]}; },
    .reference = copy_reference,
    .samples = contiguous_samples,
    .refuses = contiguous_refuses,
    .symmetries = every_axis,
    .work = movement_work,
});

constinit const OpDef cast_op = row({
    .name = "cast",
    .math = "y = x in another element type, to nearest even; integers saturate, NaN becomes 0, bool is x != 0",
    .inputs = {{"x"}},
    .attributes = {required_attr("dtype", AttrKind::text, "f32, f64, i64, u8, bool or bf16")},
    .infer = [](const OpArgs& a) -> std::vector<TensorSpec> {
      return {{a.in[0].shape(), target(a)}};
    },
    .cpu = cast_cpu,
    .cuda = cast_cuda,
    .cuda_same_bits = true,
    .vjp = cast_vjp,
    .reference = copy_reference,
    .samples = cast_samples,
    .refuses = cast_refuses,
    .symmetries = every_axis,
    .work = movement_work,
});

Tensor contiguous(const Tensor& x) { return call1(contiguous_op, {x}); }
Tensor cast(const Tensor& x, DType dtype) { return call1(cast_op, {x}, {{"dtype", std::string(name_of(dtype))}}); }

} // namespace eg
