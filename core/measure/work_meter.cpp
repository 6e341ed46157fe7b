#include "core/measure/work_meter.h"

namespace eg {

void WorkMeter::record(const Event& event) {
  ++calls_;
  if (event.op == nullptr) return; // a user's own operation has no figures
  std::vector<TensorSpec> out;
  for (const Tensor& y : event.out) out.push_back({y.shape(), y.dtype()});
  const Work work = event.op->work({*event.op, event.in, *event.attrs}, out);
  total_.flops += work.flops;
  total_.bytes += work.bytes;
}

} // namespace eg
