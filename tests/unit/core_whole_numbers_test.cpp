// Numbers beside tensors whose type lacks them; whole numbers are exact to the ends of 64 bits.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/rearrange/constructors.h"
#include "core/registry.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>

using namespace eg;

namespace {

constexpr std::int64_t big = (std::int64_t{1} << 53) + 1;
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

using Whole = std::vector<std::int64_t>;
using Truth = std::vector<bool>;

Whole whole(const Tensor& x) { return x.to_vector<std::int64_t>(); }
Truth truth(const Tensor& x) { return x.to_vector<bool>(); }

} // namespace

TEST_CASE("comparisons of whole numbers with a fraction between them") {
  const Tensor k = Tensor::from<std::int64_t>({-2, -1, 1, 2}, {4});
  CHECK(truth(lt(k, 1.5)) == Truth{true, true, true, false});
  CHECK(truth(le(k, 1.5)) == Truth{true, true, true, false});
  CHECK(truth(gt(k, -1.5)) == Truth{false, true, true, true});
  CHECK(truth(ge(k, -1.5)) == Truth{false, true, true, true});
  CHECK(truth(eq(k, 1.5)) == Truth{false, false, false, false});
  CHECK(truth(ne(k, 1.5)) == Truth{true, true, true, true});
}

TEST_CASE("comparisons of whole numbers with what lies beyond their type, and with NaN") {
  const Tensor u = Tensor::from<std::uint8_t>({0, 255}, {2});
  const Truth none{false, false}, all{true, true};
  CHECK(truth(eq(u, 256)) == none);
  CHECK(truth(lt(u, 256)) == all);
  CHECK(truth(ge(u, 256)) == none);
  CHECK(truth(gt(u, -1)) == all);
  CHECK(truth(le(u, -0.5)) == none);
  CHECK(truth(ne(u, INFINITY)) == all);
  const Tensor ends = Tensor::from<std::int64_t>({least, largest}, {2});
  CHECK(truth(lt(ends, 0x1p63)) == all);
  CHECK(truth(le(ends, -0x1p63)) == Truth{true, false});
  CHECK(truth(gt(ends, -INFINITY)) == all);
  const Tensor bits = Tensor::from<bool>({false, true}, {2});
  CHECK(truth(lt(bits, 0.5)) == Truth{true, false});
  CHECK(truth(eq(bits, 2)) == none);
  for (const Tensor& x : {u, ends, bits}) {
    CHECK(truth(ne(x, NAN)) == all);
    CHECK(truth(eq(x, NAN)) == none);
    CHECK(truth(lt(x, NAN)) == none);
    CHECK(truth(le(x, NAN)) == none);
    CHECK(truth(gt(x, NAN)) == none);
    CHECK(truth(ge(x, NAN)) == none);
  }
}

TEST_CASE("comparisons with a finite number beyond the largest element of the type") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = Tensor::from<double>({-INFINITY, -3e38, 0, 3e38, INFINITY, NAN}, {6}).to(dtype);
    const Truth none(6, false), all(6, true);
    const Truth all_but_infinity{true, true, true, true, false, false};
    const Truth infinity{false, false, false, false, true, false}, minus{true, false, false, false, false, false};
    const Truth all_but_minus{false, true, true, true, true, false};
    for (const double b : {1e300, -1e300}) {
      CHECK(truth(eq(x, b)) == none);
      CHECK(truth(ne(x, b)) == all);
    }
    CHECK(truth(lt(x, 1e300)) == all_but_infinity);
    CHECK(truth(le(x, 1e300)) == all_but_infinity);
    CHECK(truth(gt(x, 1e300)) == infinity);
    CHECK(truth(ge(x, 1e300)) == infinity);
    CHECK(truth(lt(x, -1e300)) == minus);
    CHECK(truth(le(x, -1e300)) == minus);
    CHECK(truth(gt(x, -1e300)) == all_but_minus);
    CHECK(truth(ge(x, -1e300)) == all_but_minus);
    CHECK(truth(eq(x, INFINITY)) == infinity); // control
    CHECK(truth(le(x, -INFINITY)) == minus);
  }
}

TEST_CASE("attributes that stand for an element keep whole numbers beyond 2^53") {
  const Tensor x = Tensor::from<std::int64_t>({big, 1}, {2});
  const Tensor mask = Tensor::from<bool>({false, true}, {2});
  CHECK(whole(call(find_op("masked_fill"), {x, mask}, {{"value", largest}})[0]) == Whole{big, largest});
  const Attrs padding{
      {"axis", std::int64_t{0}}, {"before", std::int64_t{0}}, {"after", std::int64_t{1}}, {"value", big}};
  CHECK(whole(call(find_op("pad"), {x}, padding)[0]) == Whole{big, 1, big});
  CHECK(call(find_op("pad"), {x.to(DType::f64)}, padding)[0].at({2}) == 0x1p53);
  CHECK_THROWS_AS(call(find_op("pad"), {x.to(DType::u8)}, padding), ValueError);
}

TEST_CASE("arange of whole numbers is exact up to the ends of 64 bits") {
  CHECK(whole(arange_whole(big, big + 3, 1)) == Whole{big, big + 1, big + 2});
  CHECK(whole(arange_whole(largest - 3, largest, 2)) == Whole{largest - 3, largest - 1});
  CHECK(whole(arange_whole(least, largest, largest)) == Whole{least, -1, largest - 1});
  CHECK(whole(arange_whole(2, least, least)) == Whole{2, least + 2});
  CHECK(whole(arange_whole(3, 0, -1)) == Whole{3, 2, 1});
  CHECK(arange_whole(3, 3, -1).numel() == 0);
  CHECK_THROWS_WITH_AS(arange_whole(0, 3, 0), "arange: step 0 does not lead from 0 to 3", ValueError);
  CHECK_THROWS_WITH_AS(arange_whole(0, 3, -1), "arange: step -1 does not lead from 0 to 3", ValueError);
  CHECK_THROWS_WITH_AS(arange_whole(least, largest, 1), doctest::Contains("numbers are too many"), ValueError);
  CHECK_THROWS_AS(arange_whole(0, 3, 1, DType::f32), DTypeError);
}

TEST_CASE("makers refuse numbers that the type does not hold") {
  CHECK_THROWS_WITH_AS(arange(254, 258, 1, DType::u8), "arange: 257 is not a value of u8", ValueError);
  CHECK_THROWS_WITH_AS(linspace(0, 1000, 3, DType::u8), doctest::Contains("is not a value of u8"), ValueError);
  CHECK_THROWS_AS(arange(1e19, 1e19 + 4096, 2048), ValueError);
  CHECK(arange(1e19, 1e19 + 4096, 2048, DType::f64).numel() == 2);
  CHECK(whole(linspace(0, 10, 4, DType::i64)) == Whole{0, 3, 6, 10});
  CHECK(arange(250, 256, 1, DType::u8).to_vector<std::uint8_t>().back() == 255);
}
