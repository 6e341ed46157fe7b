// Calls that tests/fuzz and the table of accuracy found to go wrong, kept.

#include "autograd/tape.h"
#include "core/base/error.h"
#include "core/call.h"
#include "core/ops.h"
#include "core/registry.h"

#include <cmath>
#include <cstdint>
#include <doctest/doctest.h>
#include <limits>

using namespace eg;

namespace {

/// One element seen as a tensor of any size.
Tensor vast(const Shape& shape) { return Tensor::ones({}).expand(shape); }

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

} // namespace

TEST_CASE("split and chunk refuse more pieces than can be held, and sums of sizes that cannot be counted") {
  CHECK_THROWS_WITH_AS(split(vast({std::int64_t{1} << 31}), {3}, 0), doctest::Contains("715827883 pieces"), ValueError);
  CHECK_THROWS_WITH_AS(chunk(vast({most}), most, 0), doctest::Contains("would be cut into"), ValueError);
  CHECK_THROWS_WITH_AS(split(vast({most}), {most, most, 3}, 0), doctest::Contains("sizes add up to"), ValueError);
  const std::vector<Tensor> halves = split(vast({most}), {most / 2 + 1}, 0);
  REQUIRE(halves.size() == 2);
  CHECK(halves[1].shape() == Shape({most / 2}));
}

TEST_CASE("the gradient of a slice of no elements takes no notice of the other extents") {
  const Tensor x = Tensor::zeros({0, std::int64_t{1} << 62});
  Tape tape;
  const Tensor y = slice(x, 1, 3, std::int64_t{1} << 61);
  CHECK(tape.gradient(y, {x}, Tensor::zeros(y.shape()))[0].shape() == x.shape());
}

TEST_CASE("one element is put at its place whatever the step is") {
  const Attrs attrs{{"axis", std::int64_t{0}}, {"start", std::int64_t{1}}, {"step", most}, {"extent", std::int64_t{3}}};
  const Tensor y = call1(find_op("slice_backward"), {Tensor::full({1, 4}, 7.0)}, attrs);
  CHECK(y.to_vector<float>() == std::vector<float>{0, 0, 0, 0, 7, 7, 7, 7, 0, 0, 0, 0});
}

TEST_CASE("products of others over more lines than can be walked, all without elements") {
  const Shape shape = {(std::int64_t{1} << 61) - 1, 0};
  CHECK(prod_of_others(Tensor::zeros(shape), 1).shape() == shape);
}

TEST_CASE("reshape refuses extents beyond counting also beside a 0") {
  CHECK_THROWS_WITH_AS(Tensor::zeros({0, 3}).reshape({0, 3, most}), doctest::Contains("more elements than"),
                       ShapeError);
}

TEST_CASE("attention refuses more heads than can be counted three times") {
  const OpDef& op = find_op("attention_qkv");
  CHECK_THROWS_WITH_AS(call1(op, {Tensor::zeros({1, 2, 6})}, {{"heads", most / 2}}), doctest::Contains("3 heads"),
                       ShapeError);
}

TEST_CASE("roll of axes that are as long as can be counted") {
  const Tensor x = Tensor::zeros({0, most});
  CHECK(roll(x, {-3}, {1}).shape() == x.shape());
  CHECK(roll(x, {4, 4}, {1, 1}).shape() == x.shape());
}

TEST_CASE("attention of billions of heads without features ends at once, forward and backward") {
  const Tensor qkv = Tensor::zeros({1, 0, 3, 0});
  Tape tape;
  const Tensor y = attention_qkv(qkv, std::int64_t{1} << 40);
  CHECK(tape.gradient(sum(y), {qkv})[0].shape() == qkv.shape());
}

TEST_CASE_TEMPLATE("activations are 0 far to the left", T, float, double) {
  for (const T x : {T{-800}, T{-1e30F}, std::numeric_limits<T>::lowest()}) {
    CAPTURE(x);
    const Tensor at = Tensor::from(std::vector<T>(9, x), {9}); // vector body and tail
    for (const Tensor& y : {quick_gelu(at), mish(at), silu(at), gelu(at), gelu_tanh(at)})
      CHECK(y.template to_vector<T>() == std::vector<T>(9, T{0}));
  }
  // and not before
  const Tensor at = Tensor::from<double>({-700.0}, {1});
  CHECK(mish(at).item() == doctest::Approx(-700.0 * std::exp(-700.0)).epsilon(1e-12));
  CHECK(mish(at).item() < 0.0);
}

TEST_CASE("a NaN of relu's result reaches the gradient") {
  const Tensor r = Tensor::from<float>({NAN, 1, 0}, {3});
  const std::vector<float> g = call1(find_op("relu_backward"), {r, Tensor::ones({3})}, {}).to_vector<float>();
  CHECK(std::isnan(g[0]));
  CHECK(g[1] == 1.0F);
  CHECK(g[2] == 0.0F);
}

TEST_CASE_TEMPLATE("the cosine of subnormal vectors is a number, with its gradient", T, float, double) {
  const T tiny = std::numeric_limits<T>::denorm_min();
  const Tensor a = Tensor::from<T>({3 * tiny, 4 * tiny}, {1, 2});
  const Tensor b = Tensor::from<T>({T{1}, T{0}}, {1, 2});
  Tape tape;
  const Tensor y = cosine_similarity(a, b);
  const std::vector<Tensor> grads = tape.gradient(y, {a, b}, Tensor::ones(y.shape(), y.dtype()));
  CHECK(y.item() >= 0.0);
  CHECK(y.item() < 1e-30); // 3 tiny / eps
  CHECK(grads[0].at({0, 0}) == doctest::Approx(1e8));
  CHECK(cosine_embedding_loss(a, b, Tensor::from<std::int64_t>({1}, {1})).item() == doctest::Approx(1.0));
}

TEST_CASE_TEMPLATE("the cosine of two vectors of zeros has the gradient 0 for any eps", T, float, double) {
  const Tensor a = Tensor::zeros({2, 3}, dtype_of<T>), b = Tensor::zeros({2, 3}, dtype_of<T>);
  for (const double eps :
       {1e-8, std::sqrt(static_cast<double>(std::numeric_limits<T>::min())) * 1e-3}) { // 1 / eps^2: inf
    Tape tape;
    const Tensor y = cosine_similarity(a, b, -1, eps);
    for (const Tensor& grad : tape.gradient(y, {a, b}, Tensor::ones(y.shape(), y.dtype())))
      CHECK(amax(abs(grad)).item() == 0.0);
  }
}

TEST_CASE("interpolation's weights are exact where places are") {
  // 3 to 5 pixels with aligned corners: places 0, 1/2, 1, 3/2, 2
  const Tensor x = Tensor::from<double>({0, 8, 0}, {1, 1, 1, 3});
  const Tensor y = interpolate(x, {1, 5}, "bicubic", {.align_corners = true});
  CHECK(y.to_vector<double>() == std::vector<double>{0, 4.75, 8, 4.75, 0});
}
