// Products on a device: the bits of the CPU's for many shapes, layouts and batches.

#include "core/device/device.h"
#include "core/gemm/blas.h"
#include "core/ops.h"
#include "core/random.h"
#include "support/law_tools.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <fmt/format.h>
#include <string>

using namespace eg;

namespace {

const Device cuda = Device::cuda();

/// A whole number in [least, most], the n-th of a fixed sequence.
class Draw {
public:
  explicit Draw(std::uint64_t tag) : tag_(tag) {}
  std::int64_t operator()(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(uniform_at(RandomKey{41, tag_}, next_++) * static_cast<double>(most - least + 1));
  }
  Tensor normal(const Shape& shape, DType dtype) {
    return random_normal(shape, {42, tag_ + 1000 * next_++}, 0.0, 1.0, dtype);
  }

private:
  std::uint64_t tag_, next_ = 0;
};

/// [batch..., rows, columns] or its transpose, packed, with its last axes swapped in memory, or with gaps.
Tensor matrix(Draw& draw, const Shape& batch, std::int64_t rows, std::int64_t columns, bool transposed, DType dtype) {
  if (transposed) std::swap(rows, columns);
  const std::int64_t layout = draw(0, 3);
  Shape shape = batch;
  shape.push_back(layout == 1 ? columns : rows);
  shape.push_back(layout == 1 ? rows : layout == 2 ? columns + 3 : layout == 3 ? 2 * columns : columns);
  Tensor x = draw.normal(shape, dtype);
  if (layout == 1) return x.transpose();
  if (layout == 2) return x.slice(-1, 2, 2 + columns);
  return layout == 3 ? x.slice(-1, 0, 2 * columns, 2) : x;
}

std::string difference(const Tensor& there, const Tensor& here) {
  return laws::difference_in_bits({there.to(Device::cpu())}, {here});
}

void check_matmul(Draw& draw, std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
  Shape batch_a, batch_b;
  if (draw(0, 2) == 0) {
    const std::int64_t outer = draw(1, 3), inner = draw(1, 3);
    batch_a = draw(0, 1) == 0 ? Shape{outer, inner} : Shape{1, inner};
    if (draw(0, 1) == 0) batch_b = draw(0, 1) == 0 ? Shape{inner} : Shape{outer, 1};
  }
  const bool ta = draw(0, 1) == 1, tb = draw(0, 1) == 1;
  const Tensor a = matrix(draw, batch_a, m, k, ta, dtype), b = matrix(draw, batch_b, k, n, tb, dtype);
  const Tensor here = matmul(a, b, ta, tb);
  const std::string found = difference(matmul(a.to(cuda), b.to(cuda), ta, tb), here);
  CHECK_MESSAGE(found.empty(), fmt::format("{} x {} x {} {}: {}", m, n, k, name_of(dtype), found));
}

} // namespace

TEST_CASE("products on the device have the bits of the CPU's") {
  REQUIRE(blas::engine() == "own kernel"); // OpenBLAS adds in its own order
  Draw draw(1);
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (int i = 0; i < 100; ++i) check_matmul(draw, draw(1, 70), draw(2, 70), draw(1, 70), dtype);
    for (const std::int64_t k : {511, 512, 513, 514, 1023, 1024, 1025, 1030, 1539, 2100})
      check_matmul(draw, draw(9, 40), draw(9, 40), k, dtype);
    for (const std::int64_t k : {16, 17, 530}) check_matmul(draw, draw(65, 140), draw(65, 140), k, dtype);
    check_matmul(draw, 64, 128, 64, dtype);
  }
}

TEST_CASE("products with few rows or one column depend on their rows alone on the device") {
  // The CPU adds these in the order of its vectors; here a row has the bits that it has among many.
  Draw draw(2);
  const Tensor w = draw.normal({200, 300}, DType::f32).to(cuda), v = draw.normal({300, 2}, DType::f32).to(cuda);
  CHECK(difference(matmul(w, v.slice(1, 1, 2)), matmul(w, v).slice(1, 1, 2).to(Device::cpu()).contiguous()).empty());
  const Tensor a = draw.normal({40, 300}, DType::f32).to(cuda), b = draw.normal({200, 300}, DType::f32).to(cuda);
  const Tensor all = matmul(a, b, false, true);
  for (const std::int64_t rows : {1, 3, 8, 17})
    CHECK(difference(matmul(a.slice(0, 5, 5 + rows), b, false, true),
                     all.slice(0, 5, 5 + rows).to(Device::cpu()).contiguous())
              .empty());
}

TEST_CASE("linear on the device has the bits of the CPU's") {
  Draw draw(3);
  for (const DType dtype : {DType::f32, DType::f64})
    for (int i = 0; i < 40; ++i) {
      const std::int64_t rows = draw(9, 70), outs = draw(2, 70), ins = i % 8 == 0 ? draw(500, 1300) : draw(1, 90);
      const Tensor x = matrix(draw, {}, rows, ins, false, dtype), w = matrix(draw, {}, outs, ins, false, dtype);
      const Tensor bias = draw(0, 2) > 0 ? draw.normal({outs}, dtype) : Tensor();
      const Tensor addend = draw(0, 2) == 0 ? matrix(draw, {}, rows, outs, false, dtype) : Tensor();
      const auto there = [](const Tensor& t) { return t.defined() ? t.to(cuda) : t; };
      const std::string found =
          difference(linear(there(x), there(w), there(bias), there(addend)), linear(x, w, bias, addend));
      CHECK_MESSAGE(found.empty(), fmt::format("{} x {} x {} {}: {}", rows, outs, ins, name_of(dtype), found));
      const std::string of_gelu =
          difference(linear_gelu(there(x), there(w), there(bias), i % 2 == 0), linear_gelu(x, w, bias, i % 2 == 0));
      CHECK_MESSAGE(of_gelu.empty(), fmt::format("gelu, {} x {} x {}: {}", rows, outs, ins, of_gelu));
    }
}

TEST_CASE("products on the device round their operands to bf16 where it is asked for") {
  Draw draw(4);
  const Tensor a = draw.normal({33, 70}, DType::f32), b = draw.normal({70, 20}, DType::f32);
  const Tensor wanted = matmul(a.to(DType::bf16).to(DType::f32), b.to(DType::bf16).to(DType::f32));
  const MatmulPrecisionScope scope(MatmulPrecision::bf16);
  CHECK(difference(matmul(a.to(cuda), b.to(cuda)), wanted).empty());
  CHECK_FALSE(
      difference(matmul(a.to(cuda), b.to(cuda)), matmul(a.to(DType::f64), b.to(DType::f64)).to(DType::f32)).empty());
}
