// Functions of functions on a device: gradients, products with Jacobians and Hessians, as on the CPU.

#include "autograd/functional.h"
#include "autograd/check.h"
#include "core/device/device.h"
#include "core/ops.h"
#include "core/random.h"

#include <doctest/doctest.h>

using namespace eg;

namespace {

const Device cuda = Device::cuda();

using Tensors = std::vector<Tensor>;

Tensor normal(const Shape& shape, std::uint64_t tag) { return random_normal(shape, {tag, 85}, 0.0, 1.0, DType::f64); }

/// Both lists agree, and the second is on the device.
void check_alike(const Tensors& here, const Tensors& there) {
  REQUIRE(here.size() == there.size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    REQUIRE(here[i].defined() == there[i].defined());
    if (!here[i].defined()) continue;
    CHECK(there[i].device() == cuda);
    CHECK(relative_error(there[i].to(Device::cpu()), here[i]) < 1e-13);
  }
}

Tensor scalar(const Tensors& x) { return sum(mul(tanh(x[0]), mul(x[1], x[0]))); }
Tensors two(const Tensors& x) { return {tanh(mul(x[0], x[1])), sum(mul(x[0], x[0]), {1})}; }

} // namespace

TEST_CASE("functions of functions give on the device what they give on the CPU") {
  const Tensors x = {normal({2, 3}, 1), normal({2, 3}, 2)}, u = {normal({2, 3}, 3), Tensor()};
  const auto moved = [](const Tensors& all) {
    Tensors list;
    for (const Tensor& t : all) list.push_back(t.defined() ? t.to(cuda) : t);
    return list;
  };
  const Tensors y = moved(x), v = moved(u);
  check_alike(grad(scalar)(x), grad(scalar)(y));
  check_alike(value_and_grad(scalar)(x).gradients, value_and_grad(scalar)(y).gradients);
  check_alike(vjp(two, x, {normal({2, 3}, 4), Tensor()}).gradients,
              vjp(two, y, {normal({2, 3}, 4).to(cuda), Tensor()}).gradients);
  const auto one = [](const Tensors& in) -> Tensors { return {scalar(in)}; };
  check_alike(vjp(one, x, {Tensor()}).gradients, vjp(one, y, {Tensor()}).gradients);
  check_alike(jvp(two, x, u).tangents, jvp(two, y, v).tangents);
  check_alike(hvp(scalar, x, u).products, hvp(scalar, y, v).products);
  check_alike(jacobian(two, x)[0], jacobian(two, y)[0]);
}
