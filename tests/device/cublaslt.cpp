// Products through the emulated cuBLASLt, which refuses what cuBLASLt would: layouts, types, alignment, batches, plans
// that are used again. They agree with the CPU, not in bits.

#include "autograd/tape.h"
#include "core/device/device.h"
#include "core/gemm/matmul_precision.h"
#include "core/ops.h"
#include "core/random.h"
#include "support/law_device.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fmt/format.h>
#include <string>

using namespace eg;

namespace {

const Device cuda = Device::cuda();

bool by_the_library() {
  const char* const engine = std::getenv("EQUIGRAD_CUDA_GEMM");
  if (engine != nullptr && std::string(engine) == "cublaslt") return true;
  MESSAGE("skipped: needs EQUIGRAD_CUDA_GEMM=cublaslt");
  return false;
}

double bound(DType dtype) { return dtype == DType::f64 ? 1e-14 : 2e-6; }

} // namespace

TEST_CASE("products by cuBLASLt agree with the CPU's for many layouts and batches") {
  if (!by_the_library()) return;
  for (std::uint64_t number = 0; number < 120; ++number) {
    const Tensor choice = random_integers({12}, {number, 90}, 0, 1 << 20);
    const auto draw = [&](std::int64_t i, std::int64_t least, std::int64_t most) {
      return least + static_cast<std::int64_t>(choice.at({i})) % (most - least + 1);
    };
    const DType dtype = draw(0, 0, 1) == 0 ? DType::f32 : DType::f64;
    const std::int64_t m = draw(1, 1, 40), n = draw(2, 1, 40), k = draw(3, 1, 40);
    const bool ta = draw(4, 0, 1) == 1, tb = draw(5, 0, 1) == 1;
    const Shape batch_a = draw(6, 0, 2) == 0 ? Shape{2, 3} : Shape{}, batch_b = draw(7, 0, 2) == 0 ? Shape{3} : Shape{};
    const auto matrix = [&](Shape shape, std::int64_t rows, std::int64_t columns, std::uint64_t tag) {
      const std::int64_t gap = draw(static_cast<std::int64_t>(8 + tag), 0, 2), first = draw(10, 0, 1);
      shape.push_back(rows);
      shape.push_back(columns + gap + first);
      return random_normal(shape, {number, 91 + tag}, 0.0, 1.0, dtype).slice(-1, first, first + columns);
    };
    const Tensor a = ta ? matrix(batch_a, k, m, 0) : matrix(batch_a, m, k, 0);
    const Tensor b = tb ? matrix(batch_b, n, k, 1) : matrix(batch_b, k, n, 1);
    const Tensor wanted = matmul(a, b, ta, tb);
    const Tensor there = matmul(laws::moved_as_it_lies(a, cuda), laws::moved_as_it_lies(b, cuda), ta, tb);
    CHECK_MESSAGE(relative_error(there.to(Device::cpu()), wanted) < bound(dtype),
                  fmt::format("{}: {} x {} x {}", number, m, n, k));
  }
}

TEST_CASE("linear by cuBLASLt adds bias and addend") {
  if (!by_the_library()) return;
  for (std::uint64_t number = 0; number < 48; ++number) {
    const DType dtype = number % 2 == 0 ? DType::f32 : DType::f64;
    const auto normal = [&](const Shape& shape, std::uint64_t tag) {
      return random_normal(shape, {number, 95 + tag}, 0.0, 1.0, dtype);
    };
    const std::int64_t rows = 1 + static_cast<std::int64_t>(number % 5) * 7,
                       outs = 1 + static_cast<std::int64_t>(number % 7) * 3;
    const Tensor x = normal({rows, 9}, 0), w = normal({outs, 9}, 1);
    const Tensor bias = number % 3 == 0 ? Tensor() : normal({outs}, 2);
    const Tensor addend = number % 4 == 0 ? normal({rows, outs}, 3) : Tensor();
    const auto there = [](const Tensor& t) { return t.defined() ? t.to(cuda) : t; };
    const Tensor found = linear(there(x), there(w), there(bias), there(addend));
    CHECK(relative_error(found.to(Device::cpu()), linear(x, w, bias, addend)) < bound(dtype));
  }
}

TEST_CASE("a plan that is used again serves other addresses") {
  if (!by_the_library()) return;
  const Tensor w = random_normal({8, 8}, {1, 99}).to(cuda);
  for (const std::int64_t first : {0, 1, 2, 3, 4, 8, 16}) { // other alignments
    const Tensor x = random_normal({64}, {2, 99});
    const Tensor part = x.slice(0, first, first + 24).reshape({3, 8});
    const Tensor there = x.to(cuda).slice(0, first, first + 24).reshape({3, 8});
    CHECK(relative_error(matmul(there, w).to(Device::cpu()), matmul(part, w.to(Device::cpu()))) < 2e-6);
  }
}

TEST_CASE("bf16 operands go to cuBLASLt as bf16") {
  if (!by_the_library()) return;
  const Tensor a = random_normal({33, 70}, {3, 99}), b = random_normal({70, 20}, {4, 99});
  const Tensor wanted = matmul(a.to(DType::bf16).to(DType::f32), b.to(DType::bf16).to(DType::f32));
  const MatmulPrecisionScope scope(MatmulPrecision::bf16);
  CHECK(relative_error(matmul(a.to(cuda), b.to(cuda)).to(Device::cpu()), wanted) < 2e-6);
}

TEST_CASE("GELU in the tanh form is computed by the epilogue where its rules allow it") {
  if (!by_the_library()) return;
  for (const bool approximate : {true, false})
    for (const DType dtype : {DType::f32, DType::f64})
      for (const std::int64_t outs : {8, 16, 24, 5, 12, 1}) // the epilogue takes multiples of 8
        for (const bool bias : {true, false})
          for (const std::int64_t rows : {1, 7, 32}) {
            const auto normal = [&](const Shape& shape, std::uint64_t tag) {
              return random_normal(shape, {static_cast<std::uint64_t>(outs), 110 + tag}, 0.0, 1.5, dtype);
            };
            const Tensor x = normal({rows, 9}, 0), w = normal({outs, 9}, 1), b = bias ? normal({outs}, 2) : Tensor();
            const auto there = [](const Tensor& t) { return t.defined() ? t.to(cuda) : t; };
            const Tensor found = linear_gelu(there(x), there(w), there(b), approximate);
            CHECK_MESSAGE(relative_error(found.to(Device::cpu()), linear_gelu(x, w, b, approximate)) < bound(dtype),
                          fmt::format("approximate {}, {} x {}, bias {}", approximate, rows, outs, bias));
            if (!approximate && rows * outs >= 256) // the two forms differ, so that one for the other would be seen
              CHECK(relative_error(found.to(Device::cpu()), linear_gelu(x, w, b, true)) > 5 * bound(dtype));
          }
}

TEST_CASE("the gradient of linear_gelu reads what the epilogue kept") {
  if (!by_the_library()) return;
  const Tensor x = random_normal({5, 6}, {1, 120}), w = random_normal({16, 6}, {2, 120}),
               b = random_normal({16}, {3, 120});
  const auto gradients = [&](Device device) {
    const std::vector<Tensor> in = {x.to(device), w.to(device), b.to(device)};
    Tape tape;
    const Tensor y = sum(square(linear_gelu(in[0], in[1], in[2], true)));
    return tape.gradient(y, in);
  };
  const std::vector<Tensor> here = gradients(Device::cpu()), there = gradients(cuda);
  for (std::size_t i = 0; i < here.size(); ++i) CHECK(relative_error(there[i].to(Device::cpu()), here[i]) < 4e-6);
}
