// Products, scans, norms and orders on numbers that the laws' samples leave out: zeros, ties, NaN, infinities. The
// gradients and Hessian products of one matrix are PyTorch 1.13.1's.

#include "autograd/tape.h"
#include "core/ops.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>

using eg::DType;
using eg::Shape;
using eg::Tensor;

namespace {

using List = std::vector<double>;
using Places = std::vector<std::int64_t>;

constexpr double inf = std::numeric_limits<double>::infinity();
const double not_a_number = std::nan("");

Tensor row_of(const List& values) { return Tensor::from<double>(values, {static_cast<std::int64_t>(values.size())}); }

Tensor counting(const Shape& shape, double first, double step) {
  return eg::arange(first, first + step * (static_cast<double>(shape.numel()) - 0.5), step, DType::f64).reshape(shape);
}

/// Gradient of <1, 2, ...; f(x)> and the gradient of <0.1, 0.2, ...; that gradient>.
template <class F> std::vector<Tensor> derivatives(F f, const Tensor& x) {
  eg::Tape outer;
  Tensor first;
  {
    eg::Tape inner;
    const Tensor y = f(x);
    first = inner.gradient(y, {x}, counting(y.shape(), 1.0, 1.0))[0];
  }
  const Tensor total = eg::sum(eg::mul(first, counting(x.shape(), 0.1, 0.1)));
  return {first, outer.gradient(total, {x})[0]};
}

template <class F> void check_derivatives(F f, const List& first, const List& second) {
  const Tensor x = Tensor::from<double>({1.5, -2, 0.25, 3, 0, 2, -1, 0.5, 0, 0, 3, 2}, {3, 4});
  const std::vector<Tensor> d = derivatives(f, x);
  CHECK(eg::relative_error(d[0], Tensor::from<double>(first, {3, 4})) < 1e-14);
  // Small differences of numbers some 40 times as large: a few roundings of those.
  CHECK(eg::relative_error(d[1], Tensor::from<double>(second, {3, 4})) < 4e-14);
}

} // namespace

TEST_CASE("products with no, one and two zeros") {
  check_derivatives([](const Tensor& x) { return eg::prod(x, {1}); },
                    {-1.5, 1.125, -9.0, -0.75, -2.0, 0, 0, 0, 0, 0, 0, 0},
                    {-1.85, 1.575, -0.9, -0.875, -2.4, -0.5, 1.0, -2.0, 18.0, 16.2, 0.0, 0.0});
  check_derivatives([](const Tensor& x) { return eg::cumprod(x, 1); },
                    {-10.5, 8.625, -45.0, -3.0, -5.0, 0, 0, 0, 9.0, 0, 0, 0},
                    {-8.65, 7.925, -3.3, -3.5, -0.4, -2.5, 11.0, -8.0, 115.0, 103.5, 0.0, 0.0});
  CHECK(eg::prod(Tensor::zeros({0}, DType::f64)).item() == 1.0);
  CHECK(eg::prod(row_of({1e200, 1e200, 1e-200, 1e-200})).item() == doctest::Approx(1.0)); // no overflow on the way
  CHECK(eg::prod(row_of({1e-200, 1e-200, 1e200, 5e200})).item() == doctest::Approx(5.0));
  CHECK(std::isnan(eg::prod(row_of({0, inf})).item()));
  CHECK(eg::prod(row_of({-2, inf})).item() == -inf);
}

TEST_CASE("deviation and variance") {
  check_derivatives([](const Tensor& x) { return eg::std_deviation(x, {1}); },
                    {0.1280430903410646, -0.42352714497429056, -0.0689462794144194, 0.3644303340476454, -0.2,
                     0.8666666666666667, -0.7333333333333333, 0.06666666666666667, -0.8333333333333333,
                     -0.8333333333333333, 1.1666666666666665, 0.5},
                    {-0.026858434209269248, 0.002770234675956053, 0.009613264703317678, 0.014474934829995527, -0.0832,
                     -0.0128, 0.0149333333333333, 0.08106666666666668, -0.0444444444444444, 0.0222222222222222,
                     -0.0444444444444444, 0.0666666666666666});
  check_derivatives([](const Tensor& x) { return eg::var(x, {1}, 0.0); },
                    {0.40625, -1.34375, -0.21875, 1.15625, -0.375, 1.625, -1.375, 0.125, -1.875, -1.875, 2.625, 1.125},
                    {-0.075, -0.025, 0.025, 0.075, -0.15, -0.05, 0.05, 0.15, -0.225, -0.075, 0.075, 0.225});
}

TEST_CASE("logsumexp") {
  check_derivatives([](const Tensor& x) { return eg::logsumexp(x, {1}); },
                    {0.17246162888593886, 0.005207889933106296, 0.0494110839501434, 0.7729193972308116,
                     0.19220314838019442, 1.4201998457723484, 0.07070758681749774, 0.31688941902995943,
                     0.1017825758526586, 0.1017825758526586, 2.0443576854257235, 0.7520771628689585},
                    {-0.04178380079589368, -0.0007409724601647489, -0.002089042569045487, 0.044613815825103875,
                     -0.02414343776828383, -0.03637723151365546, 0.005259642969345793, 0.05526102631259347,
                     -0.021872157591703523, -0.011693900006437663, -0.030442491812796124, 0.06400854941093814});
  CHECK(eg::logsumexp(row_of({1000, 1000})).item() == doctest::Approx(1000 + std::log(2.0)).epsilon(1e-15));
  CHECK(eg::logsumexp(row_of({-inf, -inf})).item() == -inf);
  CHECK(eg::logsumexp(row_of({1, inf})).item() == inf);
  CHECK(std::isnan(eg::logsumexp(row_of({1, not_a_number, inf})).item()));
  // A row without mass gets no gradient.
  const Tensor x = Tensor::from<double>({-inf, -inf, 0, -inf}, {2, 2});
  CHECK(derivatives([](const Tensor& t) { return eg::logsumexp(t, {1}); }, x)[0].to_vector<double>() ==
        List{0, 0, 2, 0});
}

TEST_CASE("norms") {
  check_derivatives([](const Tensor& x) { return eg::norm(x, 2.0, {1}); },
                    {0.3833259389999639, -0.5111012519999519, 0.06388765649999399, 0.7666518779999278, 0.0,
                     1.7457431218879391, -0.8728715609439696, 0.4364357804719848, 0.0, 0.0, 2.4961508830135313,
                     1.6641005886756874},
                    {-0.00010430637795917283, 0.08532261717060421, 0.07238862630366664, 0.05090151244407685,
                     0.4364357804719848, 0.2244526870998778, 0.7606452173940306, 0.6234796863885498, 0.7488452649040594,
                     0.8320502943378437, -0.17921083262661253, 0.2688162489399185});
  check_derivatives(
      [](const Tensor& x) { return eg::norm(x, 3.0, {1}); },
      {0.19771171188023803, -0.3514874877870898, 0.0054919919966732785, 0.7908468475209521, 0.0, 1.8320390997835536,
       -0.4580097749458884, 0.1145024437364721, 0.0, 0.0, 2.523394010716912, 1.1215084492075165},
      {-0.0049890623266482526, 0.1260319400652935, 0.012309930127830312, 0.08548999702953394, 0.0, 0.3362921087273919,
       0.8319465227099287, 0.3187246105102895, 0.0, 0.0, -0.26916202780980325, 0.4037430417147061});
  const auto slope = [](const List& x, double p) {
    return derivatives([p](const Tensor& t) { return eg::norm(t, p); }, row_of(x))[0].to_vector<double>();
  };
  CHECK(slope({1, -3, 3}, inf) == List{0, -0.5, 0.5});
  CHECK(slope({2, -3, 0}, 1.0) == List{1, -1, 0});
  for (const double p : {1.0, 2.0, 2.5, inf}) CHECK(slope({0, 0}, p) == List{0, 0});
  CHECK(eg::norm(row_of({3e200, 4e200})).item() == doctest::Approx(5e200).epsilon(1e-15));
  CHECK(eg::norm(row_of({3e-200, 4e-200})).item() == doctest::Approx(5e-200).epsilon(1e-15));
  CHECK(eg::norm(row_of({3e200, 4e200}), 3.0).item() == doctest::Approx(std::cbrt(91.0) * 1e200).epsilon(1e-14));
  CHECK(eg::norm(Tensor::full({2}, 1e30, DType::f32)).item() == doctest::Approx(std::sqrt(2.0) * 1e30));
  for (const double p : {1.0, 2.0, 3.0, inf}) {
    CHECK(eg::norm(row_of({1, -inf}), p).item() == inf);
    CHECK(std::isnan(eg::norm(row_of({1, not_a_number, inf}), p).item()));
  }
}

TEST_CASE("order: NaN is the largest, equals keep their order") {
  const Tensor x = row_of({1, not_a_number, 0, inf, not_a_number, -inf, 1});
  CHECK(eg::argsort(x).to_vector<std::int64_t>() == Places{5, 2, 0, 6, 3, 1, 4});
  CHECK(eg::argsort(x, 0, true).to_vector<std::int64_t>() == Places{1, 4, 3, 0, 6, 2, 5});
  CHECK(eg::topk(x, 3).indices.to_vector<std::int64_t>() == Places{1, 4, 3});
  CHECK(eg::topk(x, 3, 0, false).indices.to_vector<std::int64_t>() == Places{5, 2, 0});
  CHECK(eg::topk(x, 3, 0, true, false).indices.to_vector<std::int64_t>() == Places{1, 3, 4});
  const Tensor ties = row_of({2, 1, 2, 1});
  CHECK(eg::sort(ties).values.to_vector<double>() == List{1, 1, 2, 2});
  CHECK(eg::topk(ties, 1).indices.item() == 0);
  CHECK(derivatives([](const Tensor& t) { return eg::sort(t, 0, true).values; }, ties)[0].to_vector<double>() ==
        List{1, 3, 2, 4});
}

TEST_CASE("running sums and counts") {
  const Tensor x = Tensor::from<std::int64_t>({1, 2, 3, 4}, {4});
  CHECK(eg::cumsum(x, 0).to_vector<std::int64_t>() == Places{1, 3, 6, 10});
  CHECK(eg::cumsum(x, 0, true).to_vector<std::int64_t>() == Places{10, 9, 7, 4});
  CHECK(eg::linear_scan(row_of({9, 2, 3}), row_of({1, 1, 1})).to_vector<double>() == List{1, 3, 10});
  CHECK(eg::bincount(x, {}, 7).to_vector<std::int64_t>() == Places{0, 1, 1, 1, 1, 0, 0});
  CHECK(eg::bincount(Tensor::from<std::int64_t>({0, 2, 0}, {3}), row_of({0.5, 1, 2})).to_vector<double>() ==
        List{2.5, 0, 1});
  CHECK(eg::one_hot(Tensor::from<std::int64_t>({1, 0}, {2}), 3).to_vector<std::int64_t>() == Places{0, 1, 0, 1, 0, 0});
}

TEST_CASE("tensors made from numbers") {
  CHECK(eg::arange(1, 2, 0.3, DType::f64).numel() == 4);
  CHECK(eg::arange(5, 0, -2).to_vector<std::int64_t>() == Places{5, 3, 1});
  CHECK(eg::arange(3, 3).numel() == 0);
  CHECK_THROWS_WITH_AS(eg::arange(0, 3, -1), doctest::Contains("step -1 does not lead from 0 to 3"), eg::ValueError);
  CHECK_THROWS_AS(eg::arange(0, 3, 0), eg::ValueError);
  CHECK(eg::linspace(0, 1, 7, DType::f64).to_vector<double>() ==
        List{0.0, 0.16666666666666666, 0.3333333333333333, 0.5, 0.6666666666666667, 0.8333333333333334, 1.0});
  CHECK(eg::linspace(2, 5, 1, DType::f64).to_vector<double>() == List{2});
  CHECK(eg::eye(2, 3, DType::f64).to_vector<double>() == List{1, 0, 0, 0, 1, 0});
  CHECK(eg::full({2}, 1.5, DType::f64).to_vector<double>() == List{1.5, 1.5});
}

TEST_CASE("elements in other places") {
  const auto grid = [](std::int64_t rows, std::int64_t columns) {
    return Tensor::arange(rows * columns).reshape({rows, columns});
  };
  const Tensor x = grid(3, 4);
  CHECK(eg::roll(x, {1, -5}, {0, 1}).to_vector<std::int64_t>() == Places{9, 10, 11, 8, 1, 2, 3, 0, 5, 6, 7, 4});
  CHECK(eg::roll(grid(2, 3), {2}).to_vector<std::int64_t>() == Places{4, 5, 0, 1, 2, 3});
  CHECK(eg::flip(grid(2, 3), {0, 1}).to_vector<std::int64_t>() == Places{5, 4, 3, 2, 1, 0});
  CHECK(eg::repeat(grid(2, 2), {2, 1, 2}).to_vector<std::int64_t>() ==
        Places{0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3});
  CHECK(eg::repeat_interleave(grid(2, 2), 2, 1).to_vector<std::int64_t>() == Places{0, 0, 1, 1, 2, 2, 3, 3});
  CHECK(eg::tril(x, -1).to_vector<std::int64_t>() == Places{0, 0, 0, 0, 4, 0, 0, 0, 8, 9, 0, 0});
  CHECK(eg::triu(x, 2).to_vector<std::int64_t>() == Places{0, 0, 2, 3, 0, 0, 0, 7, 0, 0, 0, 0});
  CHECK(eg::chunk(Tensor::arange(10), 4).back().shape() == Shape{1});
  CHECK(eg::chunk(Tensor::arange(5), 4).size() == 3);
  CHECK(eg::split(x, {1, 3}, 1)[1].to_vector<std::int64_t>() == Places{1, 2, 3, 5, 6, 7, 9, 10, 11});
}
