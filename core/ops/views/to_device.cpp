// to_device: the row that moves a tensor to another device.

#include "core/device/transfer.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/views/movement.h"

#include <fmt/format.h>

namespace eg {
namespace {

Device device_attribute(const OpArgs& a, std::string_view name) {
  try {
    return Device::parse(a.attrs.text(name));
  } catch (const ValueError& e) {
    throw ValueError(fmt::format("to_device: {}", e.what()));
  }
}

std::vector<Sample> samples(DType dtype) {
  const Attrs here{{"device", std::string("cpu")}};
  return {{{sample_values({3, 5}, dtype, 1)}, here, "a matrix"},
          {{sample_transposed({7, 4}, dtype, 2)}, here, "a transposed matrix"},
          {{sample_values({}, dtype, 3)}, here, "a number"},
          {{sample_values({2, 0}, dtype, 4)}, here, "no elements"}};
}

std::vector<Refusal> refuses() {
  return {{{Tensor::zeros({2})}, {{"device", std::string("gpu")}}, "'gpu' is neither cpu nor cuda nor cuda:N"},
          {{Tensor::zeros({2})}, {{"device", std::string("cuda:64")}}, "0 to 63, it is 64"},
          {{Tensor::zeros({2})}, {}, "attribute 'device' must be given"}};
}

} // namespace

constinit const OpDef to_device_op = row({
    .name = "to_device",
    .math = "y = x, densely packed on another device",
    .inputs = {{"x"}},
    .attributes = {required_attr("device", AttrKind::text, "where to: cpu, cuda or cuda:N"),
                   attr_text("source", "cpu", "where x is; the gradient goes there")},
    .infer = [](const OpArgs& a) -> std::vector<TensorSpec> {
      device_attribute(a, "device");
      device_attribute(a, "source");
      return {{a.in[0].shape(), a.in[0].dtype()}};
    },
    .view =
        [](const OpArgs& a) {
          device_attribute(a, "source"); // no shape rule runs before a view
          return device::transferred(a.in[0], device_attribute(a, "device"));
        },
    .vjp = [](const VjpArgs& v) -> Gradients { return {to_device(v.grad[0], device_attribute(v, "source"))}; },
    .reference = [](const OpArgs& a) -> std::vector<Tensor> {
      const Tensor& x = a.in[0];
      return {tabulate(x.shape(), x.dtype(), [&](const Index& i) { return read(x, i); })};
    },
    .samples = samples,
    .refuses = refuses,
    .symmetries =
        [](const Sample& s) {
          std::vector<Symmetry> list;
          for (int axis = 0; axis < s.in[0].rank(); ++axis) add_axis_symmetry(list, s, axis, axis);
          return list;
        },
    .work = movement_work,
});

Tensor to_device(const Tensor& x, Device device) {
  return call1(to_device_op, {x}, {{"device", device.str()}, {"source", x.device().str()}});
}

} // namespace eg
