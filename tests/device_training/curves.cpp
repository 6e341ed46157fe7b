// Every trainer on a device: the loss curve of the CPU, and permuted runs beside plain ones.

#include "core/device/device.h"
#include "device_training/tiny_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

using namespace eg;
using namespace eg::test;
using permute::PermuteMode;

namespace {

const Device gpu = Device::cuda();

/// Losses of the steps, and of the test behind them as the last one.
using Curve = std::vector<double>;

Curve curve_of(training::Trainer& trainer) {
  Curve curve;
  while (trainer.step() < trainer.total_steps()) curve.push_back(trainer.train_step().loss);
  curve.push_back(trainer.test().loss);
  return curve;
}

template <class Options> std::unique_ptr<training::Trainer> trainer_on(Device device, Options o) {
  o.device = device.str();
  auto trainer = trainer_of(o);
  for (std::size_t variant = 0; variant < trainer->variants(); ++variant)
    for (const auto& entry : trainer->module(variant).state_dict()) // or the CPU would be compared with itself
      REQUIRE_MESSAGE(entry.second.device() == device, entry.first);
  return trainer;
}

template <class Options> Curve curve_on(Device device, const Options& o) { return curve_of(*trainer_on(device, o)); }

/// Largest relative difference at any point.
double apart(const Curve& a, const Curve& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return worst;
}

/// Trains on both; another seed and another learning rate must be told apart by the same measure.
template <class Options> void follows_the_cpu(const std::string& name, const Options& o) {
  CAPTURE(name);
  const Curve there = curve_on(gpu, o), here = curve_on(Device::cpu(), o);
  REQUIRE(there.size() == 21);
  const double worst = apart(there, here);
  MESSAGE(name, ": losses differ by ", worst);
  CHECK(worst < 1e-5);
  CHECK(std::abs(here[19] - here.front()) > 0.01 * here.front()); // a model that stays where it is forgives much
  Options seed = o, rate = o;
  seed.seed += 1;
  rate.lr *= 1.2;
  CHECK(apart(there, curve_on(Device::cpu(), seed)) > 1e-3);
  CHECK(apart(there, curve_on(Device::cpu(), rate)) > 1e-3);
}

/// A larger eps keeps Adam from making whole steps of gradients that are rounding alone, as that of the bias of K.
template <class Options> Options permuted(Options o, PermuteMode mode) {
  o.permute = mode;
  o.eps = 1e-6;
  return o;
}

/// A plain and a permuted run on the device, for trainers that take one model at a time.
template <class Options> void permuted_run_follows(const std::string& name, const Options& o, PermuteMode mode) {
  CAPTURE(name);
  const auto plain = trainer_on(gpu, permuted(o, PermuteMode::none)), moved = trainer_on(gpu, permuted(o, mode));
  const Curve curve = curve_of(*plain);
  const double worst = apart(curve_of(*moved), curve);
  const double weights = training::weight_difference(moved->module().state_dict(), plain->module().state_dict());
  MESSAGE(name, ": permuted and plain losses differ by ", worst, ", weights by ", weights);
  CHECK(worst < 1e-4);
  // The weights carry the key of the columns; permuted rows leave them where they are, but sum in another order.
  CHECK(weights > (permutes_columns(mode) ? 1e-2 : 0.0));
  if (!permutes_columns(mode)) CHECK(weights < 1e-3);
  Options other = permuted(o, mode);
  other.seed += 1;
  CHECK(apart(curve_on(gpu, other), curve) > 1e-3);
}

/// The plain model and the permuted one beside it, in one trainer.
template <class Options> void twin_follows(const std::string& name, const Options& o, PermuteMode mode) {
  CAPTURE(name);
  Options both = permuted(o, mode);
  both.twin = true;
  const auto trainer = trainer_on(gpu, both);
  REQUIRE(trainer->variants() == 2);
  Curve plain, moved;
  const auto note = [&](const training::Record& record) {
    plain.push_back(record.variants.at(0).loss);
    moved.push_back(record.variants.at(1).loss);
  };
  while (trainer->step() < trainer->total_steps()) note(trainer->train_step());
  note(trainer->test());
  const double drift = trainer->drift(1), worst = apart(moved, plain);
  MESSAGE(name, ": losses of the twins differ by ", worst, ", weights by ", drift);
  CHECK(worst < 1e-4);
  CHECK(drift < 1e-3);
  CHECK(drift > 0.0);
  // As they are, with the key on them, the weights are others.
  CHECK(training::weight_difference(trainer->module(1).state_dict(), trainer->module(0).state_dict()) > 1e-2);
}

} // namespace

TEST_CASE("a ViT on the device has the loss curve of the CPU") {
  follows_the_cpu("plain", tiny_vit());
  training::VitOptions parts = tiny_vit();
  parts.clip = 0.5;
  parts.accumulate = 2;
  parts.ema = 0.9;
  parts.model.encoder.dropout = 0.1;
  parts.model.encoder.attention_dropout = 0.1;
  parts.model.embedding_dropout = 0.1;
  follows_the_cpu("clip, parts, average and dropout", parts);
  training::VitOptions pooled = tiny_vit();
  pooled.optimizer = "nesterov";
  pooled.model.pooling = nn::Pooling::mean;
  follows_the_cpu("sgd, mean pooling", pooled);
}

TEST_CASE("a BERT on the device has the loss curve of the CPU") {
  const TemporaryFolder folder;
  for (const training::BertTask task : {training::BertTask::classify, training::BertTask::mlm}) {
    training::ClassifyOptions o = tiny_bert(folder, task);
    o.dropout = 0.1;
    o.attention_dropout = 0.1;
    follows_the_cpu(std::string(name_of(task)), o);
  }
}

TEST_CASE("a GPT-2 on the device has the loss curve of the CPU") {
  const TemporaryFolder folder;
  training::LanguageOptions o = tiny_decoder(folder, training::LanguageModel::gpt2);
  o.dropout = 0.1;
  follows_the_cpu("gpt2", o);
}

TEST_CASE("a Llama on the device has the loss curve of the CPU") {
  const TemporaryFolder folder;
  follows_the_cpu("llama", tiny_decoder(folder, training::LanguageModel::llama));
  follows_the_cpu("llama of wide heads", tiny_llama_of_wide_heads(folder));
}

TEST_CASE("a DIFM on the device has the loss curve of the CPU") {
  const TemporaryFolder folder;
  training::DifmOptions o = tiny_difm(folder);
  o.dropout = 0.1;
  follows_the_cpu("difm", o);
}

TEST_CASE("permuted twins on the device stay together") {
  const TemporaryFolder folder;
  twin_follows("vit", tiny_vit(), PermuteMode::both);
  for (const auto model : {training::LanguageModel::gpt2, training::LanguageModel::llama})
    twin_follows(std::string(name_of(model)), tiny_decoder(folder, model), PermuteMode::columns);
}

TEST_CASE("permuted runs on the device have the losses of plain ones") {
  const TemporaryFolder folder;
  for (const training::BertTask task : {training::BertTask::classify, training::BertTask::mlm})
    permuted_run_follows(std::string(name_of(task)), tiny_bert(folder, task), PermuteMode::both);
  permuted_run_follows("difm", tiny_difm(folder), PermuteMode::rows);
}
