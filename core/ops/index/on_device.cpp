// Starts the device kernels of the indexing ops.

#include "core/device/device.h"
#include "core/device/module.h"
#include "core/ops/index/row_moves.h"
#include "core/ops/sort/key.h"

#include <algorithm>

namespace eg {

namespace {

/// Checks the indices of rows without elements, which no kernel would read: by taking bytes instead.
void check_on_device(std::string_view op, const RowMove& m, bool by_element, Device device) {
  if (by_element || m.inner > 0 || m.outer * m.count == 0) return;
  const DeviceScope there(device);
  RowMove bytes = m;
  bytes.inner = 1;
  Tensor taken = Tensor::empty({m.outer * m.count}, DType::u8);
  take_on_device(op, bytes, false, Tensor::zeros({std::max<std::int64_t>(m.outer * m.extent, 1)}, DType::u8), taken);
}

} // namespace

void take_on_device(std::string_view op, const RowMove& m, bool by_element, const Tensor& x, Tensor& y) {
  check_on_device(op, m, by_element, y.device());
  if (m.outer * m.count * m.inner == 0) return;
  device::TakeJob job{op,
                      y.mutable_device_bytes(op.data()),
                      x.device_bytes(),
                      m.index,
                      size_of(x.dtype()),
                      m.outer,
                      m.extent,
                      m.count,
                      m.inner,
                      0,
                      1,
                      0};
  if (by_element) {
    job.index_o = m.count * m.inner;
    job.index_k = m.inner;
    job.index_j = 1;
  } else if (!m.shared) {
    job.index_o = m.count;
  }
  device::launch(y.device(), op.data(), &device::Table::take, job);
}

void add_on_device(std::string_view op, const RowMove& m, bool by_element, const Tensor& source, Tensor& y) {
  check_on_device(op, m, by_element, y.device());
  if (m.outer * m.count * m.inner == 0) return;
  const std::size_t item = sorting::item_bytes(m.extent <= INT64_C(0xFFFFFFFF) ? 4 : 8, m.count);
  const std::int64_t lines = by_element ? m.outer * m.inner : 1;
  Tensor items = Tensor::empty({lines * device::sorted_line(m.count) * static_cast<std::int64_t>(item)}, DType::u8);
  const device::ScatterJob job{op,
                               y.mutable_device_bytes(op.data()),
                               source.device_bytes(),
                               m.index,
                               source.dtype(),
                               m.outer,
                               m.extent,
                               m.count,
                               m.inner,
                               !by_element,
                               items.mutable_device_bytes(),
                               item};
  device::launch(y.device(), op.data(), &device::Table::scatter, job);
}

void invert_on_device(std::string_view op, const Tensor& packed_rows, Tensor& inverse) {
  if (packed_rows.numel() == 0) return;
  const std::int64_t n = packed_rows.shape()[-1];
  const device::InvertJob job{op, reinterpret_cast<std::int64_t*>(inverse.mutable_device_bytes(op.data())),
                              index_address(packed_rows), packed_rows.numel() / n, n};
  device::launch(inverse.device(), op.data(), &device::Table::invert, job);
}

} // namespace eg
