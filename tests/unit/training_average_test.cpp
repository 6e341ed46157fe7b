// Averages of weights: the formula, training with them, and going on from checkpoints that have them or lack options.

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "core/random.h"
#include "core/threads/parallel.h"
#include "data/safetensors.h"
#include "optim/average.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "training/checkpoint.h"
#include "training/language/language.h"
#include "training/vit_trainer.h"
#include "unit/training_small_run.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <vector>

using namespace eg;
using namespace eg::permute;
using namespace eg::test;
using namespace eg::training;

namespace {

/// Everything that a step of a ViT can draw.
VitOptions busy(const std::string& out) {
  VitOptions o = test::small();
  o.steps = 12; // crosses an epoch of 10 batches
  o.permute = PermuteMode::both;
  o.twin = true;
  o.schedule = optim::Schedule::Kind::one_cycle;
  o.augment = true;
  o.crop_area = 0.5;
  o.randaugment = 9.0;
  o.erasing = 0.5;
  o.mixup = 0.4;
  o.cutmix = 1.0;
  o.accumulate = 2;
  o.weight_decay = 0.1;
  o.decay_on = training::DecayOn::matrices;
  o.ema = 0.9;
  o.out = out;
  return o;
}

std::string bytes_of(const std::string& path) {
  const Bytes bytes = read_file(path);
  return {bytes.begin(), bytes.end()};
}

template <class Make> void run_until(const Make& make, std::int64_t stop_at) {
  std::atomic<bool> stop = false;
  training::Callbacks callbacks;
  callbacks.step = [&](const training::Record& r) { stop = r.step == stop_at; };
  CHECK_THROWS_AS(make()->run(callbacks, &stop), Interrupted);
}

} // namespace

TEST_CASE("optim: averages follow the weights by their formula, with the same bits for any number of threads") {
  const Tensor w = random_normal({70001}, {1, 0}, 0.0, 1.0, DType::f64);
  std::vector<double> expected = w.to_vector<double>();
  std::vector<Tensor> results;
  for (const int threads : {1, 3}) {
    parallel::set_threads(threads);
    const Tensor copy = w.clone();
    optim::WeightAverage average({copy}, 0.5);
    for (std::int64_t t = 1; t <= 12; ++t) {
      Tensor(copy).copy_from(random_normal({70001}, {2, static_cast<std::uint64_t>(t)}, 0.0, 1.0, DType::f64));
      average.update(t);
      const std::vector<double> now = copy.to_vector<double>();
      const double d = std::min(0.5, (1.0 + static_cast<double>(t)) / (10.0 + static_cast<double>(t)));
      for (std::size_t i = 0; threads == 1 && i < now.size(); ++i) expected[i] = d * expected[i] + (1 - d) * now[i];
    }
    results.push_back(average.values()[0]);
  }
  parallel::set_threads(0);
  CHECK(relative_error(results[0], Tensor::from<double>(expected, {70001})) < 1e-14);
  CHECK(same_bits(results[0], results[1]));
  CHECK_THROWS_WITH_AS(optim::WeightAverage({w, Tensor::zeros({2, 3}).transpose()}, 0.5),
                       "weight average: parameter 1 must be f32 or f64 and densely packed", ValueError);
  CHECK_THROWS_WITH_AS(optim::WeightAverage({w}, 1.0), "weight average: decay must be in (0, 1), not 1", ValueError);
}

TEST_CASE("training: with every augmentation, mixing and an average a run that is cut goes on bit for bit") {
  const TemporaryFolder whole, parts;
  VitTrainer(busy(whole.path())).run();
  int threads = 1;
  run_until([&] { return std::make_unique<VitTrainer>(busy(parts.path())); }, 3);
  for (const std::int64_t cut : {std::int64_t{7}, std::int64_t{10}}) {
    parallel::set_threads(++threads);
    run_until([&] { return std::make_unique<VitTrainer>(options_of_run(parts.path())); }, cut);
  }
  parallel::set_threads(0);
  VitTrainer(options_of_run(parts.path())).run();
  for (const char* file :
       {"model.safetensors", "model_none.safetensors", "model_ema.safetensors", "model_ema_none.safetensors"}) {
    CAPTURE(file);
    CHECK(bytes_of(parts.path(file)) == bytes_of(whole.path(file)));
  }
  CHECK(bytes_of(whole.path("model.safetensors")) != bytes_of(whole.path("model_ema.safetensors")));
}

TEST_CASE("training: the average is tested and saved beside the weights, and twins' averages agree") {
  const TemporaryFolder folder;
  VitOptions o = busy(folder.path());
  o.dtype = DType::f64;
  VitTrainer trainer(o);
  const training::Result result = trainer.run();
  for (const training::VariantRecord& v : result.test.variants) {
    CHECK(std::isfinite(v.ema_loss));
    CHECK(v.ema_loss != v.loss);
    CHECK(v.ema_loss == doctest::Approx(result.test.variants[0].ema_loss).epsilon(1e-10));
    CHECK(v.ema_accuracy == result.test.variants[0].ema_accuracy);
  }
  const data::NamedTensors saved = data::load_safetensors(folder.path("model_ema.safetensors")).tensors;
  const std::vector<Tensor> average = trainer.average(1);
  REQUIRE(saved.size() == average.size());
  const std::vector<nn::Parameter> parameters = trainer.model(1).named_parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto found =
        std::find_if(saved.begin(), saved.end(), [&](const auto& s) { return s.first == parameters[i].name; });
    REQUIRE(found != saved.end());
    CHECK(same_bits(found->second, average[i]));
  }
  // A model with these weights has that loss: nothing of the test's exchange stays behind.
  nn::Vit model(trainer.options().model, {1, 0});
  model.to(DType::f64);
  model.load_state_dict(trainer.model(0).state_dict());
  CHECK(training::weight_difference(model.state_dict(), trainer.model(0).state_dict()) == 0.0);
  const std::string lines = bytes_of(folder.path("metrics.jsonl"));
  CHECK(lines.find("\"ema_accuracy\"") != std::string::npos);
}

TEST_CASE("training: a checkpoint without its average is damaged; one made without an average is refused") {
  const TemporaryFolder folder;
  VitOptions o = busy(folder.path());
  VitTrainer(o).run();
  write_file(folder.path("checkpoints/step-00000012/ema.safetensors"), std::string_view("torn"));
  CHECK(message_of<FileError>([&] { VitTrainer{options_of_run(folder.path())}; }).find("ema.safetensors") !=
        std::string::npos);
  const TemporaryFolder plain;
  o = busy(plain.path());
  o.ema = 0.0;
  VitTrainer(o).run();
  CHECK_FALSE(file_exists(plain.path("model_ema.safetensors")));
  VitOptions again = options_of_run(plain.path());
  again.ema = 0.5;
  CHECK(message_of<ValueError>([&] { VitTrainer{again}; }).ends_with("was made with other options: ema 0.0 (now 0.5)"));
}

TEST_CASE("training: a checkpoint that lacks an option is one of a run that did what the default does") {
  const TemporaryFolder folder;
  VitOptions o = test::small();
  o.out = folder.path();
  VitTrainer(o).run();
  const std::string path = folder.path("checkpoints/step-00000008/state.json");
  nlohmann::json state = read_json(path);
  for (const char* key : {"ema", "decay_on", "mixup", "drop_factor"}) state["options"].erase(key);
  write_json(path, state);
  CHECK(VitTrainer(options_of_run(folder.path())).step() == 8);
  VitOptions other = options_of_run(folder.path());
  other.mixup = 0.5;
  CHECK(
      message_of<ValueError>([&] { VitTrainer{other}; }).ends_with("was made with other options: mixup 0.0 (now 0.5)"));
}

TEST_CASE("language models: the average becomes a folder of its own, and runs with one resume bit for bit") {
  const TemporaryFolder folder;
  std::string text;
  while (text.size() < 900) text += "Though yet of Hamlet our dear brother's death the memory be green. ";
  write_file(folder.path("text.txt"), std::string_view(text));
  training::LanguageOptions o = training::language_defaults(training::LanguageModel::gpt2);
  o.data = folder.path("text.txt");
  o.context = 8, o.dim = 8, o.layers = 1, o.heads = 2, o.batch = 2, o.warmup = 2, o.steps = 8;
  o.ema = 0.8;
  o.optimizer = "muon";
  o.out = folder.path("whole");
  const training::Result whole = training::language_trainer(o)->run();
  CHECK(std::isfinite(whole.test.ema_loss));
  CHECK(whole.test.ema_loss != whole.test.loss);
  CHECK(std::isnan(whole.test.ema_accuracy));
  o.out = folder.path("cut");
  std::atomic<bool> stop = false;
  training::Callbacks callbacks;
  callbacks.step = [&](const training::Record& r) { stop = r.step == 3; };
  CHECK_THROWS_AS(training::language_trainer(o)->run(callbacks, &stop), Interrupted);
  const training::Result rest =
      training::language_trainer(training::language_options_of_run(o.out, training::LanguageModel::gpt2))->run();
  CHECK(rest.test.ema_loss == whole.test.ema_loss);
  for (const char* file : {"/model/model.safetensors", "/model-ema/model.safetensors", "/model-ema/tokenizer.json"})
    CHECK(bytes_of(folder.path("cut") + file) == bytes_of(folder.path("whole") + file));
  training::clear_run(folder.path("cut"));
  CHECK_FALSE(folder_exists(folder.path("cut/model-ema")));
}
