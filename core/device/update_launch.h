#pragma once
// Starts kernels that work on many tensors at a time.

#include "core/device/module.h"
#include "core/tensor.h"

#include <utility>
#include <vector>

namespace eg::device {

/// Collects parts for one kernel, whose job has the parts in `parts`. Starts it when a launch is full, when a part of
/// another type or device comes, and at finish(), which must be called at last.
template <class Job> class UpdateLaunches {
public:
  using Kernel = Failure (*Table::*)(int, const Job&);
  /// `name`: of the row or function, for errors.
  UpdateLaunches(const char* name, Kernel kernel, const Job& job) : name_(name), kernel_(kernel), job_(job) {
    job_.parts.parts = 0;
  }

  /// A part with elements of `source`, which is packed and on a device; it is kept until the kernel was started.
  void add(const Tensor& source, void* to) {
    if (source.numel() == 0) return;
    UpdateParts& parts = job_.parts;
    if (parts.parts == UpdateParts::most || parts.type != source.dtype() || device_ != source.device()) finish();
    device_ = source.device();
    parts.type = source.dtype();
    parts.part[parts.parts++] = {to, source.device_bytes(), {nullptr, nullptr}, source.numel()};
    kept_.push_back(source);
  }
  void finish() {
    if (job_.parts.parts == 0) return;
    launch(device_, name_, kernel_, job_);
    job_.parts.parts = 0;
    kept_.clear();
  }

private:
  const char* name_;
  Kernel kernel_;
  Job job_;
  Device device_;
  std::vector<Tensor> kept_;
};

} // namespace eg::device
