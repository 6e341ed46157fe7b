// RmsNorm, BatchNorm with running statistics, GroupNorm, Conv2d, DropPath.

#include "autograd/checkpoint.h"
#include "autograd/tape.h"
#include "core/ops.h"
#include "core/reduction.h"
#include "nn/conv.h"
#include "nn/norms.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

using namespace eg;
using namespace eg::nn;

namespace {

double largest(const Tensor& x) { return max(abs(x.reshape({-1})), 0).item(); }

std::vector<std::string> names_of(const StateDict& state) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) names.push_back(name);
  return names;
}

} // namespace

TEST_CASE("BatchNorm: running statistics follow their definition over several batches") {
  BatchNorm norm(3, 1e-5, 0.25);
  norm.to(DType::f64);
  std::vector<double> mean(3, 0.0), variance(3, 1.0);
  for (std::uint64_t step = 0; step < 4; ++step) {
    const Tensor x = random_normal({5, 3, 2, 4}, {step, 7}, 2.0, 3.0, DType::f64);
    norm(x);
    for (std::int64_t c = 0; c < 3; ++c) {
      double sum = 0, squares = 0;
      const auto each = [&](auto&& visit) {
        for (std::int64_t n = 0; n < 5; ++n)
          for (std::int64_t i = 0; i < 2; ++i)
            for (std::int64_t j = 0; j < 4; ++j) visit(x.at({n, c, i, j}));
      };
      each([&](double v) { sum += v; });
      each([&](double v) { squares += (v - sum / 40) * (v - sum / 40); });
      const auto k = static_cast<std::size_t>(c);
      mean[k] = 0.75 * mean[k] + 0.25 * sum / 40;
      variance[k] = 0.75 * variance[k] + 0.25 * squares / 39;
    }
  }
  CHECK(largest(norm.running_mean - Tensor::from<double>(mean, {3})) < 1e-14);
  CHECK(largest(norm.running_var - Tensor::from<double>(variance, {3})) < 1e-13);
  norm.eval();
  const Tensor x = random_normal({2, 3}, {9, 9}, 0.0, 1.0, DType::f64), before = norm.running_mean.clone();
  const Tensor y = norm(x);
  for (std::int64_t c = 0; c < 3; ++c) {
    const auto k = static_cast<std::size_t>(c);
    CHECK(y.at({1, c}) == doctest::Approx((x.at({1, c}) - mean[k]) / std::sqrt(variance[k] + 1e-5)).epsilon(1e-12));
  }
  CHECK(same_bits(norm.running_mean, before));
}

TEST_CASE("BatchNorm: what is trained and what is state") {
  BatchNorm a(4), b(4);
  CHECK(names_of(a.state_dict()) == std::vector<std::string>{"weight", "bias", "running_mean", "running_var"});
  CHECK(a.parameters().size() == 2);
  CHECK(a.parameter_count() == 8);
  a(random_normal({6, 4}, {1, 0}, 3.0, 2.0));
  CHECK_FALSE(same_bits(a.running_mean, b.running_mean));
  b.load_state_dict(a.state_dict());
  CHECK(same_bits(a.running_mean, b.running_mean));
  CHECK(same_bits(a.running_var, b.running_var));
  CHECK_THROWS_WITH_AS(a(Tensor::ones({1, 4})), "BatchNorm: training needs at least 2 values a channel, x is [1, 4]",
                       ValueError);
  CHECK_THROWS_AS(a(Tensor::ones({3, 5})), ShapeError);
  CHECK_THROWS_AS(BatchNorm(0), ValueError);
  CHECK_THROWS_AS(BatchNorm(3, 1e-5, 1.5), ValueError);
}

TEST_CASE("BatchNorm: a checkpoint moves the statistics once, and gives the same gradients") {
  BatchNorm plain(5), kept(5);
  const Tensor x = random_normal({7, 5}, {3, 0}, 1.0, 2.0), v = random_normal({7, 5}, {4, 0});
  const auto gradients = [&](BatchNorm& norm, bool checkpointed) {
    Tape tape;
    const Tensor y = checkpointed ? checkpoint([&](const Tensor& in) { return norm(in); }, x) : norm(x);
    return tape.gradient(sum(y * y * v), {x, norm.weight, norm.bias});
  };
  const std::vector<Tensor> one = gradients(plain, false), two = gradients(kept, true);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i], two[i]));
  CHECK(same_bits(plain.running_mean, kept.running_mean));
  CHECK(same_bits(plain.running_var, kept.running_var));
  CHECK_FALSE(recomputing());
  plain(x); // control: a second pass does move them
  CHECK_FALSE(same_bits(plain.running_mean, kept.running_mean));
}

TEST_CASE("BatchNorm: permuted samples give permuted outputs and the same statistics, bit for bit in exact mode") {
  const ReductionScope exact(Reduction::exact);
  BatchNorm a(4), b(4);
  const Tensor x = random_normal({33, 4}, {5, 0}, 1.0, 2.0), order = random_permutation(33, {6, 0});
  const Tensor moved = index_select(x, 0, order);
  CHECK_FALSE(same_bits(x, moved));
  CHECK(same_bits(index_select(a(x), 0, order), b(moved)));
  CHECK(same_bits(a.running_mean, b.running_mean));
  CHECK(same_bits(a.running_var, b.running_var));
}

TEST_CASE("RmsNorm and GroupNorm are their operations with weights of their own") {
  RmsNorm rms(6);
  rms.weight.copy_from(random_normal({6}, {1, 1}, 1.0, 0.5));
  const Tensor x = random_normal({2, 6, 3}, {2, 1});
  CHECK(same_bits(rms(x.transpose(1, 2)), rms_norm(x.transpose(1, 2), rms.weight)));
  GroupNorm group(3, 6);
  group.weight.copy_from(random_normal({6}, {3, 1}, 1.0, 0.5));
  group.bias.copy_from(random_normal({6}, {4, 1}));
  CHECK(same_bits(group(x), group_norm(x, 3, group.weight, group.bias)));
  CHECK_THROWS_WITH_AS(GroupNorm(4, 6), "GroupNorm: 4 groups do not divide 6 channels", ValueError);
  CHECK_THROWS_AS(RmsNorm(0), ValueError);
}

TEST_CASE("Conv2d: shapes, names and bounds of its weights") {
  const Conv2d conv(4, 6, {3, 5}, {1, 2}, {.stride = 2, .padding = {1, 2}, .groups = 2});
  CHECK(conv.weight.shape() == Shape({6, 2, 3, 5}));
  CHECK(largest(conv.weight) <= 1.0 / std::sqrt(30.0));
  CHECK(largest(conv.weight) > 0.9 / std::sqrt(30.0));
  CHECK(conv(random_normal({2, 4, 8, 8}, {1, 3})).shape() == Shape({2, 6, 4, 4}));
  CHECK(names_of(conv.state_dict()) == std::vector<std::string>{"weight", "bias"});
  CHECK(Conv2d(4, 6, 1, {1, 2}, {}, false).parameters().size() == 1);
  CHECK_THROWS_AS(Conv2d(4, 6, 3, {1, 2}, {.groups = 4}), ValueError);
  CHECK_THROWS_AS(Conv2d(0, 6, 3, {1, 2}), ValueError);
}

TEST_CASE("DropPath drops whole samples in training alone") {
  DropPath drop(0.5);
  const Tensor x = Tensor::ones({64, 3});
  const Tensor y = drop(x, {1, 5});
  int dropped = 0;
  for (std::int64_t i = 0; i < 64; ++i) {
    const double first = y.at({i, 0});
    CHECK((first == 0.0 || first == 2.0));
    CHECK((y.at({i, 1}) == first && y.at({i, 2}) == first));
    dropped += first == 0.0;
  }
  CHECK((dropped > 10 && dropped < 54));
  drop.eval();
  CHECK(same_bits(drop(x, {1, 5}), x));
  CHECK_THROWS_AS(DropPath(1.0), ValueError);
}
