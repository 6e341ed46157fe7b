#include "core/device/transfer.h"

#include "core/device/axes.h"
#include "core/device/device.h"
#include "core/device/module.h"
#include "core/ops/views/strided_copy.h"

#include <cstring>

namespace eg::device {
namespace {

void copy_strided(Tensor& y, const Tensor& x) {
  if (x.numel() == 0) return;
  const CopyJob job{y.mutable_device_bytes("copy"), x.device_bytes(), size_of(x.dtype()),
                    merged_axes<2>(x.shape(), {y.strides(), x.strides()})};
  launch(y.device(), "copy", &Table::copy, job);
}

/// x if it is packed, else a packed copy where it is.
Tensor packed_there(const Tensor& x) {
  if (x.is_contiguous()) return x;
  if (x.device().is_cpu()) return packed_copy(x);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  copy_strided(y, x);
  return y;
}

/// Between packed tensors, one of them at least on a device.
void copy_packed(Tensor& y, const Tensor& x) {
  const Device from = x.device(), to = y.device();
  const std::byte* const source = x.device_bytes();
  std::byte* const target = y.mutable_device_bytes("copy");
  if (from == to)
    copy_within_device(to, target, source, x.nbytes());
  else if (from.is_cpu())
    copy_to_device(to, target, source, x.nbytes());
  else
    copy_to_host(from, target, source, x.nbytes());
}

} // namespace

Tensor transferred(const Tensor& x, Device to) {
  const Tensor source = packed_there(x);
  if (!source.device().is_cpu() && !to.is_cpu() && source.device() != to) // two devices meet in host memory
    return transferred(transferred(source, Device::cpu()), to);
  Tensor y = Tensor::empty(source.shape(), source.dtype(), to);
  if (source.device().is_cpu() && to.is_cpu())
    std::memcpy(y.mutable_bytes("copy"), source.bytes(), source.nbytes());
  else
    copy_packed(y, source);
  return y;
}

Tensor on_cpu(const Tensor& x) { return x.device().is_cpu() ? x : transferred(x, Device::cpu()); }

Tensor on_current_device(const Tensor& x) {
  return !x.has_storage() || x.device() == current_device() ? x : transferred(x, current_device());
}

void copy_elements(Tensor& y, const Tensor& x) {
  if (x.device() != y.device()) {
    Tensor there = transferred(x, y.device());
    if (y.device().is_cpu()) return y.copy_from(there);
    return copy_elements(y, there);
  }
  // In shared memory an element may be written before it is read.
  const Tensor source = x.storage() == y.storage() ? transferred(x, x.device()) : x;
  source.is_contiguous() && y.is_contiguous() ? copy_packed(y, source) : copy_strided(y, source);
}

void fill_elements(Tensor& y, const std::byte* element) {
  if (y.numel() == 0) return;
  FillJob job{y.mutable_device_bytes("fill"), size_of(y.dtype()), 0, merged_axes<1>(y.shape(), {y.strides()})};
  std::memcpy(&job.bits, element, job.size);
  launch(y.device(), "fill", &Table::fill, job);
}

} // namespace eg::device
