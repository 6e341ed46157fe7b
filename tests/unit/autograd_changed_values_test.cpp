#include "autograd/tape.h"
#include "core/ops.h"
#include "unit/autograd_vectors.h"

#include <doctest/doctest.h>

using namespace eg;
using namespace eg::test;

TEST_CASE("tape: a computed value that was changed in place is not read again") {
  const Tensor a = vec({1, 2});
  const Tensor b = vec({3, 4});
  Tape tape;
  Tensor y;
  {
    const PlaceScope place("head");
    y = add(a, b); // saves nothing, so no rule would notice
  }
  SUBCASE("by itself") {
    const PlaceScope place("trainer");
    y.fill(3.0);
  }
  SUBCASE("through a view") {
    const PlaceScope place("trainer");
    Tensor view = y.slice(0, 0, 1);
    view.fill(3.0);
    CHECK_THROWS_AS(mul(view, view), AutogradError);
  }
  SUBCASE("through the value, read by a view") {
    const Tensor view = y.reshape({2, 1});
    const PlaceScope place("trainer");
    y.fill(3.0);
    CHECK_THROWS_WITH_AS(mul(view, view), doctest::Contains("reshape computed on this tape"), AutogradError);
  }
  try {
    const PlaceScope place("loss");
    mul(y, y);
    FAIL("the change went unnoticed");
  } catch (const AutogradError& e) {
    const std::string text = e.what();
    CHECK(text.find("mul (at loss) would read f64 [2]") != std::string::npos);
    CHECK(text.find("add (at head) computed") != std::string::npos);
    CHECK(text.find("'fill' (at trainer) changed it in place") != std::string::npos);
  }
}

TEST_CASE("tape: gradient() refuses computed values that were changed in place") {
  const Tensor a = vec({1, 2});
  Tape tape;
  Tensor h = affine(a, 2.0, 0.0);
  Tensor y = sum(h);
  SUBCASE("y") {
    y.fill(0.0);
    CHECK_THROWS_WITH_AS(tape.gradient(y, {a}), doctest::Contains("gradient() would read f64 []"), AutogradError);
  }
  SUBCASE("x") {
    h.fill(0.0);
    CHECK_THROWS_WITH_AS(tape.gradient(y, {h}), doctest::Contains("affine computed"), AutogradError);
  }
}

TEST_CASE("tape: values may be changed where no gradient goes wrong") {
  SUBCASE("a leaf before it is used, and through a view of it") {
    Tensor a = vec({1, 2});
    Tape tape;
    Tensor view = a.slice(0, 0, 1);
    view.fill(5.0);
    const Tensor y = sum(mul(a, a)) + sum(mul(view, view));
    CHECK(list(tape.gradient(y, {a})[0]) == std::vector<double>{20, 4});
  }
  SUBCASE("views of a value and the value side by side") {
    const Tensor a = vec({1, 2});
    Tape tape;
    const Tensor h = mul(a, a);
    const Tensor y = sum(mul(h.reshape({2, 1}).transpose(0, 1).reshape({2}), h));
    CHECK(list(tape.gradient(y, {a})[0]) == std::vector<double>{4, 32});
  }
  SUBCASE("a computed value that nobody reads afterwards and no rule saved") {
    const Tensor a = vec({1, 2});
    Tape tape;
    Tensor h = affine(a, 3.0, 0.0);
    const Tensor y = sum(h);
    h.fill(0.0);
    CHECK(list(tape.gradient(y, {a})[0]) == std::vector<double>{3, 3});
  }
  SUBCASE("a clone that nobody reads afterwards") {
    const Tensor a = vec({1, 2});
    Tape tape;
    const Tensor h = affine(a, 3.0, 0.0);
    Tensor copy = h.clone();
    copy.fill(0.0);
    CHECK(list(tape.gradient(sum(mul(h, h)), {a})[0]) == std::vector<double>{18, 36});
  }
}
