// The trainer: twins stay together, runs resume bit for bit, folders hold what they should.

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "core/memory/allocator.h"
#include "core/threads/parallel.h"
#include "data/safetensors.h"
#include "permute/key.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "support/training_run.h"
#include "training/vit_trainer.h"
#include "unit/training_small_run.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace eg;
using namespace eg::permute;
using namespace eg::test;
using namespace eg::training;

namespace {

bool same_weights(const VitTrainer& a, const VitTrainer& b) {
  for (std::size_t v = 0; v < a.variants(); ++v) {
    const nn::StateDict x = a.model(v).state_dict(), y = b.model(v).state_dict();
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!same_bits(x[i].second, y[i].second)) return false;
  }
  return true;
}

/// What is said of a run of small(), beside that no other library has such a model.
std::vector<std::string> notes_of(const VitTrainer& trainer) {
  std::vector<std::string> notes = trainer.notes();
  CHECK(std::erase_if(notes, [](const std::string& note) {
          return note.starts_with("the run will leave no model folder");
        }) == 1);
  return notes;
}

} // namespace

TEST_CASE("training: permuted twins follow the plain model, whatever the optimiser") {
  for (const char* optimizer : {"sgd", "momentum", "adam", "adamw", "rmsprop", "lion", "muon"}) {
    CAPTURE(optimizer);
    VitOptions o = small();
    o.dtype = DType::f64;
    o.optimizer = optimizer;
    o.weight_decay = 0.01;
    o.variants = {PermuteMode::none, PermuteMode::rows, PermuteMode::columns, PermuteMode::both};
    VitTrainer trainer(o);
    CHECK(trainer.drift(2) == 0.0);
    const training::Result result = trainer.run();
    CHECK(result.steps == 8);
    CHECK(std::isnan(result.test.variants[0].drift));
    for (std::size_t v = 1; v < 4; ++v) {
      CAPTURE(v);
      CHECK(result.test.variants[v].drift < 1e-11);
      CHECK((result.test.variants[v].drift > 0.0 || o.optimizer == "lion")); // signs: the same bits on both sides
      CHECK(result.test.variants[v].loss == doctest::Approx(result.test.variants[0].loss).epsilon(1e-10));
      CHECK(result.test.variants[v].accuracy == result.test.variants[0].accuracy);
    }
    // They are not the same model: before mapping back the weights differ.
    CHECK(training::weight_difference(trainer.model(2).state_dict(), trainer.model(0).state_dict()) > 1e-3);
  }
}

TEST_CASE("training: another initialisation drifts (negative control)") {
  VitOptions a = small(), b = small();
  b.seed = 6;
  const VitTrainer one(a), other(b);
  CHECK(training::weight_difference(one.model(0).state_dict(), other.model(0).state_dict()) > 1e-3);
}

TEST_CASE("training: the same bits for one and three threads, and again") {
  VitOptions o = small();
  o.permute = PermuteMode::both;
  o.augment = true;
  o.clip = 1.0;
  std::vector<std::unique_ptr<VitTrainer>> runs;
  for (const int threads : {1, 3, 3}) {
    parallel::set_threads(threads);
    runs.push_back(std::make_unique<VitTrainer>(o));
    runs.back()->run();
  }
  parallel::set_threads(0);
  CHECK(same_weights(*runs[0], *runs[1]));
  CHECK(same_weights(*runs[0], *runs[2]));
}

TEST_CASE("training: an interrupted run goes on bit for bit") {
  const TemporaryFolder whole, parts;
  VitOptions o = small();
  o.permute = PermuteMode::both;
  o.twin = true;
  o.steps = 12; // crosses an epoch of 10 batches
  o.schedule = optim::Schedule::Kind::cosine;
  o.warmup = 2;
  o.augment = true;
  o.out = whole.path();
  VitTrainer straight(o);
  straight.run();

  o.out = parts.path();
  std::atomic<bool> stop = false;
  training::Callbacks callbacks;
  callbacks.step = [&](const training::Record& record) { stop = record.step == 5; };
  std::string text;
  {
    VitTrainer first(o);
    try {
      first.run(callbacks, &stop);
    } catch (const Interrupted& e) {
      text = e.what();
    }
    CHECK(first.step() == 5);
  }
  CHECK(text == "train: interrupted at step 5 of 12; checkpoint " + parts.path("checkpoints/step-00000005"));

  VitOptions again = options_of_run(parts.path());
  CHECK(again.resume == parts.path());
  CHECK(again.out == parts.path());
  VitTrainer second(again);
  CHECK(second.step() == 5);
  const training::Result result = second.run();
  CHECK(result.steps == 12);
  CHECK(same_weights(straight, second));
  CHECK(same_bits(data::load_safetensors(parts.path("model.safetensors")).tensors[3].second,
                  data::load_safetensors(whole.path("model.safetensors")).tensors[3].second));

  // One line a step and one for the test, as if nothing had happened.
  const Bytes bytes = read_file(parts.path("metrics.jsonl"));
  const std::string lines(bytes.begin(), bytes.end());
  std::int64_t expected = 1;
  std::size_t begin = 0;
  for (; expected <= 12; ++expected) {
    const std::size_t end = lines.find('\n', begin);
    const nlohmann::json line = nlohmann::json::parse(lines.substr(begin, end - begin));
    CHECK(line.at("step") == expected);
    for (const char* key : {"epoch", "loss", "accuracy", "lr", "images_per_s"}) CHECK(line.contains(key));
    begin = end + 1;
  }
  const nlohmann::json last = nlohmann::json::parse(lines.substr(begin));
  CHECK(last.at("split") == "test");
  CHECK(last.at("drift") < 1e-3);
  CHECK(read_json(parts.path("config.json")).at("permute") == "both");
  CHECK(file_exists(parts.path("model_none.safetensors")));
}

TEST_CASE("training: checkpoints are kept newest two, and what does not fit is refused") {
  const TemporaryFolder folder;
  VitOptions o = small();
  o.out = folder.path();
  o.checkpoint_every = 2;
  VitTrainer(o).run();
  const std::string root = folder.path("checkpoints/");
  CHECK(folder_exists(root + "step-00000008"));
  CHECK(folder_exists(root + "step-00000006"));
  CHECK_FALSE(folder_exists(root + "step-00000004"));

  VitOptions other = options_of_run(folder.path());
  other.batch = 4;
  other.optimizer = "adam";
  CHECK(message_of([&] { VitTrainer{other}; }) ==
        "train: " + root +
            "step-00000008 was made with other options: batch 8 (now 4), optimizer \"adamw\" (now \"adam\")");
  other = options_of_run(folder.path());
  other.bad_images = data::BadImages::skip; // the images themselves are compared
  CHECK(VitTrainer(other).step() == 8);
  other = options_of_run(folder.path());
  other.steps = 7;
  CHECK(message_of([&] { VitTrainer{other}; }) ==
        "train: " + root + "step-00000008 is at step 8, beyond the 7 steps asked for");

  const std::string model = root + "step-00000008/model.safetensors";
  Bytes bytes = read_file(model);
  bytes.resize(bytes.size() - 5);
  write_file(model, ByteView(bytes));
  other = options_of_run(folder.path());
  other.resume = root + "step-00000008"; // this one and no other
  CHECK(message_of<FileError>([&] { VitTrainer{other}; }).starts_with(model));
  CHECK_THROWS_AS(options_of_run(folder.path("nothing")), FileError);
  CHECK(message_of([&] {
          options_of_run(root + "step-00000008/..");
        }).find("is inside a run folder but is not a checkpoint") != std::string::npos);
}

TEST_CASE("training: a run does not go on with other images or other names of classes") {
  const TemporaryFolder folder;
  const auto images = [](std::uint8_t first, const char* name) {
    std::mt19937 random(3);
    Bytes pixels(40 * 3 * 16 * 16);
    for (std::uint8_t& p : pixels) p = static_cast<std::uint8_t>(random());
    pixels[0] = first;
    std::vector<std::int32_t> labels(40);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 2);
    return data::ImageDataset("drawn", 3, 16, 16, {"cat", name}, pixels, labels);
  };
  VitOptions o = small();
  o.out = folder.path();
  o.steps = 2;
  VitTrainer(o, images(1, "dog"), images(1, "dog")).run();
  VitOptions again = o;
  again.resume = o.out;
  again.steps = 4;
  for (const auto& other : {images(2, "dog"), images(1, "hen")})
    CHECK(message_of<ValueError>([&] {
            VitTrainer(again, other, other);
          }).find("was made from other data: 40 images") != std::string::npos);
  CHECK(message_of<ValueError>([&] {
          VitTrainer(again, images(1, "dog"), images(2, "dog"));
        }).find("was tested on other data: 40 images") != std::string::npos);
  VitTrainer same(again, images(1, "dog"), images(1, "dog"));
  CHECK(same.step() == 2);
}

TEST_CASE("training: a checkpoint that was taken out of its run is none of the folders around it") {
  const TemporaryFolder folder;
  VitOptions o = small();
  o.out = folder.path("run");
  VitTrainer(o).run();
  std::filesystem::create_directories(folder.path("home/models"));
  write_file(folder.path("home/config.json"), std::string_view("{\"mine\": 1}"));
  const std::string copy = folder.path("home/models/best");
  std::filesystem::copy(folder.path("run/checkpoints/step-00000008"), copy, std::filesystem::copy_options::recursive);
  VitOptions again = options_of_run(copy);
  CHECK(again.out.empty());
  again.steps = 10;
  again.out = folder.path("home"); // two folders above it, as a run's folder would be
  CHECK(message_of<ValueError>([&] { VitTrainer{again}; }) ==
        "train: " + folder.path("home/config.json") +
            " is no run's, and a run would write over it: give another --out");
  again.out = folder.path("further");
  VitTrainer(again).run();
  CHECK(file_exists(folder.path("further/model.safetensors")));
  CHECK(bytes_of(folder.path("home/config.json")) == "{\"mine\": 1}");
}

TEST_CASE("training: a file that is no run's is not written over") {
  const TemporaryFolder folder;
  VitOptions o = small();
  o.out = folder.path();
  for (const char* name : {"metrics.csv", "table.json", "config.json"}) {
    write_file(folder.path(name), std::string_view("text,label\n"));
    CHECK(message_of<ValueError>([&] { VitTrainer{o}; }).find(std::string(name) + " is no run's") != std::string::npos);
    std::filesystem::remove(folder.path(name));
  }
  const data::ImageDataset one("one", 3, 16, 16, {"cat"}, Bytes(4 * 3 * 256), std::vector<std::int32_t>(4));
  CHECK(message_of<ValueError>([&] { VitTrainer(o, one, one); }).find("there must be two classes") !=
        std::string::npos);
}

TEST_CASE("training: a damaged newest checkpoint is passed over with a word") {
  const TemporaryFolder folder;
  VitOptions o = small();
  o.out = folder.path("whole");
  VitTrainer whole(o);
  whole.run();
  o.out = folder.path("cut");
  o.checkpoint_every = 3; // leaves steps 6 and 8
  VitTrainer(o).run();
  const std::string root = folder.path("cut/checkpoints/");
  write_file(root + "step-00000008/model.safetensors", std::string_view("no"));
  for (const char* what : {"weights", "gone", "state", "pointer"}) {
    CAPTURE(what);
    if (what == std::string("gone")) std::filesystem::remove(root + "step-00000008/state.json");
    if (what == std::string("state")) write_file(root + "step-00000008/state.json", std::string_view("{"));
    // As a process leaves it that was killed while it exchanged two checkpoints of one step.
    if (what == std::string("pointer")) std::filesystem::rename(root + "step-00000008", root + ".step-00000008.tmp-1");
    VitTrainer again(options_of_run(o.out));
    CHECK(again.step() == 6);
    const std::vector<std::string> notes = notes_of(again);
    REQUIRE(notes.size() == (what == std::string("pointer") ? 0 : 1));
    if (!notes.empty()) {
      CHECK(notes[0].starts_with("damaged: " + root + "step-00000008/"));
      CHECK(notes[0].ends_with("; going on from " + root + "step-00000006 (step 6)"));
    }
    while (again.step() < 8) again.train_step();
    CHECK(same_weights(whole, again));
  }
  for (const std::string name : {"step-00000006", "step-00000008"}) {
    std::filesystem::create_directories(root + name);
    write_file(root + name + "/state.json", std::string_view("{"));
  }
  const std::string all = message_of<FileError>([&] { options_of_run(o.out); });
  CHECK(all.starts_with(root + "step-00000008/state.json: "));
  CHECK(all.ends_with("; damaged like 1 checkpoint before it"));
  std::filesystem::remove_all(folder.path("cut/checkpoints"));
  CHECK(message_of<FileError>([&] { options_of_run(o.out); }) ==
        o.out +
            ": a run without a checkpoint, which it has not yet made, or ended before; its command can be given again");
}

TEST_CASE("training: a folder that holds a run is not overwritten unasked") {
  const TemporaryFolder folder;
  VitOptions o = small();
  o.out = folder.path();
  VitTrainer(o).run();
  const Bytes before = read_file(folder.path("model.safetensors"));
  o.seed = 6;
  o.steps = 4;
  const std::string refusal = "train: " + folder.path() +
                              " already holds a run (step 8): give another --out, or --resume " + folder.path() +
                              " to go on, or --overwrite";
  CHECK(message_of<ValueError>([&] { VitTrainer{o}; }) == refusal);
  CHECK(read_file(folder.path("model.safetensors")) == before);
  VitOptions elsewhere = options_of_run(folder.path());
  elsewhere.out = folder.path("second");
  VitTrainer(elsewhere).run();
  elsewhere.out = folder.path();
  VitTrainer(elsewhere).run(); // goes on in place
  elsewhere.resume = folder.path("second/checkpoints/step-00000008");
  CHECK(message_of<ValueError>([&] { VitTrainer{elsewhere}; }) == refusal);

  write_file(folder.path("third/model.safetensors", true), ByteView(before)); // somebody's model
  elsewhere.out = folder.path("third");
  CHECK_THROWS_AS(VitTrainer{elsewhere}, ValueError);

  write_file(folder.path("notes.txt"), std::string_view("mine"));
  o.overwrite = true;
  auto overwriting = std::make_unique<VitTrainer>(o);
  VitTrainer& trainer = *overwriting;
  const std::vector<std::string> notes = notes_of(trainer);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] == folder.path() + " already holds a run (step 8), which is overwritten");
  CHECK(read_file(folder.path("model.safetensors")) == before); // until the first step
  std::atomic<bool> stop = true;
  CHECK_THROWS_AS(trainer.run({}, &stop), Interrupted);
  CHECK_FALSE(folder_exists(folder.path("checkpoints/step-00000008")));
  CHECK(file_exists(folder.path("notes.txt")));
  overwriting.reset();
  const VitOptions again = options_of_run(folder.path());
  CHECK(again.seed == 6);
  CHECK_FALSE(again.overwrite);
  CHECK(VitTrainer(again).step() == 0);
}

TEST_CASE("training: between steps the models are in evaluation, after a step or a test that failed too") {
  VitTrainer trainer(small());
  CHECK_FALSE(trainer.model(0).training());
  trainer.train_step();
  CHECK_FALSE(trainer.model(0).training());
  const std::size_t limit = allocator::limit();
  allocator::set_limit(allocator::stats().live_bytes + 1000);
  CHECK_THROWS_AS(trainer.test(), MemoryError);
  CHECK_THROWS_AS(trainer.train_step(), MemoryError);
  allocator::set_limit(limit);
  CHECK_FALSE(trainer.model(0).training());
  // The step that failed learns from its own images when it is tried again.
  VitTrainer other(small());
  for (VitTrainer* one : {&trainer, &other})
    while (one->step() < 4) one->train_step();
  CHECK(same_weights(trainer, other));
}

TEST_CASE("training: the embeddings' dropout is drawn from each step's key") {
  nn::VitConfig config = small().model;
  config.image = 16;
  config.channels = 3;
  config.classes = 2;
  config.embedding_dropout = 0.5;
  nn::Vit model(config, RandomKey{5, 0});
  model.train();
  const Tensor images = random_normal({2, 3, 16, 16}, {7, 0});
  const RandomKey one{8, 1}, two{8, 2};
  const Tensor first = permuted_logits(model, images, {}, nullptr, one);
  CHECK(relative_error(first, permuted_logits(model, images, {}, nullptr, two)) > 1e-3);
  CHECK(same_bits(first, model(images, one)));
}

TEST_CASE("training: permutations from a secret key; a checkpoint asks for the same key and does not hold it") {
  const TemporaryFolder folder;
  const std::string key = folder.path("a.key"), other = folder.path("b.key");
  SecretKey::generate().save(key);
  SecretKey::generate().save(other);
  VitOptions o = small();
  o.dtype = DType::f64;
  o.permute = PermuteMode::both;
  o.twin = true;
  o.key = key;
  o.out = folder.path("run");
  CHECK(VitTrainer(o).run().test.drift < 1e-11);
  VitOptions again = options_of_run(o.out);
  CHECK(VitTrainer(again).step() == 8);
  again.key = other;
  CHECK(message_of([&] { VitTrainer{again}; }).find("another secret key") != std::string::npos);
  again.key.clear();
  CHECK(message_of([&] { VitTrainer{again}; }).find("another secret key") != std::string::npos);
  const nlohmann::json state = read_json(o.out + "/checkpoints/step-00000008/state.json");
  CHECK(state.at("key_fingerprint") == SecretKey::load(key).fingerprint());
}

TEST_CASE("training: anomalies are told with their place") {
  VitOptions o = small();
  o.detect_anomaly = true;
  o.lr = 1e30;
  o.optimizer = "sgd";
  VitTrainer trainer(o);
  const std::string text = message_of([&] {
    for (int i = 0; i < 8; ++i) trainer.train_step();
  });
  CAPTURE(text);
  CHECK(text.starts_with("anomaly: "));
  CHECK(text.find("(at ") != std::string::npos);
  CHECK(text.find("input ") != std::string::npos);
}
