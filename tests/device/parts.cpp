// Work that a device does in parts, where all of it would take too much memory: the parts give what the whole gives.

#include "core/call.h"
#include "core/device/device.h"
#include "core/ops.h"
#include "core/ops/conv/on_device.h"
#include "core/ops/list.h"
#include "support/law_tools.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

using namespace eg;

namespace {

const Device cuda = Device::cuda();

Tensor normal(const Shape& shape, DType dtype, std::uint64_t tag) {
  return random_normal(shape, {51, tag}, 0.0, 1.0, dtype).to(cuda);
}
Tensor like(const Tensor& x) { return Tensor::empty(x.shape(), x.dtype(), cuda); }

bool equal(const Tensor& a, const Tensor& b) {
  return laws::difference_in_bits({a.to(Device::cpu())}, {b.to(Device::cpu())}).empty();
}

} // namespace

TEST_CASE("a convolution of some images at a time agrees with one of all at once") {
  const Attrs attrs{{"stride", std::vector<std::int64_t>{2, 1}},
                    {"padding", std::vector<std::int64_t>{1}},
                    {"dilation", std::vector<std::int64_t>{}},
                    {"groups", std::int64_t{2}}};
  const Tensor x = normal({5, 4, 6, 5}, DType::f64, 11), w = normal({6, 2, 3, 2}, DType::f64, 12);
  const Tensor bias = normal({6}, DType::f64, 13);
  const Tensor y = call1(conv2d_op, {x, w, bias}, attrs), g = normal(y.shape(), DType::f64, 14);
  Attrs of_x = attrs, of_w = attrs;
  of_x.set("input_size", std::vector<std::int64_t>{6, 5});
  of_w.set("kernel_size", std::vector<std::int64_t>{3, 2});
  const Tensor dx = call1(conv2d_input_backward_op, {w, g}, of_x);
  const Tensor dw = call1(conv2d_weight_backward_op, {x, g}, of_w);
  const std::vector<Tensor> forward{x, w, bias}, of_dx{w, g}, of_dw{x, g};
  conv::Conv c = conv::conv_of({conv2d_op, forward, attrs}, x.shape(), w.shape());
  for (const std::int64_t images : {1, 2, 3, 5}) {
    c.column_bytes = images * 8 * c.groups * c.depth() * c.axes.windows();
    const DeviceScope there(cuda);
    Tensor part_y = like(y), part_dx = like(dx), part_dw = like(dw);
    conv::device_forward(c, {conv2d_op, forward, attrs}, part_y);
    conv::device_input_backward(c, {conv2d_input_backward_op, of_dx, of_x}, part_dx);
    conv::device_weight_backward(c, {conv2d_weight_backward_op, of_dw, of_w}, part_dw);
    CHECK(equal(part_y, y));
    CHECK(equal(part_dx, dx));
    const Tensor off = part_dw.to(Device::cpu()) - dw.to(Device::cpu()); // sums over images are joined in parts
    for (std::int64_t i = 0; i < off.numel(); ++i) CHECK(std::abs(off.reshape({-1}).at({i})) < 1e-12);
  }
}
