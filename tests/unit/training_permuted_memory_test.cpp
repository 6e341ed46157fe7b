// The memory of training: its estimate, checkpointed blocks, and batches in parts.

#include "core/memory/allocator.h"
#include "support/message.h"
#include "training/vit_trainer.h"
#include "unit/training_small_run.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>

using namespace eg;
using namespace eg::permute;
using namespace eg::test;
using namespace eg::training;

TEST_CASE("training: the memory estimate is near the allocator's peak, and too large a batch is refused in time") {
  VitOptions o = small();
  o.size = 32;
  o.train_limit = 200;
  o.batch = 64;
  o.steps = 2;
  o.model.patch = 4;
  o.model.layers = 4;
  o.model.encoder = {.dim = 64, .heads = 4, .mlp = 128};
  const std::size_t before = allocator::stats().live_bytes;
  allocator::reset_peak();
  VitTrainer trainer(o);
  trainer.train_step();
  const auto peak = static_cast<double>(allocator::stats().peak_bytes - before);
  VitOptions full = trainer.options();
  const auto estimate = static_cast<double>(estimate_memory(full).total());
  CAPTURE(peak);
  CAPTURE(estimate);
  CHECK(estimate > 0.9 * peak);
  CHECK(estimate < 1.25 * peak);

  full.batch = 4096;
  const std::size_t limit = std::size_t{256} << 20;
  const std::string text = message_of([&] { require_memory(full, 0, limit); });
  CAPTURE(text);
  CHECK(text.starts_with("train: batch 4096 needs about"));
  const std::size_t at = text.find("--batch ");
  REQUIRE(at != std::string::npos);
  full.batch = std::stoll(text.substr(at + 8));
  CHECK(full.batch > 0);
  CHECK(message_of([&] { require_memory(full, 0, limit); }).empty());
  full.batch += 1;
  CHECK_FALSE(message_of([&] { require_memory(full, 0, limit); }).empty());
  CHECK(message_of([&] { require_memory(full, 0, 1000); }).find("no batch would fit") != std::string::npos);
}

TEST_CASE("training: the memory of a batch in shards is near the estimate, and less where processes divide it") {
  VitOptions o = small();
  o.size = 32;
  o.train_limit = 200;
  o.batch = 64;
  o.steps = 2;
  o.shards = 8;
  o.model.patch = 4;
  o.model.layers = 4;
  o.model.encoder = {.dim = 64, .heads = 4, .mlp = 128};
  const std::size_t before = allocator::stats().live_bytes;
  allocator::reset_peak();
  VitTrainer trainer(o);
  trainer.train_step();
  const auto peak = static_cast<double>(allocator::stats().peak_bytes - before);
  VitOptions sharded = trainer.options();
  const MemoryEstimate one = estimate_memory(sharded);
  CAPTURE(peak);
  CHECK(static_cast<double>(one.total()) > 0.8 * peak);
  CHECK(static_cast<double>(one.total()) < 1.3 * peak);

  VitOptions uncut = sharded;
  uncut.shards = 0;
  CHECK(one.activations * 7 < estimate_memory(uncut).activations);
  sharded.shard_optimizer = true;
  const MemoryEstimate quarter = estimate_memory(sharded, 0, 4);
  CHECK(quarter.parameters < one.parameters);
  CHECK(quarter.input * 4 == one.input);
  CHECK(quarter.activations == one.activations);

  sharded.batch = 1 << 14;
  const std::size_t limit = std::size_t{256} << 20;
  const std::string text = message_of([&] { require_memory(sharded, 0, limit, 4); });
  const std::size_t at = text.find("--batch ");
  REQUIRE(at != std::string::npos);
  sharded.batch = std::stoll(text.substr(at + 8));
  CHECK(message_of([&] { require_memory(sharded, 0, limit, 4); }).empty());
  CHECK_FALSE(message_of([&] { require_memory(sharded, 0, limit); }).empty()); // one process alone has more to hold
  sharded.batch += 1;
  CHECK_FALSE(message_of([&] { require_memory(sharded, 0, limit, 4); }).empty());
}

TEST_CASE("training: checkpointed blocks give the same weights bit for bit, in less memory, near the estimate") {
  VitOptions o = small();
  o.size = 32;
  o.train_limit = 200;
  o.batch = 64;
  o.steps = 2;
  o.model.layers = 4;
  o.model.encoder = {.dim = 64, .heads = 4, .mlp = 128, .dropout = 0.1};
  const auto train = [&](bool checkpoint, double& peak) {
    o.model.encoder.checkpoint = checkpoint;
    const std::size_t before = allocator::stats().live_bytes;
    allocator::reset_peak();
    auto trainer = std::make_unique<VitTrainer>(o);
    trainer->train_step();
    trainer->train_step();
    peak = static_cast<double>(allocator::stats().peak_bytes - before);
    return trainer;
  };
  double plain_peak = 0.0, peak = 0.0;
  const auto plain = train(false, plain_peak);
  const auto checkpointed = train(true, peak);
  const nn::StateDict a = plain->model(0).state_dict(), b = checkpointed->model(0).state_dict();
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(same_bits(a[i].second, b[i].second));
  const auto estimate = static_cast<double>(estimate_memory(checkpointed->options()).total());
  CAPTURE(plain_peak);
  CAPTURE(peak);
  CAPTURE(estimate);
  CHECK(peak < 0.75 * plain_peak);
  CHECK(estimate > 0.9 * peak);
  CHECK(estimate < 1.5 * peak);
}

TEST_CASE("training: a batch in parts takes the same step to rounding") {
  VitOptions o = small();
  o.dtype = DType::f64;
  o.batch = 8;
  o.permute = PermuteMode::both;
  const auto weights = [&](std::int64_t parts) {
    o.accumulate = parts;
    VitTrainer trainer(o);
    const training::Record first = trainer.train_step();
    trainer.train_step();
    nn::StateDict state;
    for (const auto& [name, value] : trainer.model(0).state_dict()) state.emplace_back(name, value.clone());
    return std::pair(first.variants[0], std::move(state));
  };
  const auto [whole, plain] = weights(1);
  for (const std::int64_t parts : {3, 8}) {
    const auto joined = weights(parts);
    CHECK(joined.first.loss == doctest::Approx(whole.loss).epsilon(1e-12));
    CHECK(joined.first.accuracy == doctest::Approx(whole.accuracy).epsilon(1e-12));
    CHECK(training::weight_difference(joined.second, plain) < 1e-8);
  }
  o.accumulate = 9;
  CHECK(message_of([&] { VitTrainer{o}; }).find("accumulate must be from 1 to the batch of 8, not 9") !=
        std::string::npos);
}
