// Arithmetic and reductions of whole numbers: exact in i64, an error beyond it, joined with floating numbers.

#include "autograd/tape.h"
#include "core/ops.h"
#include "core/random.h"

#include <doctest/doctest.h>
#include <limits>

using namespace eg;

namespace {

using Whole = std::int64_t;
constexpr Whole most = std::numeric_limits<Whole>::max(), least = std::numeric_limits<Whole>::min();
__extension__ using Wide = __int128;

Tensor numbers(const std::vector<Whole>& list) { return Tensor::from(list, {static_cast<Whole>(list.size())}); }

/// Bit patterns of every length, every second one of 64.
std::vector<Whole> drawn(RandomStream& random, std::size_t count) {
  std::vector<Whole> list(count);
  for (Whole& x : list) x = static_cast<Whole>(random.next_u64()) >> (random.below(2) == 0 ? 0 : random.below(64));
  return list;
}

/// Whether f(a, b) is refused where 64 bits do not hold the wide result, and is it elsewhere.
void compare(Tensor (*f)(const Tensor&, const Tensor&), Wide (*wide)(Wide, Wide)) {
  RandomStream random({.seed = 11});
  const std::vector<Whole> a = drawn(random, 4000), b = drawn(random, 4000);
  std::vector<Whole> first, second, wanted;
  std::vector<std::size_t> beyond;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Wide value = wide(a[i], b[i]);
    if (value > most || value < least) {
      beyond.push_back(i);
      continue;
    }
    first.push_back(a[i]);
    second.push_back(b[i]);
    wanted.push_back(static_cast<Whole>(value));
  }
  CHECK(f(numbers(first), numbers(second)).to_vector<Whole>() == wanted);
  CHECK(wanted.size() > 500);
  CHECK(beyond.size() > 100);
  for (std::size_t k = 0; k < beyond.size(); k += 1 + beyond.size() / 200)
    CHECK_THROWS_AS(f(numbers({1, a[beyond[k]]}), numbers({1, b[beyond[k]]})), ValueError);
}

} // namespace

TEST_CASE("sums, differences and products of whole numbers are exact or refused") {
  compare(add, [](Wide a, Wide b) { return a + b; });
  compare(sub, [](Wide a, Wide b) { return a - b; });
  compare(mul, [](Wide a, Wide b) { return a * b; });
}

TEST_CASE("what is refused is found in every chunk, on any number of threads") {
  for (const std::int64_t n : {1, 5, 16384, 16385, 70001})
    for (const std::int64_t place : {std::int64_t{0}, n / 2, n - 1}) {
      Tensor x = Tensor::zeros({n}, DType::i64);
      CHECK(add(x, numbers({1})).numel() == n);
      x.mutable_data<Whole>()[place] = most;
      CHECK_THROWS_AS(add(x, numbers({1})), ValueError);
      CHECK_THROWS_AS(square(x), ValueError);
      CHECK_THROWS_AS(remainder(numbers({1}), sub(x, numbers({most}))), ValueError);
    }
}

TEST_CASE("the least number has no opposite, size or quotient by -1, and a remainder of 0") {
  const Tensor x = numbers({least}), minus = numbers({-1});
  CHECK_THROWS_AS(neg(x), ValueError);
  CHECK_THROWS_AS(abs(x), ValueError);
  CHECK_THROWS_AS(floor_divide(x, minus), ValueError);
  CHECK(remainder(x, minus).item() == 0);
  CHECK(fmod(x, minus).item() == 0);
  CHECK(sum(numbers({most, 1, -1})).to_vector<Whole>() == std::vector<Whole>{most}); // a sum on the way is beyond
  CHECK_THROWS_AS(sum(numbers({most, 1})), ValueError);
  CHECK(prod(numbers({least, 1})).to_vector<Whole>() == std::vector<Whole>{least});
  CHECK_THROWS_AS(prod(numbers({least, -1})), ValueError);
  CHECK(prod(numbers({most, most, 0})).item() == 0);
}

TEST_CASE("numbers of C++ join whole tensors where they are whole") {
  const Tensor k = numbers({3, -4});
  CHECK((k * 2.0 + 1.0).to_vector<Whole>() == std::vector<Whole>{7, -7});
  CHECK_THROWS_WITH_AS(k * 0.5, doctest::Contains("0.5 is no whole number"), DTypeError);
  CHECK((k + Tensor::ones({2})).dtype() == DType::f32);
  CHECK((k / numbers({2, 8})).to_vector<float>() == std::vector<float>{1.5F, -0.5F});
  CHECK(gt(k, Tensor::full({2}, 2.5, DType::f64)).to_vector<bool>() == std::vector<bool>{true, false});
}

TEST_CASE("gradients pass by whole numbers") {
  const Tensor x = Tensor::from<double>({1.5, -2.5}, {2});
  Tape tape;
  const Tensor y = sum(mul(x, cast(x, DType::i64))); // the slope of a cast to i64 is none
  CHECK(tape.gradient(y, {x})[0].to_vector<double>() == std::vector<double>{1.0, -2.0});
}
