// Training on a device: --device, the bits of a small net, and checkpoints that move.

#include "autograd/tape.h"
#include "core/base/bytes.h"
#include "core/base/json.h"
#include "core/device/device.h"
#include "core/ops.h"
#include "core/random.h"
#include "device_training/tiny_runs.h"
#include "optim/average.h"
#include "optim/optimizer.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

using namespace eg;
using namespace eg::test;

namespace {

const Device gpu = Device::cuda();

/// A net of products element by element, so that it asks for pointwise rows alone: y = w3 tanh(w2 sigmoid(w1 x)).
std::vector<Tensor> pointwise_training(Device device) {
  const Shape shape{16, 12};
  std::vector<Tensor> w;
  for (std::uint64_t i = 0; i < 3; ++i) w.push_back(random_normal(shape, {i, 1}).to(device));
  const auto rule = optim::adamw(w, {.weight_decay = 0.01});
  optim::WeightAverage average(w, 0.9);
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Tensor x = random_normal(shape, {step, 2}).to(device), wanted = random_normal(shape, {step, 3}).to(device);
    std::vector<Tensor> gradients;
    {
      Tape tape;
      const Tensor y = w[2] * tanh(w[1] * sigmoid(w[0] * x));
      const Tensor difference = y - wanted;
      const Tensor loss = difference * difference;
      const DeviceScope there(device);
      gradients = tape.gradient(loss, w, Tensor::ones(shape));
    }
    optim::clip_gradients(gradients, 1.0);
    rule->step(gradients, 0.05);
    average.update(rule->steps());
  }
  std::vector<Tensor> all = w;
  for (const Tensor& a : average.values()) all.push_back(a);
  return all;
}

void take_steps(training::VitTrainer& trainer, std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) trainer.train_step();
}

} // namespace

TEST_CASE("20 steps of a net of pointwise rows have the bits of the CPU, AdamW, clipping and average included") {
  const std::vector<Tensor> here = pointwise_training(Device::cpu()), there = pointwise_training(gpu);
  for (std::size_t i = 0; i < here.size(); ++i) {
    CHECK(there[i].device() == gpu);
    CHECK_MESSAGE(same_bits(here[i], there[i]), i);
  }
}

TEST_CASE("a run on a device that is not there is refused before data is read") {
  training::VitOptions o = tiny_vit();
  o.data = "/no such folder";
  for (const auto& [device, words] : {std::pair{"cuda:5", "cuda:5: there is no such device; the module "},
                                      {"gpu", "device must be cpu, cuda or cuda:N, not 'gpu'"}}) {
    o.device = device;
    try {
      training::VitTrainer trainer(o);
      FAIL("it was taken");
    } catch (const Error& error) {
      CHECK_MESSAGE(std::string(error.what()).find(words) != std::string::npos, std::string(error.what()));
    }
  }
}

TEST_CASE("a run goes from one device to another") {
  const TemporaryFolder folder;
  training::VitOptions o = tiny_vit();
  o.optimizer = "nesterov"; // Adam would make steps of the bias of K, whose gradient is rounding alone
  o.out = folder.path() + "/run";
  o.device = "cuda";
  o.steps = 4;
  {
    training::VitTrainer trainer(o);
    take_steps(trainer, 2);
    trainer.save_checkpoint();
  }
  training::VitOptions again = training::options_of_run(o.out, training::VitOptions());
  CHECK(again.device == "cuda:0");
  again.device = "cpu";
  training::VitTrainer trainer(again);
  CHECK(trainer.step() == 2);
  CHECK(trainer.model(0).device() == Device::cpu());
  trainer.run();
  CHECK(read_json(o.out + "/config.json").at("device") == "cpu");

  training::VitOptions whole = tiny_vit();
  whole.optimizer = o.optimizer;
  whole.steps = 4;
  training::VitTrainer uninterrupted(whole);
  take_steps(uninterrupted, 4);
  const nn::StateDict a = trainer.weights(0), b = uninterrupted.weights(0);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK_MESSAGE(relative_error(a[i].second, b[i].second) < 1e-4, a[i].first);
}
