#include "core/ops/pointwise/ternary.h"

#include "core/device/axes.h"
#include "core/device/module.h"
#include "core/ops/pointwise/broadcast.h"

namespace eg::pointwise {
namespace {

/// Packed operands step along the innermost axis by 1 or not at all.
template <class T> void run_packed(TernaryKernel<T> f, const std::array<Tensor, 3>& in, Tensor& y) {
  const BroadcastLoop<3> loop = broadcast_loop(in, y.shape());
  const std::array<const T*, 3> data = {in[0].data<T>(), in[1].data<T>(), in[2].data<T>()};
  T* to = y.mutable_data<T>();
  const auto operand = [&](std::size_t k, std::int64_t at) { return Operand<T>{data[k] + at, loop.step(k) != 0}; };
  for_each_piece(loop, [&](const std::array<std::int64_t, 3>& at, std::int64_t out, std::int64_t n) {
    f(operand(0, at[0]), operand(1, at[1]), operand(2, at[2]), to + out, n);
  });
}

} // namespace

void run(TernaryKernel<float> f32, TernaryKernel<double> f64, const std::array<Tensor, 3>& in, Tensor& y) {
  if (y.numel() == 0) return;
  const std::array<Tensor, 3> all = {packed(in[0]), packed(in[1]), packed(in[2])};
  visit_floating(y.dtype(), [&]<class T>() {
    if constexpr (sizeof(T) == sizeof(float))
      run_packed<T>(f32, all, y);
    else
      run_packed<T>(f64, all, y);
  });
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
