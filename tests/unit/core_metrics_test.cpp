// Metrics and assignments against their definitions by brute force.

#include "core/ops.h"
#include "core/random.h"
#include "nn/metrics.h"
#include "permute/recovery/assignment.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <numeric>
#include <set>

using eg::DType;
using eg::Tensor;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double not_a_number = std::nan("");

Tensor labels_of(std::initializer_list<std::int64_t> values) {
  return Tensor::from<std::int64_t>(values, {static_cast<std::int64_t>(values.size())});
}

/// Least cost over all assignments of the rows to distinct columns (rows <= columns).
double least_by_force(const Tensor& cost, std::int64_t row, std::set<std::int64_t>& taken) {
  if (row == cost.size(0)) return 0;
  double least = inf;
  for (std::int64_t column = 0; column < cost.size(1); ++column) {
    if (!taken.insert(column).second) continue;
    least = std::min(least, cost.at({row, column}) + least_by_force(cost, row + 1, taken));
    taken.erase(column);
  }
  return least;
}
double least_by_force(const Tensor& cost) {
  std::set<std::int64_t> taken;
  return least_by_force(cost.size(0) <= cost.size(1) ? cost : cost.transpose(), 0, taken);
}

double cost_of(const Tensor& cost, const eg::permute::Assignment& a) {
  std::set<std::int64_t> rows;
  std::set<std::int64_t> columns;
  double total = 0;
  for (std::int64_t i = 0; i < a.rows.numel(); ++i) {
    const auto r = static_cast<std::int64_t>(a.rows.at({i}));
    const auto c = static_cast<std::int64_t>(a.columns.at({i}));
    CHECK(rows.insert(r).second);
    CHECK(columns.insert(c).second);
    if (i > 0) CHECK(r > a.rows.at({i - 1}));
    total += cost.at({r, c});
  }
  CHECK(a.rows.numel() == std::min(cost.size(0), cost.size(1)));
  return total;
}

} // namespace

TEST_CASE("assignments have the least cost of all") {
  for (std::int64_t n = 1; n <= 7; ++n)
    for (std::int64_t m = 1; m <= 7; ++m) {
      const eg::RandomKey key{41, static_cast<std::uint64_t>(10 * n + m)};
      const Tensor normal = eg::random_normal({n, m}, key, 0.0, 3.0, DType::f64);
      CHECK(cost_of(normal, eg::permute::hungarian(normal)) == doctest::Approx(least_by_force(normal)).epsilon(1e-12));
      const Tensor most = eg::neg(normal);
      CHECK(-cost_of(normal, eg::permute::hungarian(normal, true)) ==
            doctest::Approx(least_by_force(most)).epsilon(1e-12));
      // Many equal costs.
      const Tensor whole = eg::random_integers({n, m}, key, 0, 4).to(DType::f32);
      CHECK(cost_of(whole, eg::permute::hungarian(whole)) == least_by_force(whole));
    }
}

TEST_CASE("forbidden pairs") {
  int feasible = 0;
  int infeasible = 0;
  for (std::uint64_t draw = 0; draw < 60; ++draw) {
    std::vector<double> v = eg::random_normal({5, 6}, {42, draw}, 0.0, 1.0, DType::f64).to_vector<double>();
    const std::vector<double> u = eg::random_uniform({5, 6}, {43, draw}, 0.0, 1.0, DType::f64).to_vector<double>();
    for (std::size_t i = 0; i < v.size(); ++i)
      if (u[i] < 0.6) v[i] = inf;
    const Tensor cost = Tensor::from<double>(v, {5, 6});
    const double least = least_by_force(cost);
    if (least == inf) {
      ++infeasible;
      CHECK_THROWS_WITH_AS(eg::permute::hungarian(cost), doctest::Contains("leave no assignment"), eg::ValueError);
    } else {
      ++feasible;
      CHECK(cost_of(cost, eg::permute::hungarian(cost)) == doctest::Approx(least).epsilon(1e-12));
    }
  }
  CHECK(feasible > 5);
  CHECK(infeasible > 5);
}

TEST_CASE("a large assignment whose optimum is known") {
  // cost = u_i + v_j + slack with slack 0 at (i, p(i)) alone: the prices prove that p is the only optimum.
  constexpr std::int64_t n = 150;
  const std::vector<double> u = eg::random_normal({n}, {44, 1}, 0.0, 5.0, DType::f64).to_vector<double>();
  const std::vector<double> v = eg::random_normal({n}, {44, 2}, 0.0, 5.0, DType::f64).to_vector<double>();
  std::vector<double> cost = eg::random_uniform({n, n}, {44, 3}, 0.1, 1.0, DType::f64).to_vector<double>();
  std::vector<std::int64_t> wanted;
  for (std::int64_t i = 0; i < n; ++i) {
    wanted.push_back((7 * i + 3) % n); // 7 and 150 have no common divisor
    cost[static_cast<std::size_t>(i * n + wanted.back())] = 0.0;
    for (std::int64_t j = 0; j < n; ++j)
      cost[static_cast<std::size_t>(i * n + j)] += u[static_cast<std::size_t>(i)] + v[static_cast<std::size_t>(j)];
  }
  CHECK(eg::permute::hungarian(Tensor::from<double>(cost, {n, n})).columns.to_vector<std::int64_t>() == wanted);
}

TEST_CASE("assignments at the ends of the range, and what is refused") {
  const Tensor huge = Tensor::from<double>({1.7e308, -1.7e308, -1.7e308, 1.7e308}, {2, 2});
  CHECK(eg::permute::hungarian(huge).columns.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0});
  CHECK(eg::permute::hungarian(Tensor::zeros({0, 3})).rows.numel() == 0);
  CHECK(eg::permute::hungarian(Tensor::zeros({3, 0})).columns.numel() == 0);
  const auto bad = [](double value) { return Tensor::from<double>({1, value, 2, 3}, {2, 2}); };
  CHECK_THROWS_WITH_AS(eg::permute::hungarian(bad(not_a_number)), doctest::Contains("a cost is NaN"), eg::ValueError);
  CHECK_THROWS_WITH_AS(eg::permute::hungarian(bad(-inf)), doctest::Contains("a cost is -inf"), eg::ValueError);
  CHECK_THROWS_WITH_AS(eg::permute::hungarian(bad(inf), true), doctest::Contains("a cost is inf"), eg::ValueError);
  CHECK_THROWS_AS(eg::permute::hungarian(Tensor::zeros({3})), eg::ShapeError);
  CHECK_THROWS_AS(eg::permute::hungarian(Tensor::zeros({2, 2}, DType::i64)), eg::DTypeError);
}

TEST_CASE("top-k accuracy: ties go to the left, a NaN is never right") {
  const Tensor logits = Tensor::from<double>({0.1, 0.9, 0.5, 2, 2, 2, not_a_number, 1, 0, 3, not_a_number, 1}, {4, 3});
  const Tensor labels = labels_of({2, 1, 1, 1});
  CHECK(eg::nn::top_k_accuracy(logits, labels, 1) == 0.0);
  CHECK(eg::nn::top_k_accuracy(logits, labels, 2) == 0.75);
  CHECK(eg::nn::top_k_accuracy(logits, labels, 3) == 0.75);
  CHECK_THROWS_AS(eg::nn::top_k_accuracy(logits, labels, 0), eg::ValueError);
  CHECK_THROWS_WITH_AS(eg::nn::top_k_accuracy(logits, labels_of({0, 1, 3, 0})),
                       doctest::Contains("label is 3 at position 2"), eg::IndexError);
  CHECK_THROWS_AS(eg::nn::top_k_accuracy(logits, labels_of({0})), eg::ShapeError);
}

TEST_CASE("top-k accuracy agrees with topk") {
  const Tensor logits = eg::random_normal({50, 9}, {45, 1});
  const Tensor labels = eg::random_integers({50}, {45, 2}, 0, 9);
  const Tensor best = eg::topk(logits, 3).indices;
  int right = 0;
  for (std::int64_t i = 0; i < 50; ++i)
    for (std::int64_t k = 0; k < 3; ++k) right += best.at({i, k}) == labels.at({i}) ? 1 : 0;
  CHECK(eg::nn::top_k_accuracy(logits, labels, 3) == right / 50.0);
}

TEST_CASE("area under the curve counts pairs") {
  const Tensor scores = eg::random_integers({60}, {46, 1}, 0, 12).to(DType::f32); // many ties
  const Tensor labels = eg::random_integers({60}, {46, 2}, 0, 2);
  double wins = 0;
  double pairs = 0;
  for (std::int64_t i = 0; i < 60; ++i)
    for (std::int64_t j = 0; j < 60; ++j) {
      if (labels.at({i}) != 1 || labels.at({j}) != 0) continue;
      ++pairs;
      wins += scores.at({i}) > scores.at({j}) ? 1.0 : scores.at({i}) == scores.at({j}) ? 0.5 : 0.0;
    }
  CHECK(eg::nn::auc(scores, labels) == wins / pairs);
  CHECK(eg::nn::auc(scores, labels.to(DType::boolean)) == wins / pairs);
  const Tensor few = Tensor::from<double>({-inf, 0, inf}, {3});
  CHECK(eg::nn::auc(few, labels_of({0, 0, 1})) == 1.0);
  CHECK(eg::nn::auc(few, labels_of({1, 0, 0})) == 0.0);
  CHECK_THROWS_WITH_AS(eg::nn::auc(few, labels_of({1, 1, 1})), doctest::Contains("all 3 labels are 1; both classes"),
                       eg::ValueError);
  CHECK_THROWS_WITH_AS(eg::nn::auc(few, labels_of({0, 0, 0})), doctest::Contains("all 3 labels are 0"), eg::ValueError);
  CHECK_THROWS_AS(eg::nn::auc(few, labels_of({0, 2, 1})), eg::IndexError);
  CHECK_THROWS_AS(eg::nn::auc(Tensor::from<double>({0, not_a_number}, {2}), labels_of({0, 1})), eg::ValueError);
}

TEST_CASE("confusion matrix: labels down, predictions across") {
  const Tensor m = eg::nn::confusion_matrix(labels_of({0, 1, 1, 2, 1}), labels_of({0, 1, 2, 2, 0}), 3);
  CHECK(m.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 1, 0, 0, 1, 0, 0, 1, 1});
  CHECK_THROWS_WITH_AS(eg::nn::confusion_matrix(labels_of({3}), labels_of({0}), 3),
                       doctest::Contains("prediction is 3"), eg::IndexError);
}
