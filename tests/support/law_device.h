#pragma once
// Runs the laws' calls on a device, while their samples and results stay on the CPU.

#include "core/call.h"

#include <span>
#include <vector>

namespace eg::laws {

/// While it lives, call_row moves its inputs to the device.
class LawDeviceScope {
public:
  explicit LawDeviceScope(Device device);
  ~LawDeviceScope();
  LawDeviceScope(const LawDeviceScope&) = delete;
  LawDeviceScope& operator=(const LawDeviceScope&) = delete;
};

/// Where the laws call.
Device law_device();

/// x on a device with its strides: the whole storage is copied. Recorded; the gradient goes back, packed.
Tensor moved_as_it_lies(const Tensor& x, Device device);

/// The inputs on the laws' device, as they lie.
std::vector<Tensor> moved_inputs(std::span<const Tensor> in);

/// call(op, in, attrs) on the laws' device, with results on the CPU. A tape hears of the moves too, so that gradients
/// of the CPU's tensors go through the device.
std::vector<Tensor> call_row(const OpDef& op, std::span<const Tensor> in, const Attrs& attrs);

} // namespace eg::laws
