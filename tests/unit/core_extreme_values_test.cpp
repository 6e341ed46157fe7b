// Numbers whose squares or sums leave their type, and NaN: normalisations, means, losses and second derivatives are
// what they are in mathematics, as long as that is in range.

#include "autograd/functional.h"
#include "autograd/tape.h"
#include "core/ops.h"
#include "core/reduction.h"

#include <cmath>
#include <cstdint>
#include <doctest/doctest.h>
#include <functional>
#include <limits>
#include <string>
#include <vector>

using namespace eg;

namespace {

template <class T> constexpr double rounding = sizeof(T) == 4 ? 0x1p-23 : 0x1p-52;
template <class T> std::vector<double> large_sizes() {
  if (sizeof(T) == 4) return {1e18, 1e19, 1e25, 1e38 * 0.6};
  return {1e18, 1e153, 1e154, 1e200, 1e307};
}

struct Norm {
  std::string name;
  std::function<Tensor(const Tensor&)> of;
};

/// Normalisations of x [3, 4, 5].
std::vector<Norm> norms() {
  return {{"layer_norm", [](const Tensor& x) { return layer_norm(x); }},
          {"group_norm", [](const Tensor& x) { return group_norm(x, 2); }},
          {"instance_norm", [](const Tensor& x) { return instance_norm(x); }},
          {"batch_norm", [](const Tensor& x) { return batch_norm(x).y; }}};
}

Tensor drawn(const Shape& shape, std::uint64_t tag) { return random_normal(shape, {71, tag}, 0.0, 1.0, DType::f64); }

/// The gradient of sum(w norm(x)) by x.
Tensor gradient_of(const Norm& norm, const Tensor& x, const Tensor& w) {
  Tape tape;
  const Tensor y = norm.of(x);
  return tape.gradient(y, {x}, w.to(x.dtype()))[0];
}

/// With eps, which counts for nothing beside large variances, taken away: x times a power of two has the same y.
Tensor at_moderate_size(const Tensor& x) { return x * 0x1p30; }

template <class T> void check_norms(double bound) {
  const Tensor x = drawn({3, 4, 5}, 1), w = drawn({3, 4, 5}, 2).to(DType::f32).to(DType::f64);
  for (const Norm& norm : norms())
    for (const double wish : large_sizes<T>()) {
      const double size = std::ldexp(1.0, std::ilogb(wish));
      CAPTURE(norm.name);
      CAPTURE(wish);
      const Tensor narrow = x.to(dtype_of<T>), moderate = at_moderate_size(narrow.to(DType::f64));
      CHECK(relative_error(norm.of(narrow * size).to(DType::f64), norm.of(moderate)) < bound);
      const Tensor d = gradient_of(norm, narrow * size, w).to(DType::f64);
      const Tensor right = gradient_of(norm, moderate, w);
      CHECK(relative_error(d * (size * 0x1p-30), right) < 8 * bound); // sizes up to a subnormal gradient
    }
}

} // namespace

TEST_CASE_TEMPLATE("normalisations of numbers whose squares leave the type, with their gradients", T, float, double) {
  check_norms<T>(64 * rounding<T>);
}

TEST_CASE_TEMPLATE("the same in exact mode", T, float, double) {
  const ReductionScope exact(Reduction::exact);
  check_norms<T>(64 * rounding<T>);
}

TEST_CASE_TEMPLATE("layer_norm: four numbers of any size, and rows beside ordinary ones", T, float, double) {
  const std::vector<double> right = {-1.3416407864998738, -0.4472135954999579, 0.4472135954999579, 1.3416407864998738};
  const double most = static_cast<double>(std::numeric_limits<T>::max());
  const auto row = [](double scale) { return Tensor::from<double>({1, 2, 3, 4}, {4}) * scale; };
  const Tensor y = layer_norm(stack({row(most / 4), row(1e6), row(most / 8), row(-most / 4)}, 0).to(dtype_of<T>));
  for (std::int64_t r = 0; r < 4; ++r)
    for (std::int64_t j = 0; j < 4; ++j)
      CHECK(y.at({r, j}) ==
            doctest::Approx((r == 3 ? -1 : 1) * right[static_cast<std::size_t>(j)]).epsilon(4 * rounding<T>));
}

TEST_CASE("layer_norm: parameters, their gradients, and cotangents whose sums leave f32") {
  const Tensor x = drawn({6, 9}, 3), gamma = drawn({9}, 4), beta = drawn({9}, 5), g = drawn({6, 9}, 6);
  const auto gradients = [&](DType dtype, double size, double cotangent) {
    Tape tape;
    const std::vector<Tensor> in = {(x * size).to(dtype), gamma.to(dtype), beta.to(dtype)};
    const Tensor y = layer_norm(in[0], in[1], in[2]);
    std::vector<Tensor> all = tape.gradient(y, in, (g * cotangent).to(dtype));
    all.push_back(y);
    for (Tensor& t : all) t = t.to(DType::f64);
    return all;
  };
  struct Sizes {
    double x, cotangent;
  };
  for (const Sizes& sizes : {Sizes{0x1p100, 1.0}, Sizes{0x1p100, 0x1p90}, Sizes{1.0, 0x1p124}}) {
    CAPTURE(sizes.x);
    CAPTURE(sizes.cotangent);
    const std::vector<Tensor> got = gradients(DType::f32, sizes.x, sizes.cotangent),
                              right = gradients(DType::f64, sizes.x, sizes.cotangent);
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(relative_error(got[i], right[i]) < 1e-5);
  }
}

TEST_CASE("normalisations: second derivatives of numbers whose squares leave f32 agree with f64") {
  const Tensor x = drawn({3, 4, 5}, 7), u = drawn({3, 4, 5}, 8), w = drawn({3, 4, 5}, 9);
  for (const Norm& norm : norms()) {
    CAPTURE(norm.name);
    const auto product = [&](DType dtype) {
      const auto loss = [&](const std::vector<Tensor>& in) { return sum(square(norm.of(in[0])) * w.to(dtype)); };
      return hvp(loss, {(x * 0x1p66).to(dtype)}, {(u * 0x1p66).to(dtype)}).products[0].to(DType::f64);
    };
    const Tensor right = product(DType::f64);
    CHECK(relative_error(product(DType::f32), right) < 1e-4);
    CHECK(amax(abs(right)).item() > 0);
  }
}

TEST_CASE_TEMPLATE("normalisations without eps of numbers whose squares vanish in the type", T, float, double) {
  const Tensor x = drawn({3, 4, 5}, 10).to(dtype_of<T>), w = drawn({3, 4, 5}, 11).to(DType::f32).to(DType::f64);
  const std::vector<Norm> without_eps = {
      {"layer_norm", [](const Tensor& t) { return layer_norm(t, {}, {}, 0.0); }},
      {"group_norm", [](const Tensor& t) { return group_norm(t, 2, {}, {}, 0.0); }},
      {"instance_norm", [](const Tensor& t) { return instance_norm(t, {}, {}, 0.0); }},
      {"batch_norm", [](const Tensor& t) { return batch_norm(t, {}, {}, 0.0).y; }},
      {"rms_norm", [](const Tensor& t) { return rms_norm(t, {}, 0.0); }}};
  for (const int power : sizeof(T) == 4 ? std::vector<int>{-60, -70, -100} : std::vector<int>{-510, -548, -900})
    for (const Reduction mode : {Reduction::fast, Reduction::exact})
      for (const Norm& norm : without_eps) {
        CAPTURE(norm.name);
        CAPTURE(power);
        CAPTURE(static_cast<int>(mode));
        const ReductionScope scope(mode);
        const Tensor wide = x.to(DType::f64), small = x * std::ldexp(1.0, power);
        CHECK(relative_error(norm.of(small).to(DType::f64), norm.of(wide)) < 64 * rounding<T>);
        const Tensor d = gradient_of(norm, small, w * std::ldexp(1.0, power)).to(DType::f64);
        CHECK(relative_error(d, gradient_of(norm, wide, w)) < 512 * rounding<T>);
      }
}

TEST_CASE("layer_norm in exact mode: rows of any size beside each other do not change each other's bits") {
  const ReductionScope exact(Reduction::exact);
  const Tensor x = drawn({9}, 12).to(DType::f32);
  for (const double eps : {0.0, 1e-5, 1e-30}) {
    const Tensor alone = layer_norm(x, {}, {}, eps);
    const Tensor beside = layer_norm(stack({x, x * 0x1p-100, x * 0x1p100}, 0), {}, {}, eps);
    CHECK(beside.select(0, 0).to_vector<float>() == alone.to_vector<float>());
  }
}

TEST_CASE("rms_norm without eps: second derivatives of rows far from 1") {
  const Tensor x = Tensor::from<double>({1, 2, 4}, {1, 3}), u = Tensor::from<double>({0.5, -1, 0.25}, {1, 3});
  const Tensor w = Tensor::from<double>({1, -2, 0.5}, {1, 3});
  const auto product = [&](DType dtype, int power) {
    const double size = std::ldexp(1.0, power);
    const auto loss = [&](const std::vector<Tensor>& in) { return sum(rms_norm(in[0], {}, 0.0) * w.to(dtype)); };
    const Tensor h = hvp(loss, {(x * size).to(dtype)}, {(u * size).to(dtype)}).products[0].to(DType::f64);
    return h * size;
  };
  const Tensor right = product(DType::f64, 0);
  CHECK(amax(abs(right)).item() > 0.01);
  for (const Reduction mode : {Reduction::fast, Reduction::exact})
    for (const int power : {83, 100, -73, -100}) {
      CAPTURE(power);
      const ReductionScope scope(mode);
      CHECK(relative_error(product(DType::f32, power), right) < 1e-5);
    }
  for (const int power : {600, -600}) CHECK(relative_error(product(DType::f64, power), right) < 1e-13);
}

TEST_CASE_TEMPLATE("mean and mse_loss whose sums leave the type", T, float, double) {
  const double large = static_cast<double>(std::numeric_limits<T>::max()) / 2;
  const Tensor x = Tensor::full({7, 33}, large, dtype_of<T>);
  for (const Reduction mode : {Reduction::fast, Reduction::exact}) {
    const ReductionScope scope(mode);
    CHECK(mean(x).item() / large == doctest::Approx(1.0).epsilon(8 * rounding<T>));
    const std::vector<T> columns = mean(x, {0}).template to_vector<T>();
    for (const T y : columns) CHECK(static_cast<double>(y) / large == doctest::Approx(1.0).epsilon(8 * rounding<T>));
    const double root = std::sqrt(large);
    const Tensor d = Tensor::full({65}, root, dtype_of<T>);
    CHECK(mse_loss(d, Tensor::zeros({65}, dtype_of<T>)).item() / large == doctest::Approx(1.0).epsilon(1e-6));
  }
  const Tensor mixed = concat({x.reshape({-1}), Tensor::full({1}, INFINITY, dtype_of<T>)}, 0);
  CHECK(mean(mixed).item() == INFINITY); // control
  CHECK(std::isnan(mean(Tensor::zeros({0}, dtype_of<T>)).item()));
}

TEST_CASE_TEMPLATE("second derivatives of gelu and gelu_tanh are 0 far from 0", T, float, double) {
  const std::vector<double> sizes =
      sizeof(T) == 4 ? std::vector<double>{20, 3e8, 1e13, 3e19, 3e38} : std::vector<double>{50, 1e62, 1e156, 1e300};
  for (const double size : sizes)
    for (const double x : {size, -size, std::copysign(INFINITY, size)}) {
      CAPTURE(x);
      const Tensor at = Tensor::full({1}, x, dtype_of<T>), one = Tensor::ones({1}, dtype_of<T>);
      const auto f = [](const std::vector<Tensor>& in) { return sum(gelu(in[0])); };
      const auto h = [](const std::vector<Tensor>& in) { return sum(gelu_tanh(in[0])); };
      CHECK(hvp(f, {at}, {one}).products[0].item() == 0.0);
      CHECK(hvp(h, {at}, {one}).products[0].item() == 0.0);
    }
  const Tensor at = Tensor::full({1}, NAN, dtype_of<T>), one = Tensor::ones({1}, dtype_of<T>); // control
  const auto f = [](const std::vector<Tensor>& in) { return sum(gelu(in[0]) + gelu_tanh(in[0])); };
  CHECK(std::isnan(hvp(f, {at}, {one}).products[0].item()));
}

TEST_CASE("gradients at NaN: hardswish passes it on, maximum and minimum pass the cotangent to both") {
  const Tensor x = Tensor::from<float>({NAN, 4, -4, 3, 0}, {5});
  Tape tape;
  const std::vector<float> d = tape.gradient(sum(hardswish(x)), {x})[0].to_vector<float>();
  CHECK(std::isnan(d[0]));
  CHECK(std::vector<float>(d.begin() + 1, d.end()) == std::vector<float>{1, 0, 1.5F, 0.5F});
  for (Tensor (*op)(const Tensor&, const Tensor&) : {&maximum, &minimum}) {
    const Tensor a = Tensor::from<float>({NAN, 1, NAN, 2, 2, 3}, {6}),
                 b = Tensor::from<float>({1, NAN, NAN, 2, 3, 2}, {6});
    Tape other;
    const Tensor y = op(a, b);
    const std::vector<Tensor> g = other.gradient(y, {a, b}, Tensor::full({6}, 8.0));
    const float first = op == &minimum ? 8.0F : 0.0F; // of 2 and 3
    CHECK(g[0].to_vector<float>() == std::vector<float>{8, 8, 8, 4, first, 8 - first});
    CHECK(g[1].to_vector<float>() == std::vector<float>{8, 8, 8, 4, 8 - first, first});
  }
}
