#include "core/ops/pointwise/run.h"

#include "core/device/axes.h"
#include "core/device/device.h"
#include "core/device/module.h"
#include "core/device/transfer.h"
#include "core/element.h"
#include "core/ops/pointwise/broadcast.h"
#include "core/ops/pointwise/whole.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg::pointwise {
namespace {

Steps steps_of(const BroadcastLoop<2>& loop) {
  if (loop.step(0) == 0) return loop.step(1) == 0 ? Steps::both : Steps::second;
  return loop.step(1) == 0 ? Steps::first : Steps::both;
}

/// The kernels step by 1 or stay; any other step along the innermost axis is packed away first.
bool steps_by_one_or_stays(std::int64_t stride) { return stride == 0 || stride == 1; }

template <class T> void run_binary(Binary op, std::array<Tensor, 2> in, Tensor& y) {
  BroadcastLoop<2> loop = broadcast_loop(in, y.shape());
  for (std::size_t k = 0; k < 2; ++k)
    if (!steps_by_one_or_stays(loop.step(k))) in[k] = packed(in[k]);
  loop = broadcast_loop(in, y.shape());
  if (loop.inner() > 1 && loop.step(0) == 0 && loop.step(1) == 0) { // both repeat: views made by expand
    in = {packed(in[0]), packed(in[1])};
    loop = broadcast_loop(in, y.shape());
  }
  const BinaryKernel<T> f = kernel<T>(op);
  const Steps steps = steps_of(loop);
  const T* a = in[0].data<T>();
  const T* b = in[1].data<T>();
  T* to = y.mutable_data<T>();
  for_each_piece(loop, [&](const std::array<std::int64_t, 2>& at, std::int64_t out, std::int64_t n) {
    f(a + at[0], b + at[1], to + out, n, steps);
  });
}

bool both_whole(const OpArgs& args) { return is_whole(args.in[0].dtype()) && is_whole(args.in[1].dtype()); }

template <class T> void run_unary(Unary op, const Tensor& x, Tensor& y, const double* p) {
  const UnaryKernel<T> f = kernel<T>(op);
  const T* from = x.data<T>();
  T* to = y.mutable_data<T>();
  parallel::for_each(x.numel(), chunk,
                     [&](std::int64_t begin, std::int64_t end) { f(from + begin, to + begin, end - begin, p); });
}

} // namespace

std::vector<double> parameters(const OpArgs& args) {
  std::vector<double> values;
  for (const AttrSpec& spec : args.op.attributes)
    if (spec.kind == AttrKind::real) values.push_back(args.attrs.real(spec.name));
  return values;
}

Tensor number_like(std::string_view op, const Tensor& x, double value) {
  visit_dtype(x.dtype(), [&]<class T>() {
    if (!holds<T>(value))
      throw ValueError(fmt::format("{}: {} is not a number of type {}", op, value, name_of(x.dtype())));
  });
  const PauseRecording pause;
  const DeviceScope here(Device::cpu());
  const Tensor number = Tensor::full({}, value, DType::f64).to(x.dtype());
  return x.device().is_cpu() ? number : device::transferred(number, x.device());
}

void run(Unary op, const OpArgs& args, Tensor& y) {
  if (is_whole(args.in[0].dtype())) return run_whole(op, args, y);
  const Tensor x = packed(args.in[0]);
  const std::vector<double> p = parameters(args);
  visit_floating(x.dtype(), [&]<class T>() { run_unary<T>(op, x, y, p.data()); });
}

void run(Binary op, const OpArgs& args, Tensor& y) {
  if (y.numel() == 0) return;
  if (y.dtype() == DType::i64) return run_whole(op, args, y);
  if (both_whole(args)) { // a quotient: of f64 numbers, then rounded
    Tensor wide = Tensor::empty(y.shape(), DType::f64);
    run_binary<double>(op, {as_type(args.in[0], DType::f64), as_type(args.in[1], DType::f64)}, wide);
    y = as_type(wide, y.dtype());
    return;
  }
  visit_floating(y.dtype(), [&]<class T>() {
    run_binary<T>(op, {as_type(args.in[0], y.dtype()), as_type(args.in[1], y.dtype())}, y);
  });
}

void run_on_device(Unary op, const OpArgs& args, Tensor& y) {
  if (y.numel() == 0) return;
  if (is_whole(args.in[0].dtype())) return run_on_host(args.op.cpu, args, std::span(&y, 1));
  const Tensor x = packed(args.in[0]);
  device::UnaryJob job{static_cast<int>(op), x.dtype(), x.device_bytes(), y.mutable_device_bytes(), x.numel(), {}};
  const std::vector<double> p = parameters(args);
  std::copy_n(p.begin(), std::min(p.size(), std::size(job.parameters)), job.parameters);
  device::launch(y.device(), args.op.name.data(), &device::Table::unary, job);
}

void run_on_device(Binary op, const OpArgs& args, Tensor& y) {
  if (y.numel() == 0) return;
  if (both_whole(args)) return run_on_host(args.op.cpu, args, std::span(&y, 1));
  const Tensor a = as_type(args.in[0], y.dtype()), b = as_type(args.in[1], y.dtype());
  const device::BinaryJob job{static_cast<int>(op), y.dtype(),        y.mutable_device_bytes(),
                              a.device_bytes(),     b.device_bytes(), device::broadcast_axes<2>(y, {&a, &b})};
  device::launch(y.device(), args.op.name.data(), &device::Table::binary, job);
}

} // namespace eg::pointwise
