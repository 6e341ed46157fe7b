// Gradients handed over one by one, and optimisers that step in the backward pass.

#include "autograd/tape.h"
#include "core/base/error.h"
#include "core/memory/allocator.h"
#include "core/ops.h"
#include "nn/decoder.h"
#include "nn/vit.h"
#include "optim/optimizer.h"
#include "unit/autograd_vectors.h"

#include <doctest/doctest.h>

#include <set>

using namespace eg;
using namespace eg::test;

namespace {

nn::VitConfig vit_config(bool checkpoint) {
  nn::VitConfig c;
  c.image = 8;
  c.layers = 3;
  c.encoder = {.dim = 64, .heads = 4, .mlp = 256, .dropout = 0.1, .checkpoint = checkpoint};
  return c;
}

/// Three steps of Adam on a ViT, all at once or one gradient at a time; the weights afterwards.
std::vector<Tensor> trained(bool checkpoint, bool one_by_one, std::size_t* peak = nullptr) {
  nn::Vit model(vit_config(checkpoint), {1, 0});
  std::vector<Tensor> parameters = model.parameters();
  const std::unique_ptr<optim::Optimizer> optimizer = optim::make_optimizer("adam", parameters);
  const Tensor images = random_normal({1, 3, 8, 8}, {2, 0}), labels = random_integers({1}, {3, 0}, 0, 10);
  allocator::reset_peak();
  const std::size_t before = allocator::stats().live_bytes;
  for (std::uint64_t at = 0; at < 3; ++at) {
    Tape tape;
    const Tensor loss = cross_entropy(model(images, {4, at}), labels);
    if (one_by_one) {
      optim::Optimizer::Step step = optimizer->begin(1e-2);
      tape.gradient_each(loss, parameters, [&](std::size_t i, const Tensor& g) { step.update(i, g); });
    } else {
      optimizer->step(tape.gradient(loss, parameters), 1e-2);
    }
  }
  if (peak != nullptr) *peak = allocator::stats().peak_bytes - before;
  return parameters;
}

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  bool all = a.size() == b.size();
  for (std::size_t i = 0; all && i < a.size(); ++i) all = same_bits(a[i], b[i]);
  return all;
}

} // namespace

TEST_CASE("an optimiser that steps in the backward pass gives the same bits, with and without checkpoints") {
  const std::vector<Tensor> at_once = trained(false, false);
  CHECK(same(trained(false, true), at_once));
  CHECK(same(trained(true, true), at_once));
  CHECK_FALSE(same(nn::Vit(vit_config(false), {1, 0}).parameters(), at_once)); // something was trained
}

TEST_CASE("gradients that are handed over never stand side by side") {
  std::size_t all = 0, each = 0, weights = 0;
  for (const Tensor& p : trained(false, false, &all)) weights += p.storage()->size_bytes;
  trained(false, true, &each);
  CHECK(each + weights / 2 < all);
}

TEST_CASE("every x comes once, when its last use is done, in the order of the walk; the rest as zeros") {
  const Tensor a = vec({1, 2}), b = vec({3, 4}), unused = vec({5});
  Tape tape;
  const Tensor y = sum(mul(mul(a, b), b)); // b is used twice, first where a is
  std::vector<std::size_t> order;
  std::vector<Tensor> g(3);
  tape.gradient_each(y, std::vector<Tensor>{b, unused, a}, [&](std::size_t i, Tensor gradient) {
    order.push_back(i);
    g[i] = std::move(gradient);
  });
  CHECK(order == std::vector<std::size_t>{0, 2, 1});
  CHECK(list(g[0]) == std::vector<double>{6, 16}); // 2 a b
  CHECK(list(g[1]) == std::vector<double>{0});
  CHECK(list(g[2]) == std::vector<double>{9, 16}); // b^2
  CHECK_THROWS_WITH_AS(tape.gradient(y, {a}), doctest::Contains("used up"), AutogradError);
}

TEST_CASE("what is handed over may be written to, and so may the x: nothing later reads either") {
  Tensor w = vec({2, 3}), v = vec({5, 7});
  const Tensor x = vec({1, 10});
  Tape tape;
  const Tensor y = sum(mul(mul(x, w), v)); // v is used last: done first, and w's gradient reads v
  std::vector<double> of_w;
  tape.gradient_each(y, std::vector<Tensor>{w, v}, [&](std::size_t i, Tensor g) {
    if (i == 0) of_w = list(g);
    (i == 0 ? w : v).fill(100.0);
    g.fill(-1.0);
  });
  CHECK(of_w == std::vector<double>{5, 70});
}

TEST_CASE("a weight that two parts share is whole when it comes") {
  nn::DecoderConfig c = nn::gpt2_config();
  c.vocabulary = 11;
  c.positions = 6;
  c.layers = 1;
  c.block.dim = 8;
  c.block.heads = 2;
  c.block.mlp = 16;
  c.block.dropout = c.block.attention_dropout = c.embedding_dropout = 0.0;
  const nn::Decoder model(c, {1, 0}); // its embedding is its head
  const std::vector<Tensor> parameters = model.parameters();
  const Tensor ids = random_integers({2, 5}, {2, 0}, 0, 11), labels = random_integers({2, 5}, {3, 0}, 0, 11);
  const auto loss = [&] { return cross_entropy(model.language_model(model({.ids = ids})), labels); };
  std::vector<Tensor> at_once, each(parameters.size());
  {
    Tape tape;
    at_once = tape.gradient(loss(), parameters);
  }
  Tape tape;
  tape.gradient_each(loss(), parameters, [&](std::size_t i, Tensor g) { each[i] = std::move(g); });
  CHECK(same(each, at_once));
}

TEST_CASE("the rows of a shared table are added to what has arrived: same bits, no second table") {
  const std::int64_t rows = 20000, width = 8;
  const Tensor table = random_normal({rows, width}, {1, 0}), factor = random_normal({rows, width}, {2, 0});
  const Tensor ids = Tensor::from<std::int64_t>({7, 19999, 7, 0, 7}, {5});
  const Tensor taken = random_normal({5, width}, {3, 0});
  const auto of_rows = [&] { return sum(mul(embedding(table, ids), taken)); };
  const auto of_all = [&] { return sum(mul(table, factor)); };
  const auto gradient_of = [&](const auto& loss) {
    Tape tape;
    return tape.gradient(loss(), {table})[0];
  };
  const Tensor expected = add(gradient_of(of_all), gradient_of(of_rows));
  CHECK_FALSE(same_bits(expected, gradient_of(of_all)));

  Tape tape;
  const Tensor rows_first = of_rows(); // the backward pass reaches it last
  const Tensor loss = add(rows_first, of_all());
  allocator::reset_peak();
  const std::size_t before = allocator::stats().live_bytes;
  const Tensor g = tape.gradient(loss, {table})[0];
  const std::size_t table_bytes = g.storage()->size_bytes;
  CHECK(same_bits(g, expected));
  CHECK(allocator::stats().peak_bytes - before < table_bytes * 3 / 2);

  Tape again; // where the rows come first in the walk, they are a table
  const Tensor all_first = of_all();
  CHECK(same_bits(again.gradient(add(all_first, of_rows()), {table})[0], expected));
}

TEST_CASE("hooks see what is handed over") {
  const Tensor w = vec({2, 3});
  Tape tape;
  const HookHandle twice = tape.on_gradient(w, [](const Tensor& g) { return affine(g, 2.0, 0.0); });
  tape.gradient_each(sum(mul(w, w)), std::vector<Tensor>{w}, [](std::size_t, const Tensor& g) {
    CHECK(list(g) == std::vector<double>{8, 12});
  });
}

TEST_CASE("gradient_each refuses what is no leaf, what comes twice, and an x written to too early") {
  const Tensor x = vec({1, 2});
  const auto nothing = [](std::size_t, const Tensor&) {};
  {
    Tape tape;
    const Tensor y = mul(x, x);
    const Tensor z = sum(y);
    CHECK_THROWS_WITH_AS(tape.gradient_each(z, std::vector<Tensor>{y}, nothing), doctest::Contains("leaves"),
                         AutogradError);
    CHECK_THROWS_WITH_AS(tape.gradient_each(z, std::vector<Tensor>{x, x}, nothing), doctest::Contains("twice"),
                         AutogradError);
    CHECK_THROWS_WITH_AS(tape.gradient_each(x, std::vector<Tensor>{x}, nothing),
                         doctest::Contains("y was not computed"), AutogradError);
    CHECK_NOTHROW(tape.gradient_each(z, std::vector<Tensor>{x}, nothing)); // a refusal does not use the tape up
  }
  Tensor w = vec({1, 2}), part = w.slice(0, 0, 1); // elements in common
  Tape tape;
  const Tensor squares = sum(mul(w, w)); // its rule reads w after part's gradient is whole
  const Tensor y = add(squares, sum(part));
  CHECK_THROWS_WITH_AS(tape.gradient_each(y, std::vector<Tensor>{w, part},
                                          [&](std::size_t i, const Tensor&) { (i == 1 ? part : w).fill(9.0); }),
                       doctest::Contains("changed it in place"), AutogradError);
}

TEST_CASE("steps whose gradients come one by one are checked like whole ones") {
  Tensor a = vec({1, 2}), b = vec({3});
  const auto optimizer = optim::make_optimizer("adam", {a, b});
  optim::Optimizer::Step step = optimizer->begin(0.1);
  CHECK(optimizer->steps() == 1);
  CHECK_THROWS_WITH_AS(step.update(2, b), doctest::Contains("gradient 2 for 2 parameters"), IndexError);
  CHECK_THROWS_WITH_AS(step.update(0, b), doctest::Contains("its parameter's shape"), ShapeError);
  CHECK_THROWS_AS(step.update(1, b.to(DType::f32)), DTypeError);
  CHECK(list(a) == std::vector<double>{1, 2});
  step.update(1, vec({1}));
  CHECK(list(b)[0] == doctest::Approx(2.9));
  CHECK_THROWS_WITH_AS(step.update(1, vec({1})), doctest::Contains("was updated in this step before"), ValueError);
  optimizer->begin(0.1);
  CHECK_THROWS_WITH_AS(step.update(0, a), doctest::Contains("step 1 is over, step 2 has begun"), ValueError);
  CHECK(list(a) == std::vector<double>{1, 2}); // its gradient never came
}
