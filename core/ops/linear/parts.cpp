#include "core/ops/linear/parts.h"

#include "core/base/error.h"
#include "core/ops.h"
#include "core/ops/matmul/device_product.h"
#include "core/ops/matmul/operands.h"
#include "core/ops/row_tools.h"

#include <fmt/format.h>

namespace eg {

Shape shape_of_product(const OpArgs& args) {
  const Tensor& x = args.in[0];
  const Tensor& weight = args.in[1];
  const std::string_view op = args.op.name;
  const std::string_view name = args.op.inputs[1].name;
  if (weight.rank() != 2)
    throw ShapeError(fmt::format("{}: {} must be [out, in], it is {}", op, name, weight.shape().str()));
  Shape shape = x.shape();
  if (x.rank() < 1 || shape[-1] != weight.shape()[1]) {
    const bool flipped = x.rank() >= 1 && shape[-1] == weight.shape()[0];
    throw ShapeError(fmt::format("{}: x's last axis is not the weight's `in`: x is {}, {} is {}{}", op, shape.str(),
                                 name, weight.shape().str(),
                                 flipped ? "; weights are [out, in], was it transposed?" : ""));
  }
  shape[-1] = weight.shape()[0];
  return shape;
}

void check_bias(const OpArgs& args, std::size_t i) {
  const std::int64_t outs = args.in[1].shape()[0];
  if (args.given(i) && args.in[i].shape() != Shape{outs})
    throw ShapeError(fmt::format("{}: bias must be [{}], it is {}", args.op.name, outs, args.in[i].shape().str()));
}

void check_addend(const OpArgs& args, std::size_t i, const Shape& shape) {
  if (args.given(i) && args.in[i].shape() != shape)
    throw ShapeError(fmt::format("{}: addend must have the output's shape: addend is {}, the output is {}",
                                 args.op.name, args.in[i].shape().str(), shape.str()));
}

LinearAddends::LinearAddends(const OpArgs& args, std::size_t more)
    : bias(args.given(more) ? packed(args.in[more]) : Tensor()),
      addend(args.given(more + 1) ? packed(args.in[more + 1]) : Tensor()) {}

Tensor exact_linear(const OpArgs& args, const Tensor& weight, std::size_t more) {
  const bool vector = args.in[0].rank() == 1;
  Tensor y = matmul(vector ? args.in[0].unsqueeze(0) : args.in[0], weight, false, true);
  if (vector) y = y.squeeze(0);
  if (args.given(more)) y = y + args.in[more];
  if (args.given(more + 1)) y = y + args.in[more + 1];
  return y;
}

void linear_product_on_device(const OpArgs& args, const Tensor& weight, const Tensor& scales, std::size_t more,
                              Tensor& y, const Tensor& activated, device::GeluOf gelu) {
  if (y.numel() == 0) return;
  const auto given = [&](std::size_t i) { return args.given(i) ? packed(args.in[i]) : Tensor(); };
  const Tensor rows = args.in[0].rank() == 2 ? args.in[0] : flatten_to_rows(args.in[0]);
  const bool codes = scales.defined(); // they are multiplied in the type of x
  const device::Product p{.m = rows.shape()[0],
                          .n = weight.shape()[0],
                          .k = rows.shape()[1],
                          .a = device::matrix_part(rows, false, !codes),
                          .b = device::matrix_part(weight, true),
                          .scales = scales,
                          .bias = given(more),
                          .addend = given(more + 1),
                          .activated = activated,
                          .gelu = gelu};
  device::start_product(args.op.name.data(), p, y, 0, p.n);
}

} // namespace eg
