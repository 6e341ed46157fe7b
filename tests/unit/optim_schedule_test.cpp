// Schedules and clipping.

#include "core/base/error.h"
#include "core/ops.h"
#include "core/random.h"
#include "core/reduction.h"
#include "core/threads/parallel.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace eg;
using optim::Schedule;

TEST_CASE("optim: warm-up rises linearly and reaches the full rate at its last step") {
  const Schedule s{.kind = Schedule::Kind::constant, .base = 0.8, .warmup = 4, .total_steps = 10};
  CHECK(s.at(0) == doctest::Approx(0.2));
  CHECK(s.at(1) == doctest::Approx(0.4));
  CHECK(s.at(3) == doctest::Approx(0.8));
  CHECK(s.at(4) == doctest::Approx(0.8));
  CHECK(s.at(1000) == doctest::Approx(0.8));
  CHECK_THROWS_WITH_AS(s.at(-1), "schedule: step -1 is negative", ValueError);
}

TEST_CASE("optim: the cosine schedule falls from the full rate to its floor and stays there") {
  const Schedule s{
      .kind = Schedule::Kind::cosine, .base = 1.0, .warmup = 10, .total_steps = 110, .final_fraction = 0.1};
  CHECK(s.at(10) == doctest::Approx(1.0));
  CHECK(s.at(60) == doctest::Approx(0.55));
  CHECK(s.at(35) == doctest::Approx(0.1 + 0.9 * 0.5 * (1.0 + std::sqrt(0.5))));
  CHECK(s.at(110) == doctest::Approx(0.1));
  CHECK(s.at(500) == doctest::Approx(0.1));
  for (std::int64_t step = 10; step < 109; ++step) CHECK(s.at(step) > s.at(step + 1));
}

TEST_CASE("optim: the linear schedule falls evenly from the full rate to its floor and stays there") {
  const Schedule s{
      .kind = Schedule::Kind::linear, .base = 2.0, .warmup = 10, .total_steps = 110, .final_fraction = 0.5};
  CHECK(s.at(9) == doctest::Approx(2.0));
  CHECK(s.at(10) == doctest::Approx(2.0));
  CHECK(s.at(60) == doctest::Approx(1.5));
  CHECK(s.at(110) == doctest::Approx(1.0));
  CHECK(s.at(500) == doctest::Approx(1.0));
}

TEST_CASE("optim: the step schedule drops after every so many steps since warm-up") {
  Schedule s{.kind = Schedule::Kind::step, .base = 1.0, .warmup = 2, .total_steps = 12, .drop_every = 3};
  CHECK(s.at(0) == doctest::Approx(0.5));
  CHECK(s.at(4) == doctest::Approx(1.0));
  CHECK(s.at(5) == doctest::Approx(0.1));
  CHECK(s.at(8) == doctest::Approx(0.01));
  s.drop_every = 0; // a third of ten steps, rounded up
  CHECK(s.at(5) == doctest::Approx(1.0));
  CHECK(s.at(6) == doctest::Approx(0.1));
  CHECK(s.at(11) == doctest::Approx(0.01));
}

TEST_CASE("optim: one cycle rises to the full rate and falls to its floor") {
  const Schedule s{.kind = Schedule::Kind::one_cycle, .base = 1.0, .total_steps = 100, .final_fraction = 0.001};
  CHECK(s.at(0) == doctest::Approx(0.04));
  CHECK(s.at(29) == doctest::Approx(1.0));
  CHECK(s.at(99) == doctest::Approx(0.001));
  CHECK(s.at(1000) == doctest::Approx(0.001));
  for (std::int64_t step = 0; step < 29; ++step) CHECK(s.at(step) < s.at(step + 1));
  for (std::int64_t step = 29; step < 99; ++step) CHECK(s.at(step) > s.at(step + 1));
  // Too few steps for a rise.
  CHECK(Schedule{.kind = Schedule::Kind::one_cycle, .base = 1.0, .total_steps = 1}.at(0) == 1.0);
}

TEST_CASE("optim: schedules by name") {
  CHECK(optim::schedule_named("constant") == Schedule::Kind::constant);
  CHECK(optim::schedule_named("cosine") == Schedule::Kind::cosine);
  for (const char* name : {"constant", "linear", "cosine", "step", "one-cycle"})
    CHECK(optim::name_of(optim::schedule_named(name)) == name);
  CHECK_THROWS_WITH_AS(optim::schedule_named("square"),
                       "schedule: 'square' is not one of constant, linear, cosine, step, one-cycle", ValueError);
}

TEST_CASE("optim: clipping scales to the joint norm and leaves small gradients alone") {
  std::vector<Tensor> g{Tensor::from<double>({3.0}, {1}), Tensor{}, Tensor::from<double>({0.0, 4.0}, {2})};
  const Tensor before = g[0];
  CHECK(optim::clip_gradients(g, 10.0) == doctest::Approx(5.0));
  CHECK(g[0].id() == before.id());
  CHECK(optim::clip_gradients(g, 1.0) == doctest::Approx(5.0));
  CHECK(g[0].item() == doctest::Approx(0.6).epsilon(1e-6));
  CHECK(g[2].at({1}) == doctest::Approx(0.8).epsilon(1e-6));
  CHECK(before.item() == 3.0);
  CHECK(optim::gradient_norm(g) == doctest::Approx(1.0).epsilon(1e-6));
  CHECK_THROWS_WITH_AS(optim::clip_gradients(g, 0.0), "clip_gradients: max_norm must be positive, not 0", ValueError);
}

TEST_CASE("optim: gradients that share storage are scaled once each") {
  const Tensor shared = Tensor::from<double>({3.0, 4.0}, {2});
  std::vector<Tensor> g{shared, shared};
  optim::clip_gradients(g, std::sqrt(50.0) / 2);
  CHECK(g[0].at({1}) == doctest::Approx(2.0).epsilon(1e-6));
  CHECK(g[1].at({1}) == doctest::Approx(2.0).epsilon(1e-6));
}

TEST_CASE("optim: the norm has the same bits for any number of threads") {
  const std::vector<Tensor> g{random_normal({300001}, {3, 0}), random_normal({1001}, {4, 0})};
  parallel::set_threads(1);
  const double one = optim::gradient_norm(g);
  parallel::set_threads(3);
  CHECK(optim::gradient_norm(g) == one);
  parallel::set_threads(0);
}

TEST_CASE("optim: in exact mode permuted gradients have the same norm") {
  const eg::Tensor g = eg::random_normal({37, 29}, {.seed = 5});
  const eg::Tensor columns = eg::random_permutation(29, {.seed = 6});
  const eg::Tensor moved = eg::permute_columns(g, columns);
  const eg::ReductionScope exact(eg::Reduction::exact);
  CHECK(eg::optim::gradient_norm({g}) == eg::optim::gradient_norm({moved}));
}
