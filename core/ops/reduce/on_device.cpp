#include "core/ops/reduce/on_device.h"

#include "core/device/axes.h"
#include "core/device/module.h"

#include <algorithm>
#include <cmath>

namespace eg::reduce {
namespace {

constexpr std::int64_t short_group = 8;    // elements that one thread takes rather than 32
constexpr std::int64_t thread_chunk = 64;  // elements that a thread adds up, unless the chunks become too many
constexpr std::int64_t team_chunk = 16384; // the same for a team
constexpr std::int64_t most_team_chunks = 1024;
constexpr std::int64_t enough_threads = 32768;

std::int64_t ceiling(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

/// Decided from the shape and the axes, never from the layout: the same elements are added in the same order.
void set_chunks(device::ReduceJob& job, bool last_is_kept) {
  const std::int64_t groups = job.groups.count(), n = job.elements.count();
  job.by_group = last_is_kept || n <= short_group;
  if (job.by_group) {
    const std::int64_t most = std::max<std::int64_t>(128, enough_threads / groups);
    job.chunk = std::max(thread_chunk, ceiling(n, most));
  } else {
    job.chunk = n <= team_chunk ? std::max<std::int64_t>(n, 1) : std::max(team_chunk, ceiling(n, most_team_chunks));
  }
  job.chunks = std::max<std::int64_t>(1, ceiling(n, job.chunk));
}

template <class T> T* address_of(Tensor& y) {
  return y.defined() ? reinterpret_cast<T*>(y.mutable_device_bytes("reduction")) : nullptr;
}

} // namespace

void run_on_device(std::string_view op, device::ReduceKind kind, const Tensor& x, const Reduced& reduced,
                   DeviceOutputs out, const DeviceNumbers& numbers, const Tensor& given) {
  Shape kept, gone, kept_strides, gone_strides;
  bool last_is_kept = true;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool is_reduced = reduced[static_cast<std::size_t>(axis)];
    (is_reduced ? gone : kept).push_back(x.shape()[axis]);
    (is_reduced ? gone_strides : kept_strides).push_back(x.strides()[axis]);
    if (x.shape()[axis] != 1) last_is_kept = !is_reduced;
  }
  device::ReduceJob job{};
  job.kind = kind;
  job.type = x.dtype();
  job.y = address_of<std::byte>(out.y);
  job.places = address_of<std::int64_t>(out.places);
  job.wide = address_of<double>(out.wide);
  job.x = x.device_bytes();
  job.given = given.defined() ? reinterpret_cast<const double*>(given.device_bytes()) : nullptr;
  job.groups = device::merged_axes<1>(kept, {kept_strides});
  job.elements = device::merged_axes<1>(gone, {gone_strides});
  job.factor = numbers.factor;
  job.small = numbers.small;
  job.p = numbers.p;
  if (job.groups.count() == 0) return;
  set_chunks(job, last_is_kept);
  Tensor partial;
  if (job.chunks > 1) {
    partial = Tensor::empty({3 * job.groups.count() * job.chunks}, DType::f64, x.device());
    job.partial = address_of<double>(partial);
  }
  device::launch(x.device(), op.data(), &device::Table::reduce, job);
}

Tensor means_on_device(std::string_view op, const Tensor& x, const Reduced& reduced) {
  const std::int64_t n = reduced_count(x.shape(), reduced);
  Tensor means = Tensor::empty(reduced_shape(x.shape(), reduced, true), DType::f64, x.device());
  const int exponent = n > 0 ? std::ilogb(static_cast<double>(n)) + 1 : 0;
  run_on_device(op, device::ReduceKind::mean, x, reduced, {{}, {}, means},
                {.factor = 1.0 / static_cast<double>(n), .small = std::ldexp(1.0, -exponent)});
  return means;
}

} // namespace eg::reduce
