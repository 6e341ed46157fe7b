#include "core/ops/norm_tools.h"

#include "core/device/module.h"
#include "core/device/transfer.h"
#include "core/ops.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace eg::norm_tools {

void check_eps(const OpArgs& args) {
  if (const double eps = args.attrs.real("eps"); !(eps >= 0.0))
    throw ValueError(fmt::format("{}: eps must not be negative, it is {}", args.op.name, eps));
}

void check_rows(const OpArgs& args, std::initializer_list<std::size_t> parameters) {
  check_all_floating(args);
  check_rank_at_least(args, 0, 1);
  for (const std::size_t i : parameters)
    if (args.given(i)) check_shape(args, i, {args.in[0].shape()[-1]});
  check_eps(args);
}

namespace {

/// A power of two near the largest |c| of each group, or near sqrt(eps) where that is larger, if its square would leave
/// the type or lose digits; 1 for the others. A constant, not recorded. Undefined where there is no such group.
Tensor extreme_units(const Tensor& c, const std::vector<std::int64_t>& axes, double eps) {
  const PauseRecording pause;
  if (c.numel() == 0) return {};
  const Tensor sizes = amax(abs(c), axes, true);
  if (!sizes.has_storage()) return {}; // shapes without values
  Tensor units = device::on_cpu(sizes).contiguous();
  bool any = false;
  visit_floating(units.dtype(), [&]<class T>() {
    constexpr T most = sizeof(T) == 4 ? T{0x1p50} : static_cast<T>(0x1p400);
    constexpr int least_exponent = std::numeric_limits<T>::min_exponent; // whose reciprocal is in range
    const T root = std::sqrt(static_cast<T>(eps));
    T* const unit = units.mutable_data<T>("norm");
    for (std::int64_t i = 0; i < units.numel(); ++i) {
      const T size = std::isnan(unit[i]) ? unit[i] : std::max(unit[i], root);
      const bool extreme = std::isfinite(size) && size > T{0} && (size > most || size < T{1} / most);
      any = any || extreme;
      unit[i] = extreme ? std::ldexp(T{1}, std::max(std::ilogb(size), least_exponent)) : T{1};
    }
  });
  if (!any) return {};
  return c.device().is_cpu() ? units : device::transferred(units, c.device());
}

} // namespace

Tensor reciprocal_deviation(const Tensor& c, const std::vector<std::int64_t>& axes, double eps) {
  const Tensor unit = extreme_units(c, axes, eps);
  if (!unit.defined()) return rsqrt(mean(c * c, axes, true) + eps);
  const Tensor scaled = c / unit;
  const Tensor per_unit = reciprocal(unit);
  return rsqrt(mean(scaled * scaled, axes, true) + per_unit * eps * per_unit) / unit; // in this order: no overflow
}

void forward_on_device(const OpArgs& args, bool centred, const Tensor& gamma, const Tensor& beta, Tensor& y) {
  if (y.numel() == 0) return;
  const Tensor x = packed(args.in[0]);
  const Tensor times = gamma.defined() ? packed(gamma) : gamma, plus = beta.defined() ? packed(beta) : beta;
  const std::int64_t n = x.shape()[-1];
  const char* const name = args.op.name.data();
  const device::NormJob job{x.dtype(),
                            centred,
                            x.device_bytes(),
                            times.defined() ? times.device_bytes() : nullptr,
                            plus.defined() ? plus.device_bytes() : nullptr,
                            y.mutable_device_bytes(name),
                            x.numel() / n,
                            n,
                            args.attrs.real("eps")};
  device::launch(x.device(), name, &device::Table::norm, job);
}

void backward_on_device(const OpArgs& args, bool centred, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]), g = packed(args.in[2]);
  if (x.numel() == 0) {
    for (Tensor& t : out) t.fill(0.0);
    return;
  }
  const Tensor gamma = args.given(1) ? packed(args.in[1]) : Tensor{};
  const char* const name = args.op.name.data();
  device::NormBackwardJob job{};
  job.type = x.dtype();
  job.centred = centred;
  job.x = x.device_bytes();
  job.gamma = gamma.defined() ? gamma.device_bytes() : nullptr;
  job.g = g.device_bytes();
  job.dx = out[0].mutable_device_bytes(name);
  job.n = x.shape()[-1];
  job.rows = x.numel() / job.n;
  job.eps = args.attrs.real("eps");
  Tensor statistics, partial; // until the kernels are queued
  if (args.attrs.flag("parameters")) {
    constexpr std::int64_t least_rows = 32, most_chunks = 256;
    job.chunk = std::max(least_rows, parallel::chunks(job.rows, most_chunks));
    job.chunks = parallel::chunks(job.rows, job.chunk);
    statistics = Tensor::empty({3 * job.rows}, DType::f64, x.device());
    partial = Tensor::empty({2 * job.chunks * job.n}, DType::f64, x.device());
    job.statistics = reinterpret_cast<double*>(statistics.mutable_device_bytes(name));
    job.partial = reinterpret_cast<double*>(partial.mutable_device_bytes(name));
    job.dgamma = out[1].mutable_device_bytes(name);
    job.dbeta = out.size() > 2 ? out[2].mutable_device_bytes(name) : nullptr;
  }
  device::launch(x.device(), name, &device::Table::norm_backward, job);
}

Tensor beside(const Tensor& vector, const Tensor& x) {
  Shape shape = {vector.numel()};
  for (int axis = 2; axis < x.rank(); ++axis) shape.push_back(1);
  return vector.reshape(shape);
}

std::vector<std::int64_t> other_axes(const Tensor& x) {
  std::vector<std::int64_t> axes = {0};
  for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  return axes;
}

std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t row_bytes) {
  return std::max(parallel::grain_for_bytes(row_bytes), (rows + 63) / 64);
}

template <class T> void join(const T* partial, std::int64_t chunks, std::int64_t stride, std::int64_t n, T* out) {
  std::copy_n(partial, n, out);
  for (std::int64_t c = 1; c < chunks; ++c)
    for (std::int64_t j = 0; j < n; ++j) out[j] += partial[c * stride + j];
}
template void join<float>(const float*, std::int64_t, std::int64_t, std::int64_t, float*);
template void join<double>(const double*, std::int64_t, std::int64_t, std::int64_t, double*);

std::vector<Sample> backward_samples(const std::vector<Sample>& forward, DType dtype, std::uint64_t tag,
                                     std::size_t strided, std::size_t alone) {
  std::vector<Sample> all = forward;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<Tensor>& in = all[i].in;
    in.resize(2);
    in.push_back(sample_normal(in[0].shape(), dtype, tag + i));
    if (i == strided) in[2] = scattered(in[2]);
  }
  all.push_back(all[alone]);
  all.back().attrs.set("parameters", false);
  all.back().note = "dx alone";
  return all;
}

std::vector<Symmetry> symmetries(const Sample& sample, int axis, const std::string& others,
                                 std::initializer_list<int> like_x, std::string name, std::vector<Leg> along,
                                 Mixed mixed) {
  std::vector<Symmetry> all;
  const Shape& shape = sample.in[0].shape();
  for (int other = 0; other < shape.rank(); ++other) {
    if (other == axis || shape[other] < 2) continue;
    Symmetry symmetry{fmt::format("{} {}", others, other), {}, {}, mixed == Mixed::others};
    for (const int i : like_x) symmetry.legs.push_back(in_leg(i, other));
    symmetry.legs.push_back(out_leg(0, other));
    all.push_back(std::move(symmetry));
  }
  if (shape[axis] >= 2) all.push_back({std::move(name), std::move(along), {}, mixed == Mixed::along});
  return all;
}

bool gives_parameters(const Sample& sample) {
  return !sample.attrs.has("parameters") || sample.attrs.flag("parameters");
}

} // namespace eg::norm_tools
