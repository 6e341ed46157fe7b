// Training with exact sums: one digest of the weights on every processor, and twins that stay the same to the bit.

#include "permute/digest.h"
#include "training/vit_trainer.h"
#include "unit/training_small_run.h"

#include <doctest/doctest.h>

#include <string>

using namespace eg;
using namespace eg::test;
using namespace eg::training;

namespace {

/// Whatever draws, blends or rounds in a step.
VitOptions with_everything() {
  VitOptions o = small();
  o.schedule = optim::Schedule::Kind::cosine;
  o.warmup = 2;
  o.weight_decay = 0.05;
  o.decay_on = DecayOn::matrices;
  o.layer_decay = 0.8;
  o.clip = 0.5;
  o.label_smoothing = 0.1;
  o.ema = 0.9;
  o.augment = true;
  o.randaugment = 9.0;
  o.erasing = 0.2;
  o.mixup = 0.2;
  o.cutmix = 1.0;
  o.model.encoder.dropout = 0.1;
  return o;
}

std::string digest_of_weights(const VitTrainer& trainer) {
  std::string bytes;
  for (const auto& [name, value] : trainer.model(0).state_dict()) {
    const Tensor packed = value.contiguous();
    bytes += name;
    bytes.append(reinterpret_cast<const char*>(packed.bytes()),
                 static_cast<std::size_t>(packed.numel()) * size_of(packed.dtype()));
  }
  const permute::DigestBytes digest =
      permute::digest_of({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, "training_exact_test");
  return permute::hexadecimal(digest);
}

} // namespace

TEST_CASE("training with exact sums has the same bits on every processor") {
  VitOptions o = with_everything();
  VitTrainer ordinary(o);
  ordinary.run();
  o.exact = true;
  VitTrainer exact(o);
  exact.run();
  const std::string digest = digest_of_weights(exact);
  CHECK(digest == "fcad2d4c7db69bbe2084fa265d94d9b69793aae68e788a8233e46e49c6ed8fce");
  CHECK(digest != digest_of_weights(ordinary));
}

TEST_CASE("training: with exact sums a permuted twin is the plain model to the bit, in f32") {
  VitOptions o = small();
  o.clip = 0.5;
  o.weight_decay = 0.01;
  o.variants = {permute::PermuteMode::none, permute::PermuteMode::rows, permute::PermuteMode::columns,
                permute::PermuteMode::both};
  for (const bool exact : {false, true}) {
    o.exact = exact;
    VitTrainer trainer(o);
    const Result result = trainer.run();
    for (std::size_t v = 1; v < 4; ++v) {
      CAPTURE(v);
      CHECK((result.test.variants[v].drift == 0.0) == exact);
    }
  }
}

TEST_CASE("training: exact sums are refused where there are none") {
  VitOptions o = small();
  o.exact = true;
  o.precision = MatmulPrecision::bf16;
  CHECK_THROWS_WITH_AS(VitTrainer{o}, doctest::Contains("exact needs precision f32, not bf16"), ValueError);
}
