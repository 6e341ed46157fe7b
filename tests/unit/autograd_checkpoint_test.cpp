#include "autograd/checkpoint.h"

#include "autograd/anomaly.h"
#include "autograd/tape.h"
#include "core/measure/work_meter.h"
#include "core/memory/allocator.h"
#include "core/ops.h"
#include "core/random.h"
#include "core/reduction.h"
#include "core/threads/parallel.h"
#include "nn/block.h"
#include "nn/vit.h"
#include "support/message.h"

#include <doctest/doctest.h>

using namespace eg;

namespace {

using Tensors = std::vector<Tensor>;

Tensor normal(const Shape& shape, std::uint64_t seed, DType dtype = DType::f64) {
  return random_normal(shape, {seed, 3}, 0.0, 1.0, dtype);
}

nn::VitConfig vit(bool checkpoint, double dropout = 0.2) {
  nn::VitConfig c;
  c.image = 16;
  c.layers = 3;
  c.encoder = {.dim = 32, .heads = 4, .mlp = 64, .dropout = dropout, .checkpoint = checkpoint};
  return c;
}

struct Step {
  Tensors gradients; ///< of the loss and every parameter
  std::size_t saved = 0;
};

Step step_of(bool checkpoint, DType dtype, double dropout = 0.2) {
  nn::Vit model(vit(checkpoint, dropout), {1, 0});
  model.to(dtype);
  const Tensor images = normal({4, 3, 16, 16}, 2, dtype);
  const Tensor labels = Tensor::from<std::int64_t>({1, 4, 0, 9}, {4});
  Step step;
  Tape tape;
  const Tensor loss = cross_entropy(model(images, {5, 0}), labels);
  step.saved = tape.saved_bytes();
  step.gradients = tape.gradient(loss, model.parameters());
  step.gradients.push_back(loss);
  return step;
}

bool same(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same_bits(a[i], b[i])) return false;
  return true;
}

} // namespace

TEST_CASE("checkpoint: a ViT's gradients have the same bits with dropout on, for 1, 2 and 3 threads") {
  const int before = parallel::threads();
  for (const DType dtype : {DType::f32, DType::f64})
    for (const int threads : {1, 2, 3}) {
      CAPTURE(threads);
      parallel::set_threads(threads);
      const Step plain = step_of(false, dtype), checkpointed = step_of(true, dtype);
      CHECK(same(plain.gradients, checkpointed.gradients));
      CHECK(2 * checkpointed.saved < plain.saved);
      if (threads == 2) MESSAGE("bytes saved: ", plain.saved, " plain, ", checkpointed.saved, " checkpointed");
    }
  parallel::set_threads(before);
}

TEST_CASE("checkpoint: contributions are joined in the order they would have without") {
  // x and w are used before, inside and after the checkpointed part, with terms of many sizes.
  const Tensor x = normal({64}, 3, DType::f32), w = normal({64}, 4, DType::f32);
  const auto part = [&](const Tensor& h) { return add(mul(tanh(h), w), mul(mul(h, x), affine(w, 1e-3, 0.1))); };
  const auto gradients = [&](bool checkpointed) {
    Tape tape;
    const Tensor h = mul(x, affine(w, 0.7, 0.0));
    Tensor y = checkpointed ? checkpoint(part, h) : part(h);
    y = add(mul(y, mul(w, x)), affine(h, 1e4, 0.0));
    return tape.gradient(sum(mul(y, y)), {x, w, h});
  };
  CHECK(same(gradients(true), gradients(false)));
}

TEST_CASE("checkpoint: captured tensors, several outputs, one handed through, one unused, integers") {
  const Tensor a = normal({3, 4}, 5), b = normal({3, 4}, 6), w = normal({4}, 7);
  const Tensor rows = Tensor::from<std::int64_t>({2, 0, 1}, {3});
  const auto f = [&](const Tensors& in) {
    const Tensor mask = Tensor::full({4}, 2.0, DType::f64); // made on the way: no capture
    return Tensors{mul(mul(in[0], w), mask), in[1], index_select(in[0], 0, in[2]), argmax(in[0], 1), w};
  };
  const auto gradients = [&](bool checkpointed) {
    Tape tape;
    const Tensor h = tanh(b);
    const Tensors y = checkpointed ? checkpoint(f, {a, h, rows}) : f({a, h, rows});
    CHECK(y.size() == 5);
    const Tensor loss = sum(add(add(mul(y[0], y[1]), mul(y[2], y[2])), mul(y[4], y[4])));
    return tape.gradient(loss, {a, b, w, h});
  };
  CHECK(same(gradients(true), gradients(false)));
  // Captured and handed out again without an operation.
  Tape tape;
  const Tensor h = tanh(a);
  const Tensor y = checkpoint([&](const Tensor& in) { return in.size(0) == 3 ? h : in; }, b);
  CHECK(same(tape.gradient(sum(y), {a}), [&] {
    Tape plain;
    return plain.gradient(sum(tanh(a)), {a});
  }()));
}

TEST_CASE("checkpoint: nested, and without a tape") {
  const Tensor x = normal({16}, 8), w = normal({16}, 9);
  int runs = 0;
  const auto inner = [&](const Tensor& h) {
    ++runs;
    return mul(tanh(h), w);
  };
  const auto outer = [&](const Tensor& h) { return mul(checkpoint(inner, mul(h, h)), h); };
  const auto plain = [&](const Tensor& h) { return mul(inner(mul(h, h)), h); };
  const auto gradients = [&](const auto& f) {
    Tape tape;
    return tape.gradient(sum(f(f(x))), {x, w});
  };
  CHECK(same(gradients([&](const Tensor& h) { return checkpoint(outer, h); }), gradients(plain)));
  runs = 0;
  CHECK(same_bits(checkpoint(outer, x), plain(x)));
  CHECK(runs == 2);
}

TEST_CASE("checkpoint: second derivatives, also of captured tensors") {
  const Tensor x = normal({8}, 10), w = normal({8}, 11), u = normal({8}, 12);
  const auto part = [&](const Tensor& h) { return mul(tanh(mul(h, w)), h); };
  const auto second = [&](bool checkpointed) {
    Tape outer;
    Tensor along;
    {
      Tape inner;
      const Tensor y = checkpointed ? checkpoint(part, x) : part(x);
      const Tensors g = inner.gradient(sum(mul(y, y)), {x, w});
      along = sum(mul(add(g[0], g[1]), u));
    }
    return outer.gradient(along, {x, w});
  };
  const Tensors with = second(true), without = second(false);
  CHECK(relative_error(with[0], without[0]) < 1e-14);
  CHECK(relative_error(with[1], without[1]) < 1e-14);

  // The Hessian-vector product of a ViT by its parameters; the scope has ended when the block is computed again.
  const auto product = [](bool checkpointed, double dropout) {
    nn::Vit model(vit(checkpointed, dropout), {1, 0});
    model.to(DType::f64);
    const Tensor images = normal({2, 3, 16, 16}, 2);
    const Tensor labels = Tensor::from<std::int64_t>({1, 4}, {2});
    Tensors direction;
    for (const Tensor& p : model.parameters()) direction.push_back(normal(p.shape(), 20 + direction.size()));
    const auto loss = [&](const Tensors& p) {
      const nn::ParameterScope scope(model, p);
      return cross_entropy(model(images, {5, 0}), labels);
    };
    return hvp(loss, model.parameters(), direction).products;
  };
  for (const double p : {0.2, 0.0}) {
    const Tensors a = product(true, p), b = product(false, p);
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(relative_error(a[i], b[i]) < 1e-11);
  }
}

TEST_CASE("checkpoint: derivatives taken inside of it") {
  const Tensor x = normal({8}, 13), w = normal({8}, 14);
  // sum w^2 tanh(h), its gradient by w inside: 2 w tanh(h).
  const auto part = [&](const Tensor& h) {
    return grad([&](const Tensors& in) { return sum(mul(mul(in[0], in[0]), tanh(h))); })({w})[0];
  };
  const auto gradients = [&](bool checkpointed) {
    Tape tape;
    return tape.gradient(sum(mul(checkpointed ? checkpoint(part, x) : part(x), x)), {x, w});
  };
  const Tensors with = gradients(true), without = gradients(false);
  CHECK(relative_error(with[0], without[0]) < 1e-15);
  CHECK(relative_error(with[1], without[1]) < 1e-15);
}

TEST_CASE("checkpoint: unwanted gradients are not computed, observers hear what is inside") {
  const Tensor x = normal({32, 32}, 15), w = normal({32, 32}, 16);
  const auto flops = [&](bool checkpointed) {
    const auto part = [&](const Tensor& h) { return matmul(h, w); };
    const WorkMeter meter;
    Tape tape;
    const Tensor y = sum(checkpointed ? checkpoint(part, x) : part(x));
    tape.gradient(y, {w}); // not x
    return meter.total().flops;
  };
  CHECK(flops(true) == doctest::Approx(flops(false) + 2.0 * 32 * 32 * 32)); // the forward product, once more
}

TEST_CASE("checkpoint: a block's last product is not computed again where nobody reads it") {
  CHECK(same(step_of(true, DType::f32, 0.0).gradients, step_of(false, DType::f32, 0.0).gradients));

  nn::BlockConfig c{.dim = 16, .heads = 2, .mlp = 64};
  const Tensor x = random_normal({2, 5, 16}, {1, 0}), target = random_normal({2, 5, 16}, {2, 0});
  const auto gradients = [&](bool checkpointed, bool pre_norm, double* flops, bool outer = false) {
    c.checkpoint = checkpointed;
    c.pre_norm = pre_norm;
    const nn::Block block(c, {3, 0});
    const WorkMeter meter;
    Tape tape;
    const Tensor y = outer ? checkpoint([&](const Tensor& in) { return block(block(in)); }, x) : block(block(x));
    Tensors all = tape.gradient(mse_loss(y, target), block.parameters());
    if (flops != nullptr) *flops = meter.total().flops;
    return all;
  };
  double plain = 0.0, again = 0.0, post = 0.0, post_again = 0.0;
  CHECK(same(gradients(true, true, &again), gradients(false, true, &plain)));
  CHECK(same(gradients(true, false, &post_again), gradients(false, false, &post)));
  const double fc2 = 2.0 * 2.0 * (2 * 5 * 16 * 64); // two blocks, a multiplication and an addition each
  CHECK(post_again - post == doctest::Approx(again - plain + fc2).epsilon(0.01)); // norms differ by a little
  // Where a block is not the last of an outer checkpoint, what it gives is read.
  CHECK(same(gradients(true, true, nullptr, true), gradients(false, true, nullptr)));

  c.checkpoint = true;
  const nn::Block block(c, {3, 0}); // an anomaly watch looks at all values that there are
  const DetectAnomaly watch;
  Tape tape;
  CHECK_NOTHROW(tape.gradient(sum(block(x)), block.parameters()));
}

TEST_CASE("checkpoint: live bytes at the peak shrink and return to where they were") {
  nn::Vit model(vit(true, 0.1), {1, 0}), plain(vit(false, 0.1), {1, 0});
  const Tensor images = normal({32, 3, 16, 16}, 2, DType::f32);
  const auto peak = [&](const nn::Vit& m) {
    const std::size_t before = allocator::stats().live_bytes;
    allocator::reset_peak();
    {
      Tape tape;
      const Tensors g = tape.gradient(sum(m(images, {3, 0})), m.parameters());
    }
    CHECK(allocator::stats().live_bytes == before);
    return allocator::stats().peak_bytes - before;
  };
  const std::size_t with = peak(model), without = peak(plain);
  MESSAGE("peak of a step: ", without, " bytes plain, ", with, " checkpointed");
  CHECK(with < without * 2 / 3);
}

TEST_CASE("checkpoint: exact sums of the forward pass are exact again") {
  const Tensor x = normal({64, 64}, 17, DType::f32);
  int wrong = 0;
  const auto part = [&](const Tensor& h) {
    if (reduction() != Reduction::exact) ++wrong;
    return matmul(h, h);
  };
  Tape tape;
  Tensor y;
  {
    const ReductionScope scope(Reduction::exact);
    y = checkpoint(part, x);
  }
  tape.gradient(sum(y), {x});
  CHECK(wrong == 0);
}

TEST_CASE("checkpoint: a function that does something else the second time is refused") {
  const Tensor x = normal({4}, 18), w = normal({4}, 19), v = normal({4}, 20);
  const auto message = [&](const std::function<Tensor(const Tensor&)>& f, const std::function<void()>& meanwhile = {}) {
    return test::message_of<AutogradError>([&] {
      Tape tape;
      const Tensor y = sum(checkpoint(f, x));
      if (meanwhile) meanwhile();
      tape.gradient(y, {x});
    });
  };
  int run = 0;
  CHECK(message([&](const Tensor& h) { return mul(h, run++ == 0 ? w : v); }).find("did not use the captured f64 [4]") !=
        std::string::npos);
  run = 0;
  CHECK(message([&](const Tensor& h) { return run++ == 0 ? h : h.slice(0, 0, 2); }).find("another number, shape") !=
        std::string::npos);
  Tensor changed = w.clone();
  CHECK(message([&](const Tensor& h) { return mul(h, changed); }, [&] { changed.fill(1.0); }).find("in place") !=
        std::string::npos);
  CHECK(message([](const Tensor&) { return Tensor{}; }).find("undefined output") != std::string::npos);
  CHECK_FALSE(recording());
}
