// Mixture of experts: its formula, routing with and without a capacity, losses, gradients, order of tokens, threads.

#include "autograd/tape.h"
#include "core/threads/parallel.h"
#include "nn/moe.h"
#include "optim/optimizer.h"
#include "support/message.h"
#include "unit/nn_model_checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace eg;
using namespace eg::nn;
using eg::test::message_of;

namespace {

MoeConfig small() {
  MoeConfig c;
  c.dim = 5;
  c.hidden = 7;
  c.experts = 4;
  c.top_k = 2;
  return c;
}

Tensor random64(const Shape& shape, std::uint64_t stream) {
  return random_normal(shape, {51, stream}, 0.0, 1.0, DType::f64);
}

/// Every expert on every token, weighted by hand: [N, dim]. `kept` (by token and choice) leaves choices out.
Tensor dense(const MixtureOfExperts& moe, const Tensor& x, const std::vector<bool>& kept = {}) {
  const MoeConfig& c = moe.config;
  const Tensor p = softmax(linear(x, moe.gate.weight));
  std::vector<Tensor> results;
  for (const auto& e : moe.experts) results.push_back((*e)(x));
  std::vector<Tensor> rows;
  for (std::int64_t n = 0; n < x.size(0); ++n) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(c.experts));
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return p.at({n, a}) > p.at({n, b}); });
    double total = 0.0;
    for (std::int64_t j = 0; j < c.top_k; ++j) total += p.at({n, order[static_cast<std::size_t>(j)]});
    Tensor y = Tensor::zeros({c.dim}, x.dtype());
    for (std::int64_t j = 0; j < c.top_k; ++j) {
      if (!kept.empty() && !kept[static_cast<std::size_t>(n * c.top_k + j)]) continue;
      const std::int64_t e = order[static_cast<std::size_t>(j)];
      y = y + results[static_cast<std::size_t>(e)].select(0, n) * (p.at({n, e}) / (c.renormalize ? total : 1.0));
    }
    rows.push_back(y);
  }
  return stack(rows, 0);
}

double worst(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double error = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) error = std::max(error, relative_error(a[i], b[i]));
  return error;
}

} // namespace

TEST_CASE("MoE: names and shapes are Mixtral's") {
  MoeConfig c = small();
  c.experts = 2;
  CHECK(test::parameter_list(MixtureOfExperts(c, {1, 0})) ==
        std::vector<std::string>{"gate.weight [2, 5]", "experts.0.w1.weight [7, 5]", "experts.0.w2.weight [5, 7]",
                                 "experts.0.w3.weight [7, 5]", "experts.1.w1.weight [7, 5]",
                                 "experts.1.w2.weight [5, 7]", "experts.1.w3.weight [7, 5]"});
  c.gated = false;
  c.bias = true;
  c.experts = 1;
  c.top_k = 1;
  CHECK(test::parameter_list(MixtureOfExperts(c, {1, 0})) ==
        std::vector<std::string>{"gate.weight [1, 5]", "experts.0.w1.weight [7, 5]", "experts.0.w1.bias [7]",
                                 "experts.0.w2.weight [5, 7]", "experts.0.w2.bias [5]"});
}

TEST_CASE("MoE: an expert is its formula, gated or not, whatever the activation") {
  const Tensor x = random64({3, 5}, 0);
  for (const char* name : {"silu", "gelu", "gelu_tanh", "relu", "tanh"})
    for (const bool gated : {true, false}) {
      CAPTURE(name);
      CAPTURE(gated);
      MoeConfig c = small();
      c.activation = activation_named(name);
      c.gated = gated;
      c.bias = true;
      Expert expert(c, {1, 0});
      test::make_lively(expert);
      Tensor hidden = activate(linear(x, expert.w1.weight, expert.w1.bias), c.activation);
      if (gated) hidden = hidden * linear(x, expert.w3->weight, expert.w3->bias);
      CHECK(relative_error(expert(x), linear(hidden, expert.w2.weight, expert.w2.bias)) < 1e-13);
    }
}

TEST_CASE("MoE: dropless routing gives the weighted sum of a token's experts, and the addend") {
  for (const std::int64_t k : {1, 2, 4})
    for (const bool renormalize : {true, false}) {
      CAPTURE(k);
      CAPTURE(renormalize);
      MoeConfig c = small();
      c.top_k = k;
      c.renormalize = renormalize;
      MixtureOfExperts moe(c, {2, 0});
      test::make_lively(moe);
      const Tensor x = random64({2, 6, 5}, 1), addend = random64({2, 6, 5}, 2);
      const auto out = moe.forward(x);
      const Tensor expected = dense(moe, x.reshape({12, 5})).reshape({2, 6, 5});
      CHECK(relative_error(out.y, expected) < 1e-12);
      CHECK(relative_error(moe(x, addend), expected + addend) < 1e-12);
      CHECK(out.dropped == 0);
      CHECK(std::accumulate(out.load.begin(), out.load.end(), std::int64_t{0}) == 12 * k);
      if (renormalize) CHECK(relative_error(sum(out.routing.weights, {-1}), Tensor::ones({12}, DType::f64)) < 1e-14);
    }
}

TEST_CASE("MoE: gradients by tokens, addend and parameters, once and twice") {
  for (const double capacity : {0.0, 0.75}) {
    CAPTURE(capacity);
    MoeConfig c = small();
    c.capacity_factor = capacity;
    MixtureOfExperts moe(c, {3, 0});
    test::make_lively(moe);
    const Tensor x = random64({9, 5}, 3), addend = random64({9, 5}, 4);
    CHECK((moe.forward(x).dropped > 0) == (capacity > 0.0));
    const auto forward = [&](const std::vector<Tensor>& in) { return moe(in[0], in[1]); };
    const CheckResult first = test::gradcheck_model(moe, {x, addend}, forward);
    CHECK_MESSAGE(first.pass, first.detail);
    const CheckResult second = test::gradcheck_model(moe, {x, addend}, forward, {.directions = 1, .second = true});
    CHECK_MESSAGE(second.pass, second.detail);
    const auto losses = [&](const std::vector<Tensor>& in) {
      const MoeRouting r = moe.route(in[0]);
      return load_balancing_loss(r) + router_z_loss(r) * 0.5;
    };
    const CheckResult auxiliary = test::gradcheck_model(moe, {x}, losses);
    CHECK_MESSAGE(auxiliary.pass, auxiliary.detail);
  }
}

TEST_CASE("MoE: permuted tokens permute dropless results and gradients; with a capacity they do not") {
  const Tensor x = random64({32, 5}, 5), v = random64({32, 5}, 6), order = random_nonidentity_permutation(32, {7, 0});
  const Tensor moved = permute_rows(x, order);
  struct Found {
    double forward, by_tokens, by_parameters;
    std::int64_t dropped;
  };
  const auto compare = [&](double capacity) {
    MoeConfig c = small();
    c.capacity_factor = capacity;
    MixtureOfExperts moe(c, {4, 0});
    test::make_lively(moe);
    const auto pass = [&](const Tensor& in, const Tensor& cotangent) {
      std::vector<Tensor> by = moe.parameters();
      by.push_back(in);
      Tape tape;
      const Tensor y = moe(in);
      std::vector<Tensor> g = tape.gradient(y, by, cotangent);
      g.push_back(y);
      return g;
    };
    std::vector<Tensor> plain = pass(x, v), permuted = pass(moved, permute_rows(v, order));
    const auto take = [](std::vector<Tensor>& list) {
      const Tensor last = list.back();
      list.pop_back();
      return last;
    };
    Found f{.forward = relative_error(take(permuted), permute_rows(take(plain), order)),
            .by_tokens = relative_error(take(permuted), permute_rows(take(plain), order)),
            .by_parameters = worst(permuted, plain),
            .dropped = moe.forward(x).dropped};
    return f;
  };
  const Found dropless = compare(0.0);
  CHECK(dropless.dropped == 0);
  CHECK(dropless.forward < 1e-13);
  CHECK(dropless.by_tokens < 1e-12);
  CHECK(dropless.by_parameters < 1e-12);
  const Found limited = compare(0.5);
  CHECK(limited.dropped > 0);
  CHECK(limited.forward > 0.1);
  CHECK(limited.by_tokens > 0.1);
  CHECK(limited.by_parameters > 1e-3);
  // A capacity that nobody exceeds is none.
  const Found roomy = compare(4.0);
  CHECK(roomy.dropped == 0);
  CHECK(roomy.forward < 1e-13);
}

TEST_CASE(
    "MoE: a capacity is filled by first choices in the order of tokens, then by second ones; the rest falls through") {
  MoeConfig c = small();
  c.experts = 3;
  c.capacity_factor = 0.5; // ceil(0.5 * 6 * 2 / 3) = 2 places each
  MixtureOfExperts moe(c, {5, 0});
  test::make_lively(moe);
  // Logits are chosen: token n wants the experts of row n, in this order.
  const std::vector<std::vector<std::int64_t>> wants{{0, 1}, {0, 2}, {0, 1}, {1, 0}, {0, 2}, {0, 1}};
  moe.gate.weight.fill(0.0);
  Tensor x = Tensor::zeros({6, 5}, DType::f64);
  {
    double* const w = moe.gate.weight.mutable_data<double>();
    for (std::size_t e = 0; e < 3; ++e) w[e * 5 + e] = 1.0; // logit e is feature e
    const Tensor noise = random64({6, 5}, 8);
    double* const in = x.mutable_data<double>();
    for (std::size_t n = 0; n < 6; ++n) {
      for (std::size_t j = 0; j < 5; ++j) in[n * 5 + j] = 0.1 * noise.data<double>()[n * 5 + j];
      in[n * 5 + static_cast<std::size_t>(wants[n][0])] += 3.0;
      in[n * 5 + static_cast<std::size_t>(wants[n][1])] += 1.5;
    }
  }
  // First choices: tokens 0, 1 get expert 0 (full), 3 gets 1; 2, 4 and 5 are turned away. Second ones: 0 gets 1 (full),
  // 1 and 4 get 2 (full), 2, 3 and 5 are turned away.
  const std::vector<bool> kept{true, true, true, true, false, false, true, false, false, true, false, false};
  const auto out = moe.forward(x);
  CHECK(out.load == std::vector<std::int64_t>{2, 2, 2});
  CHECK(out.dropped == 6);
  CHECK(relative_error(out.y, dense(moe, x, kept)) < 1e-12);
  CHECK(relative_error(out.y, dense(moe, x)) > 1e-2);
  const Tensor addend = random64({6, 5}, 9), y = moe(x, addend);
  for (const std::int64_t n : {2, 5}) CHECK(same_bits(y.select(0, n), addend.select(0, n)));
  CHECK_FALSE(same_bits(y.select(0, 4), addend.select(0, 4)));
}

TEST_CASE("MoE: the same bits for any number of threads, forward and backward") {
  MoeConfig c;
  c.dim = 48;
  c.hidden = 96;
  c.experts = 6;
  const MixtureOfExperts moe(c, {6, 0});
  const Tensor x = random_normal({257, 48}, {7, 0}), v = random_normal({257, 48}, {7, 1});
  std::vector<std::vector<Tensor>> found;
  for (const int threads : {1, 2, 5}) {
    parallel::set_threads(threads);
    Tape tape;
    const Tensor y = moe(x);
    found.push_back(tape.gradient(y, moe.parameters(), v));
    found.back().push_back(y);
  }
  parallel::set_threads(0);
  for (std::size_t run = 1; run < found.size(); ++run)
    for (std::size_t i = 0; i < found[0].size(); ++i) CHECK(same_bits(found[run][i], found[0][i]));
}

TEST_CASE("MoE: the losses are their formulas; even routing gives top_k; padding does not count") {
  MixtureOfExperts moe(small(), {8, 0});
  test::make_lively(moe);
  const Tensor x = random64({10, 5}, 10);
  const MoeRouting r = moe.route(x);
  double balance = 0.0, z = 0.0;
  for (std::int64_t e = 0; e < 4; ++e) {
    double chosen = 0.0, mass = 0.0;
    for (std::int64_t n = 0; n < 10; ++n) {
      mass += r.probabilities.at({n, e}) / 10.0;
      for (std::int64_t j = 0; j < 2; ++j) chosen += r.experts.at({n, j}) == static_cast<double>(e) ? 0.1 : 0.0;
    }
    balance += 4.0 * chosen * mass;
  }
  for (std::int64_t n = 0; n < 10; ++n) {
    double total = 0.0;
    for (std::int64_t e = 0; e < 4; ++e) total += std::exp(r.logits.at({n, e}));
    z += std::log(total) * std::log(total) / 10.0;
  }
  CHECK(load_balancing_loss(r).item() == doctest::Approx(balance).epsilon(1e-12));
  CHECK(router_z_loss(r).item() == doctest::Approx(z).epsilon(1e-12));

  const Tensor valid = lt(Tensor::arange(10), 7.0); // the last three are padding
  const MoeRouting short_r = moe.route(x.slice(0, 0, 7));
  CHECK(relative_error(load_balancing_loss(r, valid.reshape({2, 5})), load_balancing_loss(short_r)) < 1e-13);
  CHECK(relative_error(router_z_loss(r, valid), router_z_loss(short_r)) < 1e-13);
  CHECK(relative_error(load_balancing_loss(r), load_balancing_loss(short_r)) > 1e-4);

  MoeRouting even;
  even.probabilities = Tensor::full({4, 4}, 0.25, DType::f64);
  even.experts = Tensor::from<std::int64_t>({0, 1, 1, 2, 2, 3, 3, 0}, {4, 2});
  CHECK(load_balancing_loss(even).item() == doctest::Approx(2.0));
  even.probabilities = Tensor::from<double>({1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}, {4, 4});
  even.experts = Tensor::zeros({4, 1}, DType::i64);
  CHECK(load_balancing_loss(even).item() == doctest::Approx(4.0)); // all at one expert: experts
}

TEST_CASE("MoE: jitter is for training, by its key; few, one and no tokens; experts without tokens") {
  MoeConfig c = small();
  c.jitter = 0.5;
  MixtureOfExperts moe(c, {9, 0});
  const Tensor x = random_normal({16, 5}, {10, 0});
  CHECK(same_bits(moe(x, {}, {1, 0}), moe(x, {}, {1, 0})));
  CHECK_FALSE(same_bits(moe.route(x, {1, 0}).logits, moe.route(x, {2, 0}).logits));
  moe.eval();
  CHECK(same_bits(moe.route(x, {1, 0}).logits, linear(x, moe.gate.weight)));
  CHECK(relative_error(moe(x.slice(0, 3, 4)), moe(x).slice(0, 3, 4)) < 1e-6);
  CHECK(moe(Tensor::zeros({0, 5})).shape() == Shape{0, 5});
  CHECK(moe(x.select(0, 0)).shape() == Shape{5});
  // One token meets two of four experts; the others get gradients of zero.
  Tape tape;
  const Tensor y = sum(square(moe(x.slice(0, 0, 1))));
  int without = 0;
  for (const Tensor& g : tape.gradient(y, moe.parameters())) without += max(abs(g.reshape({-1})), 0).item() == 0.0;
  CHECK(without == 2 * 3);
}

TEST_CASE("MoE: f32 follows f64; a state dict carries a model over") {
  MixtureOfExperts a(small(), {11, 0}), b(small(), {12, 0});
  const Tensor x = random_normal({20, 5}, {13, 0});
  CHECK_FALSE(same_bits(a(x), b(x)));
  b.load_state_dict(a.state_dict());
  CHECK(same_bits(a(x), b(x)));
  const Tensor narrow = a(x);
  a.to(DType::f64);
  CHECK(relative_error(narrow.to(DType::f64), a(x.to(DType::f64))) < 2e-5);
}

TEST_CASE("MoE: what it refuses, and with which words") {
  const MixtureOfExperts moe(small(), {1, 0});
  CHECK(message_of<ShapeError>([&] {
          moe(Tensor::zeros({3, 4}));
        }) == "mixture of experts: x must be [..., 5], not [3, 4]");
  const MoeRouting r = moe.route(random_normal({6, 5}, {1, 1}));
  CHECK(message_of<ShapeError>([&] { load_balancing_loss(r, Tensor::ones({5}, DType::boolean)); }) ==
        "mixture of experts: valid must have one element for each of 6 tokens, it is [5]");
  CHECK(message_of<DTypeError>([&] { router_z_loss(r, Tensor::ones({6})); }) ==
        "mixture of experts: valid must be bool, it is f32");
  CHECK(message_of<ValueError>([&] { router_z_loss(r, Tensor::zeros({6}, DType::boolean)); }) ==
        "mixture of experts: a loss needs a token that counts");
  const auto refused = [](auto change) {
    MoeConfig c = small();
    change(c);
    return message_of<ValueError>([&] { MixtureOfExperts(c, {}); });
  };
  CHECK(refused([](MoeConfig& c) { c.top_k = 5; }) == "mixture of experts: top_k must be at most 4, not 5");
  CHECK(refused([](MoeConfig& c) { c.top_k = 0; }) == "mixture of experts: top_k must be positive, not 0");
  CHECK(refused([](MoeConfig& c) { c.experts = 0; }) == "mixture of experts: experts must be positive, not 0");
  CHECK(refused([](MoeConfig& c) { c.hidden = -3; }) == "mixture of experts: hidden must be positive, not -3");
  CHECK(refused([](MoeConfig& c) { c.capacity_factor = -1.0; }) ==
        "mixture of experts: capacity_factor must be 0 (dropless) or positive, not -1");
  CHECK(refused([](MoeConfig& c) { c.jitter = 1.0; }) == "mixture of experts: jitter must be in [0, 1), not 1");
}

TEST_CASE("MoE: training lowers the loss, and the balancing loss keeps experts from idling") {
  MoeConfig c;
  c.dim = 8;
  c.hidden = 16;
  c.experts = 4;
  c.top_k = 1;
  c.renormalize = false; // with one expert its weight is 1 otherwise, and the router learns nothing from the task
  const Tensor x = random_normal({128, 8}, {14, 0});
  const Tensor target = where(gt(x.slice(-1, 0, 1), 0.0), x * 2.0, square(x)); // two regimes
  const auto train = [&](double weight) {
    const MixtureOfExperts moe(c, {15, 0});
    {
      // All tokens begin at expert 0.
      Tensor w = moe.gate.weight;
      w.fill(0.0);
      w.mutable_data<float>()[0] = 0.01F;
    }
    const std::vector<Tensor> parameters = moe.parameters();
    const auto optimizer = optim::make_optimizer("adam", parameters);
    double first = 0.0, last = 0.0;
    for (int step = 0; step < 120; ++step) {
      Tape tape;
      const auto out = moe.forward(x);
      const Tensor task = mse_loss(out.y, target);
      last = task.item();
      if (step == 0) first = last;
      optimizer->step(tape.gradient(task + load_balancing_loss(out.routing) * weight, parameters), 1e-2);
    }
    CHECK(last < 0.5 * first);
    const auto load = moe.forward(x).load;
    return *std::max_element(load.begin(), load.end());
  };
  const std::int64_t balanced = train(1.0), alone = train(0.0);
  CAPTURE(alone);
  CHECK(balanced < 64);
  CHECK(balanced < alone);
}
