#include "support/law_device.h"

#include "core/device/module.h"
#include "core/device/transfer.h"

#include <memory>
#include <utility>

namespace eg::laws {
namespace {

Device chosen; // the laws run on one thread

/// The storage of x on another device, seen as x sees it.
Tensor copied_as_it_lies(const Tensor& x, Device device) {
  const Storage& storage = *x.storage();
  const auto element = static_cast<std::int64_t>(size_of(x.dtype()));
  const auto count = static_cast<std::int64_t>(storage.size_bytes) / element;
  Tensor whole = Tensor::empty({count}, x.dtype(), device);
  device::copy_to_device(device, whole.mutable_device_bytes(), storage.bytes.get(),
                         static_cast<std::size_t>(count * element));
  return whole.view_as(x.shape(), x.strides(), (x.bytes() - storage.bytes.get()) / element);
}

} // namespace

LawDeviceScope::LawDeviceScope(Device device) { chosen = device; }
LawDeviceScope::~LawDeviceScope() { chosen = Device::cpu(); }
Device law_device() { return chosen; }

Tensor moved_as_it_lies(const Tensor& x, Device device) {
  if (!is_floating(x.dtype())) return copied_as_it_lies(x, device);
  static const auto make = [](Device to) {
    auto op = std::make_shared<CustomOp>();
    op->name = "moved_as_it_lies";
    op->forward = [to](std::span<const Tensor> in) -> std::vector<Tensor> { return {copied_as_it_lies(in[0], to)}; };
    op->vjp = [](std::span<const Tensor>, std::span<const Tensor>,
                 std::span<const Tensor> grad) -> std::vector<Tensor> { return {grad[0].to(Device::cpu())}; };
    op->saves_outputs = false;
    return op;
  };
  return call(std::shared_ptr<const CustomOp>(make(device)), std::span(&x, 1)).front();
}

std::vector<Tensor> moved_inputs(std::span<const Tensor> in) {
  std::vector<Tensor> there(in.begin(), in.end());
  if (chosen.is_cpu()) return there;
  for (Tensor& x : there)
    if (x.defined() && x.has_storage()) x = moved_as_it_lies(x, chosen);
  return there;
}

std::vector<Tensor> call_row(const OpDef& op, std::span<const Tensor> in, const Attrs& attrs) {
  if (chosen.is_cpu()) return call(op, in, attrs);
  std::vector<Tensor> out = call(op, moved_inputs(in), attrs);
  for (Tensor& y : out)
    if (y.defined() && y.has_storage()) y = y.to(Device::cpu());
  return out;
}

} // namespace eg::laws
