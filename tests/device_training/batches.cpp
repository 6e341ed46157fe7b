// Batches of a training are copied beside the computations. EQUIGRAD_EMULATOR_DEAF leaves out a wait, and the losses
// show it.

#include "core/device/device.h"
#include "device_training/tiny_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

using namespace eg;
using namespace eg::test;

namespace {

bool leaves_out_a_wait() {
  const char* const deaf = std::getenv("EQUIGRAD_EMULATOR_DEAF");
  return deaf != nullptr && std::string(deaf) == "compute";
}

std::vector<double> losses(training::Trainer& trainer) {
  std::vector<double> all;
  while (trainer.step() < trainer.total_steps()) all.push_back(trainer.train_step().loss);
  all.push_back(trainer.test().loss);
  return all;
}

template <class Options> std::vector<double> losses_on(const char* device, Options o) {
  o.device = device;
  return losses(*trainer_of(o));
}

/// Largest relative difference; infinite for numbers that are none, and for a run that ends early.
template <class Options> double apart(const Options& o) {
  const std::vector<double> here = losses_on("cpu", o);
  try {
    const std::vector<double> there = losses_on("cuda", o);
    double worst = 0.0;
    for (std::size_t i = 0; i < here.size(); ++i) {
      const double own = std::abs(there[i] - here[i]) / std::abs(here[i]);
      worst = std::isfinite(own) ? std::max(worst, own) : INFINITY;
    }
    return worst;
  } catch (const Error&) {
    return INFINITY;
  }
}

training::VitOptions small_vit() {
  training::VitOptions o = tiny_vit();
  o.steps = 6;
  o.train_limit = 24; // three batches an epoch
  o.test_limit = 12;
  o.model.layers = 1;
  return o;
}

void check(const char* what, double difference) {
  CAPTURE(what);
  if (leaves_out_a_wait())
    CHECK(difference > 1e-3);
  else
    CHECK(difference < 1e-5);
}

} // namespace

TEST_CASE("a ViT's losses are those of the CPU") { check("plain", apart(small_vit())); }

TEST_CASE("the same with mixed images, two parts of a batch, a permuted twin, workers") {
  training::VitOptions o = small_vit();
  o.mixup = 0.4;
  o.accumulate = 2;
  o.workers = 2;
  o.permute = permute::PermuteMode::both;
  o.twin = true;
  check("mixed", apart(o));
}

TEST_CASE("a decoder's losses are those of the CPU") {
  const TemporaryFolder folder;
  training::LanguageOptions o = tiny_decoder(folder, training::LanguageModel::gpt2);
  o.steps = 4;
  o.layers = 1;
  check("gpt2", apart(o));
}

TEST_CASE("a step that fails when the next batch is on its way can be begun again, with the same bits") {
  if (leaves_out_a_wait()) return;
  const Device gpu = Device::cuda();
  training::VitOptions o = small_vit();
  o.device = "cuda";
  const std::size_t limit = device::memory_limit(gpu);
  const auto run = [&](bool fails) {
    const auto trainer = trainer_of(o);
    std::vector<double> all;
    for (std::int64_t step = 0; step < 5; ++step) {
      if (fails && step > 0) {
        const std::size_t enough = device::memory_stats(gpu).peak_bytes;
        for (const std::size_t less :
             {std::size_t{1}, enough / 16, enough / 4}) { // in the backward pass, and before it
          device::set_memory_limit(gpu, enough - less);
          CHECK_THROWS_AS(trainer->train_step(), MemoryError);
          device::set_memory_limit(gpu, limit);
        }
      }
      device::reset_peak_memory(gpu);
      all.push_back(trainer->train_step().loss);
    }
    return all;
  };
  CHECK(run(true) == run(false));
}
