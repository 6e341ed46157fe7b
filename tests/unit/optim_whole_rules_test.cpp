// Adafactor and Muon, which look at whole parameters, against plain loops in f64.

#include "core/ops.h"
#include "core/random.h"
#include "core/reduction.h"
#include "core/threads/parallel.h"
#include "optim/optimizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace {

using namespace eg;
using optim::Optimizer;

/// A matrix in plain loops; a vector is one row.
struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> at;

  double& operator()(std::size_t i, std::size_t j) { return at[i * columns + j]; }
  double operator()(std::size_t i, std::size_t j) const { return at[i * columns + j]; }
};

Matrix matrix_of(const Tensor& x) {
  const Tensor wide = x.to(DType::f64).contiguous();
  const auto columns = static_cast<std::size_t>(wide.size(-1));
  return {static_cast<std::size_t>(wide.numel()) / columns, columns, wide.to_vector<double>()};
}

double rms(const Matrix& m) {
  double sum = 0.0;
  for (const double x : m.at) sum += x * x;
  return std::sqrt(sum / static_cast<double>(m.at.size()));
}

using Rule = std::function<void(Matrix& w, const Matrix& g, int t, double lr)>;

/// The direction of Adafactor, squares taken into the state. `v` of a vector; `r` and `c` of a matrix.
Matrix adafactor_direction(std::vector<double>& v, std::vector<double>& r, std::vector<double>& c, const Matrix& g,
                           double fresh, bool vector) {
  Matrix u = g;
  v.resize(g.at.size());
  r.resize(g.rows);
  c.resize(g.columns);
  const auto take = [&](double& moment, double value) { moment += fresh * (value - moment); };
  if (vector) {
    for (std::size_t i = 0; i < g.at.size(); ++i) {
      take(v[i], g.at[i] * g.at[i] + 1e-30);
      u.at[i] /= std::sqrt(v[i]);
    }
    return u;
  }
  double mean_of_rows = 0.0;
  for (std::size_t i = 0; i < g.rows; ++i) {
    double sum = 0.0;
    for (std::size_t j = 0; j < g.columns; ++j) sum += g(i, j) * g(i, j) + 1e-30;
    take(r[i], sum / static_cast<double>(g.columns));
    mean_of_rows += r[i] / static_cast<double>(g.rows);
  }
  for (std::size_t j = 0; j < g.columns; ++j) {
    double sum = 0.0;
    for (std::size_t i = 0; i < g.rows; ++i) sum += g(i, j) * g(i, j) + 1e-30;
    take(c[j], sum / static_cast<double>(g.rows));
  }
  for (std::size_t i = 0; i < g.rows; ++i)
    for (std::size_t j = 0; j < g.columns; ++j) u(i, j) /= std::sqrt(r[i] * c[j] / mean_of_rows);
  return u;
}

Rule adafactor_reference(optim::AdafactorOptions o, bool vector) {
  return [=, v = std::vector<double>(), r = std::vector<double>(),
          c = std::vector<double>()](Matrix& w, const Matrix& g, int t, double lr) mutable {
    const double scale = o.scale_parameter ? std::max(o.eps_scale, rms(w)) : 1.0;
    const Matrix u = adafactor_direction(v, r, c, g, std::pow(t, -o.decay_power), vector);
    const double divisor = o.clip > 0.0 ? std::max(1.0, rms(u) / o.clip) : 1.0;
    for (std::size_t i = 0; i < w.at.size(); ++i)
      w.at[i] = (1 - lr * o.weight_decay) * w.at[i] - lr * scale * u.at[i] / divisor;
  };
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix out{a.rows, b.columns, std::vector<double>(a.rows * b.columns)};
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t k = 0; k < a.columns; ++k)
      for (std::size_t j = 0; j < b.columns; ++j) out(i, j) += a(i, k) * b(k, j);
  return out;
}

Matrix transposed(const Matrix& a) {
  Matrix out{a.columns, a.rows, a.at};
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < a.columns; ++j) out(j, i) = a(i, j);
  return out;
}

Matrix orthogonalized_reference(Matrix x) {
  const double norm = rms(x) * std::sqrt(static_cast<double>(x.at.size()));
  for (double& v : x.at) v /= norm;
  for (int step = 0; step < 5; ++step) {
    const Matrix gram = product(x, transposed(x)), once = product(gram, x), twice = product(gram, once);
    for (std::size_t i = 0; i < x.at.size(); ++i)
      x.at[i] = 3.4445 * x.at[i] - 4.7750 * once.at[i] + 2.0315 * twice.at[i];
  }
  return x;
}

Rule muon_reference(optim::MuonOptions o, bool vector) {
  return
      [=, m = std::vector<double>(), v = std::vector<double>()](Matrix& w, const Matrix& g, int t, double lr) mutable {
        m.resize(w.at.size());
        v.resize(w.at.size());
        Matrix u = g;
        for (std::size_t i = 0; i < w.at.size(); ++i) {
          const double share = vector ? 0.9 : o.momentum;
          m[i] = share * m[i] + (1 - share) * g.at[i];
          v[i] = 0.95 * v[i] + 0.05 * g.at[i] * g.at[i];
          u.at[i] = vector       ? m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.95, t))) + o.eps)
                    : o.nesterov ? share * m[i] + (1 - share) * g.at[i]
                                 : m[i];
        }
        const double factor = vector ? 1.0 : 0.2 * std::sqrt(static_cast<double>(std::max(w.rows, w.columns)));
        const Matrix direction = vector ? u : orthogonalized_reference(u);
        for (std::size_t i = 0; i < w.at.size(); ++i)
          w.at[i] = (1 - lr * o.weight_decay) * w.at[i] - lr * factor * direction.at[i];
      };
}

struct Case {
  std::function<std::unique_ptr<Optimizer>(std::vector<Tensor>)> make;
  std::function<Rule(bool vector)> rule;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const optim::AdafactorOptions o : {optim::AdafactorOptions{}, optim::AdafactorOptions{.weight_decay = 0.1},
                                          optim::AdafactorOptions{.clip = 0.0, .scale_parameter = false},
                                          optim::AdafactorOptions{.decay_power = 0.5, .clip = 0.3}})
    out.push_back({[o](std::vector<Tensor> p) { return optim::adafactor(std::move(p), o); },
                   [o](bool vector) { return adafactor_reference(o, vector); }});
  for (const optim::MuonOptions o : {optim::MuonOptions{}, optim::MuonOptions{.weight_decay = 0.1},
                                     optim::MuonOptions{.momentum = 0.8, .nesterov = false, .eps = 1e-4}})
    out.push_back({[o](std::vector<Tensor> p) { return optim::muon(std::move(p), o); },
                   [o](bool vector) { return muon_reference(o, vector); }});
  return out;
}

const std::vector<Shape> shapes{{1}, {37}, {1, 1}, {5, 9}, {9, 5}, {33, 70}};

Tensor gradient_at(const Shape& shape, DType dtype, int step) {
  return random_normal(shape, RandomKey{7, 1}.fold(static_cast<std::uint64_t>(step)), 0.0, 1.0, dtype);
}

void run(const Case& c, DType dtype, double tolerance) {
  CAPTURE(name_of(dtype));
  std::vector<Tensor> parameters;
  std::vector<Matrix> expected;
  std::vector<Rule> rules;
  for (const Shape& s : shapes) {
    parameters.push_back(random_normal(s, {1, 2}, 0.0, 1.0, dtype));
    expected.push_back(matrix_of(parameters.back()));
    rules.push_back(c.rule(s.rank() == 1));
  }
  const auto optimizer = c.make(parameters);
  for (int t = 1; t <= 10; ++t) {
    std::vector<Tensor> gradients;
    for (const Shape& s : shapes) gradients.push_back(gradient_at(s, dtype, t));
    const double lr = 0.01 * t;
    optimizer->step(gradients, lr);
    for (std::size_t i = 0; i < shapes.size(); ++i) rules[i](expected[i], matrix_of(gradients[i]), t, lr);
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    CAPTURE(shapes[i].str());
    CHECK(relative_error(parameters[i].to(DType::f64), Tensor::from<double>(expected[i].at, shapes[i])) < tolerance);
  }
}

} // namespace

TEST_CASE("optim: ten steps of Adafactor and Muon match plain loops") {
  for (const Case& c : cases()) {
    CAPTURE(c.make({Tensor::ones({2, 2})})->name());
    run(c, DType::f64, 1e-12);
    run(c, DType::f32, 1e-5);
  }
}

TEST_CASE("optim: Adafactor and Muon have the same bits for one and three threads") {
  for (const Case& c : cases()) {
    std::vector<Tensor> results;
    for (const int threads : {1, 3}) {
      parallel::set_threads(threads);
      const Tensor w = random_normal({301, 217}, {1, 2});
      const auto optimizer = c.make({w});
      for (int t = 1; t <= 3; ++t) optimizer->step({gradient_at({301, 217}, DType::f32, t)}, 0.1);
      results.push_back(w);
    }
    parallel::set_threads(0);
    CHECK(same_bits(results[0], results[1]));
  }
}

TEST_CASE("optim: exact sums make Adafactor and Muon commute with permutations of rows and columns bit for bit") {
  const ReductionScope exact(Reduction::exact);
  const Tensor rows = Tensor::from<std::int64_t>({3, 0, 4, 1, 2}, {5}),
               columns = Tensor::from<std::int64_t>({2, 0, 1}, {3});
  const auto moved = [&](const Tensor& x) { return index_select(index_select(x, 0, rows), 1, columns).contiguous(); };
  for (const Case& c : cases()) {
    const Tensor plain = random_normal({5, 3}, {1, 2}), twin = moved(plain);
    const auto a = c.make({plain}), b = c.make({twin});
    for (int t = 1; t <= 3; ++t) {
      const Tensor g = gradient_at({5, 3}, DType::f32, t);
      a->step({g}, 0.1);
      b->step({moved(g)}, 0.1);
    }
    CHECK(same_bits(twin, moved(plain)));
  }
}

TEST_CASE("optim: what is made orthogonal has singular values near one, and zero stays zero") {
  const Tensor x = random_normal({12, 5}, {4, 2}, 0.0, 1.0, DType::f64), y = optim::orthogonalized(x);
  const Tensor gram = matmul(y, y, true, false);
  for (std::int64_t i = 0; i < 5; ++i) CHECK(std::abs(gram.at({i, i}) - 0.9) < 0.7);
  CHECK(optim::orthogonalized(Tensor::zeros({3, 4})).at({2, 3}) == 0.0);
  CHECK_THROWS_WITH_AS(optim::orthogonalized(Tensor::ones({3})), "orthogonalized: x has two axes, not [3]", ShapeError);
}

TEST_CASE("optim: options of Adafactor and Muon out of range are refused") {
  CHECK_THROWS_WITH_AS(optim::adafactor({}, {.eps_squares = 0.0}), "adafactor: eps_squares must be above 0",
                       ValueError);
  CHECK_THROWS_WITH_AS(optim::adafactor({}, {.clip = -1.0}), "adafactor: clip must be finite and not negative, not -1",
                       ValueError);
  CHECK_THROWS_WITH_AS(optim::muon({}, {.momentum = 1.0}), "muon: momentum must be in [0, 1), not 1", ValueError);
  CHECK_THROWS_WITH_AS(optim::muon({}, {.iterations = 0}), "muon: iterations must be from 1 to 100, not 0", ValueError);
}
