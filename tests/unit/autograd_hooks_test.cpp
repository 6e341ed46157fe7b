#include "autograd/functional.h"
#include "autograd/tape.h"
#include "core/memory/allocator.h"
#include "core/ops.h"
#include "core/random.h"
#include "nn/vit.h"
#include "optim/optimizer.h"
#include "support/message.h"
#include "unit/autograd_vectors.h"

#include <doctest/doctest.h>

using namespace eg;
using namespace eg::test;

TEST_CASE("hooks: observe the whole cotangent once, of computed values and of leaves") {
  const Tensor x = vec({1, 2});
  std::vector<std::vector<double>> seen;
  Tape tape;
  const Tensor h = mul(x, x);
  const Tensor y = sum(add(mul(h, h), h)); // dy/dh = 2h + 1, from three uses
  const auto watch = [&](const Tensor& g) {
    seen.push_back(list(g));
    return Tensor{};
  };
  const HookHandle on_h = tape.on_gradient(h, watch), on_x = tape.on_gradient(x, watch);
  const std::vector<Tensor> g = tape.gradient(y, {x});
  REQUIRE(seen.size() == 2);
  CHECK(seen[0] == std::vector<double>{3, 9});
  CHECK(seen[1] == std::vector<double>{6, 36});
  CHECK(list(g[0]) == std::vector<double>{6, 36});
}

TEST_CASE("hooks: replace, in the order of their making; gone with their handle") {
  const Tensor x = vec({1, 2});
  Tape tape;
  const Tensor h = affine(x, 3.0, 0.0);
  const Tensor y = sum(mul(h, x)); // dy/dx = 6x
  HookHandle add_one = tape.on_gradient(h, [](const Tensor& g) { return affine(g, 1.0, 1.0); });
  {
    const HookHandle twice = tape.on_gradient(h, [](const Tensor& g) { return affine(g, 2.0, 0.0); });
    // The hooked part is 3 (2 (x + 1)), the other one 3x.
    const std::vector<Tensor> g = tape.gradient(y, std::vector<Tensor>{x, h}, {}, true);
    CHECK(list(g[0]) == std::vector<double>{15, 24});
    CHECK(list(g[1]) == std::vector<double>{4, 6});
  }
  CHECK(list(tape.gradient(y, std::vector<Tensor>{x}, {}, true)[0]) == std::vector<double>{9, 15});
  HookHandle moved = std::move(add_one);
  CHECK(list(tape.gradient(y, std::vector<Tensor>{x}, {}, true)[0]) == std::vector<double>{9, 15});
  moved.remove();
  CHECK(list(tape.gradient(y, std::vector<Tensor>{x}, {}, true)[0]) == std::vector<double>{6, 12});
  tape.on_gradient(x, [](const Tensor& g) { return affine(g, 0.0, 7.0); }).keep();
  CHECK(list(tape.gradient(y, {x})[0]) == std::vector<double>{7, 7});
}

TEST_CASE("hooks: a hook may remove itself, outlive its tape, and be seen by second derivatives") {
  const Tensor x = vec({3});
  HookHandle once;
  {
    Tape tape;
    const Tensor y = mul(x, x);
    int calls = 0;
    once = tape.on_gradient(x, [&](const Tensor&) {
      ++calls;
      once.remove();
      return Tensor{};
    });
    tape.gradient(y, std::vector<Tensor>{x}, {}, true);
    tape.gradient(y, std::vector<Tensor>{x}, {}, true);
    CHECK(calls == 1);
    once = tape.on_gradient(x, [](const Tensor&) { return Tensor{}; });
  }
  once.remove();
  Tape outer;
  Tensor g;
  {
    Tape tape;
    const Tensor y = sum(mul(x, x));
    const HookHandle square = tape.on_gradient(x, [](const Tensor& c) { return mul(c, c); });
    g = tape.gradient(y, {x})[0]; // (2x)^2
  }
  CHECK(g.item() == 36.0);
  CHECK(outer.gradient(g, {x})[0].item() == 24.0); // 8x
}

TEST_CASE("hooks: what is refused, and how") {
  const Tensor x = vec({1, 2});
  Tape tape;
  const Tensor y = sum(mul(x, x));
  const auto says = [](auto&& call, const char* words) {
    const std::string message = test::message_of<AutogradError>(call);
    INFO(message);
    CHECK(message.find(words) != std::string::npos);
  };
  const auto nothing = [](const Tensor&) { return Tensor{}; };
  says([&] { tape.on_gradient(Tensor::arange(3), nothing).keep(); }, "a hook on i64 [3]: only f32 and f64");
  says([&] { tape.on_gradient(Tensor{}, nothing).keep(); }, "an undefined tensor");
  says([&] { tape.on_gradient(x, {}).keep(); }, "a hook that is empty");
  {
    const HookHandle bad = tape.on_gradient(x, [](const Tensor&) { return vec({1}); });
    says([&] { tape.gradient(y, std::vector<Tensor>{x}, {}, true); }, "it is f64 [1], the cotangent is f64 [2]");
  }
  tape.gradient(y, {x});
  says([&] { tape.on_gradient(x, nothing).keep(); }, "used up");
}

TEST_CASE("depth: 20,000 operations forward, backward, twice backward and destroyed, without recursion") {
  const Tensor x = vec({0.5, -0.25}), u = vec({1, 1});
  const std::size_t before = allocator::stats().live_bytes;
  const auto chain = [](const std::vector<Tensor>& in) {
    Tensor y = in[0];
    for (int i = 0; i < 10000; ++i) y = affine(mul(y, in[0]), 0.5, 0.75); // 20,000 operations
    return sum(y);
  };
  {
    const Hvp result = hvp(chain, {x}, {u});
    // The fixed point y = 0.75 / (1 - x/2): y'' = 0.375 / (1 - x/2)^3.
    for (std::int64_t i = 0; i < 2; ++i) {
      const double rest = 1.0 - x.at({i}) / 2.0;
      CHECK(result.gradients[0].at({i}) == doctest::Approx(0.375 / (rest * rest)));
      CHECK(result.products[0].at({i}) == doctest::Approx(0.375 / (rest * rest * rest)));
    }
    Tape tape;
    chain({x});
    CHECK(tape.size() == 20001);
  } // a tape of 20,000 nodes is destroyed unused
  CHECK(allocator::stats().live_bytes == before);
}

TEST_CASE("memory: live bytes return to the baseline after every training step, and the system is asked for nothing") {
  for (const bool checkpointed : {false, true}) {
    CAPTURE(checkpointed);
    nn::VitConfig c;
    c.image = 16;
    c.layers = 2;
    c.encoder = {.dim = 32, .heads = 4, .mlp = 64, .dropout = 0.1, .checkpoint = checkpointed};
    nn::Vit model(c, {1, 0});
    const std::vector<Tensor> parameters = model.parameters();
    const std::unique_ptr<optim::Optimizer> optimizer = optim::make_optimizer("adam", parameters);
    const Tensor images = random_normal({8, 3, 16, 16}, {2, 0});
    const Tensor labels = random_integers({8}, {3, 0}, 0, 10);
    const auto step = [&](std::uint64_t at) {
      Tape tape;
      const Tensor loss = cross_entropy(model(images, {4, at}), labels);
      optimizer->step(tape.gradient(loss, parameters), 1e-2);
    };
    step(0);
    const AllocatorStats baseline = allocator::stats();
    for (std::uint64_t at = 1; at < 6; ++at) {
      step(at);
      CHECK(allocator::stats().live_bytes == baseline.live_bytes);
    }
    CHECK(allocator::stats().system_calls == baseline.system_calls);
  }
}
