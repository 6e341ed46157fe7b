#include "autograd/accumulation.h"

#include "autograd/tape.h"
#include "core/ops.h"
#include "core/random.h"
#include "nn/vit.h"
#include "support/message.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace eg;

namespace {

using Tensors = std::vector<Tensor>;

struct Problem {
  nn::Vit model{config(), {1, 0}};
  Tensors batch = {random_normal({7, 3, 8, 8}, {2, 0}, 0.0, 1.0, DType::f64),
                   Tensor::from<std::int64_t>({1, 4, 0, 2, 3, 3, 1}, {7})};

  static nn::VitConfig config() {
    nn::VitConfig c;
    c.image = 8;
    c.classes = 5;
    c.layers = 2;
    c.encoder = {.dim = 16, .heads = 2, .mlp = 24};
    return c;
  }
  Problem() { model.to(DType::f64); }
  Tensor loss(const Tensors& part) const { return cross_entropy(model(part[0]), part[1]); }
  ValueAndGradient whole() const {
    Tape tape;
    const Tensor value = loss(batch);
    return {value, tape.gradient(value, model.parameters())};
  }
};

double worst(const Tensors& a, const Tensors& b) {
  double most = 0.0, scale = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) scale = std::max(scale, max(reshape(mul(b[i], b[i]), {-1}), 0).item());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Tensor d = sub(a[i], b[i]);
    most = std::max(most, max(reshape(mul(d, d), {-1}), 0).item());
  }
  return std::sqrt(most / scale);
}

} // namespace

TEST_CASE("accumulation: gradients of parts, uneven ones too, are the whole batch's to rounding") {
  const Problem problem;
  const ValueAndGradient whole = problem.whole();
  for (const std::int64_t parts : {1, 2, 3, 7}) {
    CAPTURE(parts);
    std::int64_t next = 0;
    const ValueAndGradient joined = accumulated_gradients(
        [&](const Tensors& part, std::int64_t k) {
          CHECK(k == next++);
          return problem.loss(part);
        },
        problem.model.parameters(), problem.batch, parts);
    CHECK(next == parts);
    CHECK(relative_error(joined.value, whole.value) < 1e-14);
    CHECK(worst(joined.gradients, whole.gradients) < 1e-14);
    if (parts == 1)
      for (std::size_t i = 0; i < whole.gradients.size(); ++i)
        CHECK(same_bits(joined.gradients[i], whole.gradients[i]));
  }
}

TEST_CASE("per-sample gradients: each row is that sample's own, their mean is the batch's") {
  const Problem problem;
  const Tensors rows = per_sample_gradients([&](const Tensors& sample) { return problem.loss(sample); },
                                            problem.model.parameters(), problem.batch);
  const Tensors parameters = problem.model.parameters();
  REQUIRE(rows.size() == parameters.size());
  Tensors means;
  for (std::size_t p = 0; p < rows.size(); ++p) {
    Shape shape = parameters[p].shape();
    shape.insert(0, 7);
    CHECK(rows[p].shape() == shape);
    means.push_back(mean(rows[p], {0}));
  }
  CHECK(worst(means, problem.whole().gradients) < 1e-14);
  Tape tape;
  const Tensor value = problem.loss({problem.batch[0].slice(0, 4, 5), problem.batch[1].slice(0, 4, 5)});
  const Tensors fifth = tape.gradient(value, parameters);
  for (std::size_t p = 0; p < rows.size(); ++p) CHECK(same_bits(rows[p].select(0, 4).clone(), fifth[p]));
}

TEST_CASE("accumulation: an open tape hears nothing of it") {
  const Problem problem;
  const Tape tape;
  accumulated_gradients([&](const Tensors& part, std::int64_t) { return problem.loss(part); },
                        problem.model.parameters(), problem.batch, 2);
  CHECK(tape.size() == 0);
}

TEST_CASE("accumulation: what it refuses, and how it says it") {
  const Tensor g = Tensor::ones({2});
  const auto says = [](auto&& call, const char* words) {
    const std::string message = test::message_of(call);
    INFO(message);
    CHECK(message.find(words) != std::string::npos);
  };
  says([] { GradientAccumulator{0.0}; }, "the total must be positive");
  says([&] { GradientAccumulator(3).add({g}, 4); }, "weight 4 on top of 0 does not fit into 3");
  says(
      [&] {
        GradientAccumulator a(3);
        a.add({g}, 1);
        a.add({g, g}, 1);
      },
      "2 gradients after 1");
  says(
      [&] {
        GradientAccumulator a(3);
        a.add({g}, 1);
        a.add({Tensor::ones({3})}, 1);
      },
      "gradient 0 is f32 [3], that of the part before is f32 [2]");
  says(
      [&] {
        GradientAccumulator a(3);
        a.add({g}, 1);
        std::move(a).mean();
      },
      "parts of weight 1 have come, 3 are due");
  const auto loss = [](const Tensors& part, std::int64_t) { return sum(part[0]); };
  says([&] { accumulated_gradients(loss, {g}, {}, 1); }, "the batch has no tensors");
  says([&] { accumulated_gradients(loss, {g}, {g}, 3); }, "2 samples do not make 3 parts");
  says([&] { accumulated_gradients(loss, {g}, {g, Tensor::ones({3})}, 1); }, "one is [3], the first is [2]");
  says([&] { per_sample_gradients([](const Tensors& s) { return sum(s[0]); }, {g}, {}); },
       "per_sample_gradients: the batch has no tensors");
}
