// Attention on a device, at and across the borders of its tiles.

#include "core/call.h"
#include "core/device/device.h"
#include "core/gemm/matmul_precision.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/random.h"
#include "support/law_tools.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

using namespace eg;

namespace {

const Device cuda = Device::cuda();

using Tensors = std::vector<Tensor>;

/// One call drawn at random: extents that end within, at and behind tiles of 32 and 64.
struct Drawn {
  std::int64_t groups, group, queries, keys, head_dim, value_dim;
  bool causal;
  int mask; ///< 0: none; 1: added, of every head; 2: added, shared by all; 3: boolean

  explicit Drawn(std::uint64_t number) {
    const Tensor choice = random_integers({8}, {number, 61}, 0, 1 << 20);
    const auto pick = [&](std::int64_t i, std::initializer_list<std::int64_t> from) {
      return from.begin()[static_cast<std::int64_t>(choice.at({i})) % static_cast<std::int64_t>(from.size())];
    };
    groups = pick(0, {1, 2, 3});
    group = pick(1, {1, 1, 2});
    queries = pick(2, {1, 3, 31, 32, 33, 63, 64, 65, 70});
    keys = pick(3, {1, 2, 31, 32, 33, 64, 65, 97, 130});
    head_dim = pick(4, {1, 5, 16, 64, 65, 70});
    value_dim = pick(5, {1, 7, 16, 63, 64, 66, 130});
    causal = pick(6, {0, 1}) != 0;
    mask = static_cast<int>(pick(7, {0, 0, 1, 2, 3}));
  }
  std::string text() const {
    return fmt::format("{} x {} heads, {} queries, {} keys, {} and {} columns, causal {}, mask {}", groups, group,
                       queries, keys, head_dim, value_dim, causal, mask);
  }
};

/// q, k, v, mask, g, dlse.
Tensors inputs(const Drawn& d, std::uint64_t number) {
  const std::int64_t heads = d.groups * d.group;
  const auto normal = [&](const Shape& shape, std::uint64_t tag) {
    return random_normal(shape, {number, 62 + tag}, 0.0, 1.0, DType::f64);
  };
  Tensor mask;
  if (d.mask == 1) mask = normal({heads, d.queries, d.keys}, 3);
  if (d.mask == 2) mask = normal({d.queries, d.keys}, 3);
  if (d.mask == 3)
    mask = lt(random_uniform({heads, 1, d.keys}, {number, 65}), Tensor::full({}, 0.7)); // hides some keys, at times all
  return {normal({heads, d.queries, d.head_dim}, 0),  normal({d.groups, d.keys, d.head_dim}, 1),
          normal({d.groups, d.keys, d.value_dim}, 2), mask,
          normal({heads, d.queries, d.value_dim}, 4), normal({heads, d.queries}, 5)};
}

Tensor in(const Tensor& x, DType dtype, Device device) {
  if (!x.defined()) return x;
  return (x.dtype() == DType::boolean ? x : x.to(dtype)).to(device);
}

/// y, lse, dq, dk, dv and, with an added mask, dmask, as f64 on the CPU.
Tensors results(const Drawn& d, const Tensors& of, DType dtype, Device device) {
  Tensors x;
  for (const Tensor& t : of) x.push_back(in(t, dtype, device));
  Tensors all = call(scaled_dot_product_attention_op, {x[0], x[1], x[2], x[3]}, {{"causal", d.causal}});
  const Tensors gradients =
      call(scaled_dot_product_attention_backward_op, {x[0], x[1], x[2], all[0], all[1], x[4], x[5], x[3]},
           {{"causal", d.causal}, {"mask_gradient", d.mask == 1 || d.mask == 2}});
  all.insert(all.end(), gradients.begin(), gradients.end());
  for (Tensor& t : all) t = t.to(Device::cpu()).to(DType::f64);
  return all;
}

double furthest(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].numel() > 0) worst = std::max(worst, relative_error(a[i], b[i]));
  return worst;
}

} // namespace

TEST_CASE("attention on the device agrees with the CPU whatever its extents") {
  double worst[2] = {};
  for (std::uint64_t number = 0; number < 80; ++number) {
    const Drawn d(number);
    const Tensors of = inputs(d, number), wanted = results(d, of, DType::f64, Device::cpu());
    const double of_f64 = furthest(results(d, of, DType::f64, cuda), wanted);
    const double of_f32 = furthest(results(d, of, DType::f32, cuda), wanted);
    CHECK_MESSAGE(of_f64 < 1e-13, d.text());
    CHECK_MESSAGE(of_f32 < 2e-5, d.text());
    worst[0] = std::max(worst[0], of_f64);
    worst[1] = std::max(worst[1], of_f32);
  }
  MESSAGE("furthest: ", worst[0], " in f64, ", worst[1], " in f32");
}

TEST_CASE("the comparison fails where a key is left out") { // negative control of the test above
  const Drawn d(3);
  Tensors of = inputs(d, 3);
  const Tensors wanted = results(d, of, DType::f64, Device::cpu());
  of[2].slice(1, d.keys - 1, d.keys).fill(0.0);
  CHECK(furthest(results(d, of, DType::f64, cuda), wanted) > 1e-3);
}

TEST_CASE("a head has its bits whichever heads lie beside it") {
  const Drawn d(7);
  const Tensors of = inputs(d, 7), all = results(d, of, DType::f32, cuda);
  Drawn one = d;
  one.groups = one.group = 1;
  for (std::int64_t head = 0; head < d.groups * d.group; ++head) {
    Tensors alone;
    for (std::size_t i = 0; i < of.size(); ++i) {
      const bool repeats = !of[i].defined() || of[i].size(0) == 1 || (i == 3 && d.mask == 2);
      const std::int64_t at = i == 1 || i == 2 ? head / d.group : head;
      alone.push_back(repeats ? of[i] : of[i].slice(0, at, at + 1));
    }
    const Tensors found = results(one, alone, DType::f32, cuda);
    for (std::size_t i = 0; i < 3; ++i) // dk and dv are sums over the heads of a group
      CHECK_MESSAGE(same_bits(found[i], all[i].slice(0, head, head + 1).clone()), d.text(), ", output ", i);
  }
}

TEST_CASE("rounded operands of attention agree with the CPU's") {
  for (const std::uint64_t number : {11, 12, 13, 14}) {
    const Drawn d(number);
    const Tensors of = inputs(d, number), full = results(d, of, DType::f64, Device::cpu());
    const MatmulPrecisionScope scope(MatmulPrecision::bf16);
    const Tensors there = results(d, of, DType::f32, cuda);
    CHECK_MESSAGE(furthest(there, results(d, of, DType::f32, Device::cpu())) < 0.02, d.text());
    CHECK_MESSAGE(furthest(there, full) > 1e-4, d.text()); // they were rounded
  }
}

TEST_CASE("scores that are not finite give on the device what they give on the CPU") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double odd : {infinity, -infinity, std::nan("")}) {
    for (const auto& [from, to] : {std::pair<std::int64_t, std::int64_t>{0, 1}, {40, 41}, {0, 70}}) {
      Tensor q = random_normal({1, 3, 4}, {1, 70}), k = random_normal({1, 70, 4}, {2, 70});
      const Tensor v = random_normal({1, 70, 4}, {3, 70});
      k.slice(1, from, to).fill(odd);
      const Tensors here = call(scaled_dot_product_attention_op, {q, k, v}, {});
      const Tensors there = call(scaled_dot_product_attention_op, {q.to(cuda), k.to(cuda), v.to(cuda)}, {});
      for (std::size_t o = 0; o < 2; ++o) {
        const Tensor a = here[o].reshape({-1}), b = there[o].to(Device::cpu()).reshape({-1});
        for (std::int64_t i = 0; i < a.numel(); ++i) CHECK(std::isnan(a.at({i})) == std::isnan(b.at({i})));
      }
    }
  }
}
