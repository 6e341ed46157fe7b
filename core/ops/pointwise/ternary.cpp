#include "core/ops/pointwise/ternary.h"

#include "core/device/axes.h"
#include "core/device/module.h"
#include "core/ops/pointwise/broadcast.h"

namespace eg::pointwise {
namespace {

template <class T> void run_as(Ternary op, std::array<Tensor, 3> in, Tensor& y, double p) {
  BroadcastLoop<3> loop = broadcast_loop(in, y.shape());
  for (std::size_t k = 0; k < in.size(); ++k) // the kernels step by 1 or stay
    if (loop.step(k) != 0 && loop.step(k) != 1) in[k] = packed(in[k]);
  loop = broadcast_loop(in, y.shape());
  const std::array<const T*, 3> data = {in[0].data<T>(), in[1].data<T>(), in[2].data<T>()};
  T* to = y.mutable_data<T>();
  const TernaryKernel<T> f = kernel<T>(op);
  const auto operand = [&](std::size_t k, std::int64_t at) { return Operand<T>{data[k] + at, loop.step(k) != 0}; };
  for_each_piece(loop, [&](const std::array<std::int64_t, 3>& at, std::int64_t out, std::int64_t n) {
    f(operand(0, at[0]), operand(1, at[1]), operand(2, at[2]), to + out, n, p);
  });
}

} // namespace

void run(Ternary op, const std::array<Tensor, 3>& in, Tensor& y, double p) {
  if (y.numel() == 0) return;
  visit_floating(y.dtype(), [&]<class T>() { run_as<T>(op, in, y, p); });
}

std::optional<Tensor> fused(Ternary op, const std::array<Tensor, 3>& in, const Shape& shape, double p) {
  const DType dtype = in[0].dtype();
  if (in[1].dtype() != dtype || in[2].dtype() != dtype || !may_fuse(in)) return {};
  Tensor y = Tensor::empty(shape, dtype);
  run(op, in, y, p);
  return y;
}

void run_on_device(device::Ternary op, const OpArgs& args, Tensor& y) {
  if (y.numel() == 0) return;
  const device::TernaryJob job{op,
                               y.dtype(),
                               y.mutable_device_bytes(args.op.name.data()),
                               args.in[0].device_bytes(),
                               args.in[1].device_bytes(),
                               args.in[2].device_bytes(),
                               device::broadcast_axes<3>(y, {&args.in[0], &args.in[1], &args.in[2]})};
  device::launch(y.device(), args.op.name.data(), &device::Table::ternary, job);
}

} // namespace eg::pointwise
