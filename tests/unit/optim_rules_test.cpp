// Optimisers against plain double loops written from the formulas, ten steps each.

#include "core/random.h"
#include "core/threads/parallel.h"
#include "optim/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace eg;
using optim::Optimizer;
using Values = std::vector<double>;

/// One reference step on one parameter: (w, g, t) -> w, with state of its own.
using Rule = std::function<void(Values& w, Values g, int t, double lr)>;

Rule adam_reference(optim::AdamOptions o, bool decoupled) {
  return [=, m = Values(), v = Values()](Values& w, Values g, int t, double lr) mutable {
    m.resize(w.size());
    v.resize(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      if (decoupled)
        w[i] -= lr * o.weight_decay * w[i];
      else
        g[i] += o.weight_decay * w[i];
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g[i];
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g[i] * g[i];
      const double mean = m[i] / (1 - std::pow(o.beta1, t));
      const double square = v[i] / (1 - std::pow(o.beta2, t));
      w[i] -= lr * mean / (std::sqrt(square) + o.eps);
    }
  };
}

Rule sgd_reference(optim::SgdOptions o) {
  return [=, v = Values()](Values& w, Values g, int, double lr) mutable {
    v.resize(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      g[i] += o.weight_decay * w[i];
      v[i] = o.momentum * v[i] + g[i];
      w[i] -= lr * (o.nesterov ? g[i] + o.momentum * v[i] : v[i]);
    }
  };
}

Rule rmsprop_reference(optim::RmsPropOptions o) {
  return [=, v = Values(), b = Values()](Values& w, Values g, int, double lr) mutable {
    v.resize(w.size());
    b.resize(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      g[i] += o.weight_decay * w[i];
      v[i] = o.alpha * v[i] + (1 - o.alpha) * g[i] * g[i];
      b[i] = o.momentum * b[i] + g[i] / (std::sqrt(v[i]) + o.eps);
      w[i] -= lr * b[i];
    }
  };
}

Rule lion_reference(optim::LionOptions o) {
  return [=, m = Values()](Values& w, const Values& g, int, double lr) mutable {
    m.resize(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double c = o.beta1 * m[i] + (1 - o.beta1) * g[i];
      w[i] -= lr * (o.weight_decay * w[i] + (c > 0 ? 1.0 : c < 0 ? -1.0 : 0.0));
      m[i] = o.beta2 * m[i] + (1 - o.beta2) * g[i];
    }
  };
}

struct Case {
  std::string name;
  std::function<std::unique_ptr<Optimizer>(std::vector<Tensor>)> make;
  std::function<Rule()> rule;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  const auto add_sgd = [&out](const char* name, optim::SgdOptions o) {
    out.push_back(
        {name, [o](std::vector<Tensor> p) { return optim::sgd(std::move(p), o); }, [o] { return sgd_reference(o); }});
  };
  add_sgd("sgd", {});
  add_sgd("sgd, weight decay", {.weight_decay = 0.1});
  add_sgd("momentum", {.momentum = 0.9, .weight_decay = 0.01});
  add_sgd("nesterov", {.momentum = 0.9, .nesterov = true, .weight_decay = 0.01});
  for (const double decay : {0.0, 0.1}) {
    const optim::AdamOptions o{.beta1 = 0.8, .beta2 = 0.95, .weight_decay = decay};
    out.push_back({"adam", [o](std::vector<Tensor> p) { return optim::adam(std::move(p), o); },
                   [o] { return adam_reference(o, false); }});
    out.push_back({"adamw", [o](std::vector<Tensor> p) { return optim::adamw(std::move(p), o); },
                   [o] { return adam_reference(o, true); }});
  }
  const auto add_rmsprop = [&out](const char* name, optim::RmsPropOptions o) {
    out.push_back({name, [o](std::vector<Tensor> p) { return optim::rmsprop(std::move(p), o); },
                   [o] { return rmsprop_reference(o); }});
  };
  add_rmsprop("rmsprop", {});
  add_rmsprop("rmsprop, momentum", {.alpha = 0.9, .eps = 1e-3, .momentum = 0.8, .weight_decay = 0.1});
  for (const double decay : {0.0, 0.1})
    out.push_back({"lion",
                   [decay](std::vector<Tensor> p) { return optim::lion(std::move(p), {.weight_decay = decay}); },
                   [decay] { return lion_reference({.weight_decay = decay}); }});
  return out;
}

Values values_of(const Tensor& x) {
  if (x.dtype() == DType::f64) return x.to_vector<double>();
  const std::vector<float> narrow = x.to_vector<float>();
  return {narrow.begin(), narrow.end()};
}

Tensor gradient_at(const Shape& shape, DType dtype, int step) {
  return random_normal(shape, RandomKey{7, 1}.fold(static_cast<std::uint64_t>(step)), 0.0, 1.0, dtype);
}

void run(const Case& c, DType dtype, double tolerance) {
  CAPTURE(c.name);
  CAPTURE(name_of(dtype));
  // Odd sizes reach the partly filled last vector, the large one several pieces.
  const std::vector<Shape> shapes{{1}, {3, 7}, {33}, {70001}};
  std::vector<Tensor> parameters;
  for (const Shape& s : shapes) parameters.push_back(random_normal(s, {1, 2}, 0.0, 1.0, dtype));
  std::vector<Values> expected;
  for (const Tensor& p : parameters) expected.push_back(values_of(p));
  std::vector<Rule> rules(shapes.size(), c.rule());
  const auto optimizer = c.make(parameters);
  for (int t = 1; t <= 10; ++t) {
    std::vector<Tensor> gradients;
    for (const Shape& s : shapes) gradients.push_back(gradient_at(s, dtype, t));
    const double lr = 0.01 * t;
    optimizer->step(gradients, lr);
    for (std::size_t i = 0; i < shapes.size(); ++i) rules[i](expected[i], values_of(gradients[i]), t, lr);
  }
  CHECK(optimizer->steps() == 10);
  for (std::size_t i = 0; i < shapes.size(); ++i)
    CHECK(relative_error(parameters[i].dtype() == DType::f64
                             ? parameters[i]
                             : Tensor::from<double>(values_of(parameters[i]), shapes[i]),
                         Tensor::from<double>(expected[i], shapes[i])) < tolerance);
}

} // namespace

TEST_CASE("optim: ten steps of every rule match plain double loops") {
  for (const Case& c : cases()) {
    run(c, DType::f64, 1e-14);
    run(c, DType::f32, 2e-6);
  }
}

TEST_CASE("optim: the same bits for one and three threads") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    std::vector<Tensor> results;
    for (const int threads : {1, 3}) {
      parallel::set_threads(threads);
      const Tensor w = random_normal({100003}, {1, 2});
      const auto optimizer = c.make({w});
      for (int t = 1; t <= 3; ++t) optimizer->step({gradient_at({100003}, DType::f32, t)}, 0.1);
      results.push_back(w);
    }
    parallel::set_threads(0);
    CHECK(same_bits(results[0], results[1]));
  }
}

TEST_CASE("optim: an element's update does not depend on where it lies") {
  const Tensor w = Tensor::full({37}, 0.7), g = Tensor::full({37}, -0.3);
  const auto optimizer = optim::adam({w}, {.weight_decay = 0.01});
  for (int t = 0; t < 3; ++t) optimizer->step({g}, 0.1);
  for (const float x : w.to_vector<float>()) CHECK(x == w.to_vector<float>()[0]);
}

TEST_CASE("optim: undefined gradients are skipped, wrong ones refused before anything is written") {
  const Tensor a = Tensor::ones({3}), b = Tensor::ones({2});
  const auto optimizer = optim::adam({a, b});
  optimizer->step({Tensor{}, Tensor::ones({2})}, 0.5);
  CHECK(a.at({0}) == 1.0);
  CHECK(b.at({0}) == doctest::Approx(0.5));
  CHECK_THROWS_WITH_AS(optimizer->step({Tensor::ones({3})}, 0.5), "adam: 1 gradients for 2 parameters", ShapeError);
  CHECK_THROWS_WITH_AS(optimizer->step({Tensor::ones({3}), Tensor::ones({3})}, 0.5),
                       "adam: gradient 1 does not have its parameter's shape: gradient is [3], parameter is [2]",
                       ShapeError);
  CHECK_THROWS_WITH_AS(optimizer->step({Tensor::ones({3}), Tensor::ones({2}, DType::f64)}, 0.5),
                       "adam: gradient 1 is f64, its parameter is f32", DTypeError);
  CHECK(a.at({0}) == 1.0);
  CHECK(optimizer->steps() == 1);
}

TEST_CASE("optim: a strided gradient is read in its own order") {
  const Tensor w = Tensor::zeros({2, 3});
  const Tensor g = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {3, 2}).transpose();
  optim::sgd({w})->step({g}, 1.0);
  CHECK(w.to_vector<float>() == std::vector<float>{-1, -3, -5, -2, -4, -6});
}

TEST_CASE("optim: parameters that cannot be trained are refused") {
  const Tensor w = Tensor::ones({4, 4});
  CHECK_THROWS_WITH_AS(optim::sgd({w, w}), "optimizer: parameter 1 is listed twice", ValueError);
  CHECK_THROWS_WITH_AS(optim::sgd({w.transpose()}), "optimizer: parameter 0 is not densely packed", ValueError);
  CHECK_THROWS_WITH_AS(optim::sgd({Tensor::arange(3)}), "optimizer: parameter 0 is i64; parameters are f32 or f64",
                       DTypeError);
  CHECK_THROWS_WITH_AS(optim::sgd({Tensor{}}), "optimizer: parameter 0 is empty", ValueError);
}

TEST_CASE("optim: options out of range are refused") {
  CHECK_THROWS_WITH_AS(optim::sgd({}, {.momentum = 1.0}), "sgd: momentum must be in [0, 1), not 1", ValueError);
  CHECK_THROWS_WITH_AS(optim::sgd({}, {.nesterov = true}), "sgd: nesterov needs a momentum above 0", ValueError);
  CHECK_THROWS_WITH_AS(optim::adamw({}, {.beta2 = -1.0}), "adamw: beta2 must be in [0, 1), not -1", ValueError);
  CHECK_THROWS_WITH_AS(
      optim::make_optimizer("adagrad", {}),
      "optimizer: 'adagrad' is not one of sgd, momentum, nesterov, adam, adamw, rmsprop, lion, adafactor, "
      "muon",
      ValueError);
  CHECK_THROWS_WITH_AS(optim::rmsprop({}, {.alpha = 1.0}), "rmsprop: alpha must be in [0, 1), not 1", ValueError);
  CHECK_THROWS_WITH_AS(optim::lion({}, {.beta1 = -0.1}), "lion: beta1 must be in [0, 1), not -0.1", ValueError);
  for (const char* name : {"sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop", "lion", "adafactor", "muon"}) {
    CAPTURE(name);
    const Tensor matrix = Tensor::ones({4, 4});
    const auto optimizer = optim::make_optimizer(name, {Tensor::ones({2}), matrix});
    CHECK(optimizer->name() == name);
    std::int64_t elements = 0;
    for (const auto& [what, tensor] : optimizer->state(1)) elements += tensor.numel();
    CHECK(elements <= optim::rule_traits(name).state_per_element * matrix.numel());
    CHECK((optimizer->state(0).size() == 0) == (optim::rule_traits(name).state_per_element == 0));
  }
}

TEST_CASE("optim: state can be saved and restored; the run goes on with the same bits") {
  const Tensor w = random_normal({50}, {1, 2});
  const auto first = optim::adam({w});
  for (int t = 1; t <= 3; ++t) first->step({gradient_at({50}, DType::f32, t)}, 0.1);
  Tensor copy = w.clone();
  const auto second = optim::adam({copy});
  const optim::ParameterState from = first->state(0), to = second->state(0);
  CHECK(from[0].first == "exp_avg");
  CHECK(from[1].first == "exp_avg_sq");
  for (std::size_t k = 0; k < 2; ++k) Tensor(to[k].second).copy_from(from[k].second);
  second->set_steps(first->steps());
  for (int t = 4; t <= 6; ++t) {
    first->step({gradient_at({50}, DType::f32, t)}, 0.1);
    second->step({gradient_at({50}, DType::f32, t)}, 0.1);
  }
  CHECK(same_bits(w, copy));
}

TEST_CASE("optim: Lion leaves a weight whose gradient was always zero, and shows a NaN") {
  const Tensor w = Tensor::ones({3});
  const float nan = std::nanf("");
  optim::lion({w})->step({Tensor::from<float>({0.0F, nan, -2.0F}, {3})}, 0.5);
  CHECK(w.at({0}) == 1.0);
  CHECK(std::isnan(w.at({1})));
  CHECK(w.at({2}) == 1.5);
}
