// Vision transformers that begin from a model: what is read and left, permuted or not, and teachers.

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "nn/hub/folder.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "training/vision_model.h"
#include "training/vit_trainer.h"
#include "unit/training_small_run.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>

using namespace eg;
using namespace eg::permute;
using namespace eg::test;
using namespace eg::training;

namespace {

/// small() with heads that share dim evenly, so that transformers has such a model.
VitOptions usual(const std::string& out) {
  VitOptions o = small();
  o.model.encoder.head_dim = 0;
  o.out = out;
  return o;
}

VitOptions tuned(const std::string& from, const std::string& out) {
  VitOptions o = small();
  o.model.encoder = {}; // the model's own sizes count
  o.start.from = from;
  o.out = out;
  return o;
}

std::string bytes_of(const std::string& path) {
  const Bytes bytes = read_file(path);
  return {bytes.begin(), bytes.end()};
}

Tensor parameter(const VitTrainer& trainer, const std::string& name, std::size_t variant = 0) {
  for (const nn::Parameter& p : trainer.model(variant).named_parameters())
    if (p.name == name) return p.value;
  FAIL(name);
  return {};
}

} // namespace

TEST_CASE("vision fine-tuning: a run leaves a folder that computes what it computed") {
  const TemporaryFolder folder;
  for (const bool deit : {false, true}) {
    VitOptions o = usual(folder.path(deit ? "deit" : "vit"));
    o.model.distillation = deit;
    VitTrainer trainer(o);
    trainer.run();
    const hub::LoadedModel loaded = hub::load_model(o.out + "/model");
    CHECK(loaded.model->architecture() ==
          (deit ? "DeiTForImageClassificationWithTeacher" : "ViTForImageClassification"));
    CHECK(loaded.model->config()["id2label"]["0"] == trainer.test_data().class_names()[0]);
    CHECK(read_json(o.out + "/model/preprocessor_config.json")["image_mean"][0] == 0.5);
    const Tensor images = random_normal({3, 3, 16, 16}, {1, 1});
    const Tensor logits = hub::find(loaded.model->forward({{"pixel_values", images}}), "logits");
    CHECK(relative_error(logits, trainer.model(0)(images)) < 1e-6);
  }
  VitOptions mean = usual(folder.path("mean"));
  mean.model.pooling = nn::Pooling::mean;
  VitTrainer trainer(mean);
  CHECK(trainer.notes().empty());
  trainer.run();
  const hub::LoadedModel loaded = hub::load_model(mean.out + "/model"); // timm's
  CHECK(loaded.model->family() == "timm");
  const Tensor images = random_normal({3, 3, 16, 16}, {1, 1});
  CHECK(relative_error(hub::find(loaded.model->forward({{"pixel_values", images}}), "logits"),
                       trainer.model(0)(images)) < 1e-6);
  VitOptions none = usual(folder.path("none"));
  none.model.position = nn::PositionEmbedding::none;
  VitTrainer without(none);
  REQUIRE(without.notes().size() == 1);
  CHECK(without.notes().front().find("will leave no model folder") != std::string::npos);
  without.run();
  CHECK_FALSE(folder_exists(none.out + "/model"));
}

TEST_CASE("vision fine-tuning: a run begins from another one, exactly resumed, with frozen parts") {
  const TemporaryFolder folder;
  VitTrainer first(usual(folder.path("first")));
  first.run();
  VitOptions o = tuned(folder.path("first"), folder.path("second"));
  o.start.freeze = "patch_embedding.*,blocks.0.*";
  {
    VitTrainer second(o);
    CHECK(second.options().model.encoder.dim == 12);
    CHECK(relative_error(parameter(second, "classifier.weight"), parameter(first, "classifier.weight")) == 0.0);
    second.run();
    CHECK(relative_error(parameter(second, "blocks.0.mlp.fc1.weight"), parameter(first, "blocks.0.mlp.fc1.weight")) ==
          0.0);
    CHECK(relative_error(parameter(second, "blocks.1.mlp.fc1.weight"), parameter(first, "blocks.1.mlp.fc1.weight")) >
          0.0);
  }
  CHECK(read_json(o.out + "/config.json")["heads"] == 3);
  const std::string whole = bytes_of(o.out + "/model.safetensors");
  o.out = folder.path("cut");
  std::atomic<bool> stop = false;
  training::Callbacks callbacks;
  callbacks.step = [&](const training::Record& r) { stop = r.step == 3; };
  CHECK_THROWS_AS(VitTrainer(o).run(callbacks, &stop), Interrupted);
  VitTrainer(options_of_run(o.out)).run();
  CHECK(bytes_of(o.out + "/model.safetensors") == whole);
}

TEST_CASE("vision fine-tuning: other classes get a fresh head, larger images other positions") {
  const TemporaryFolder folder;
  VitTrainer first(usual(folder.path("first")));
  first.run();
  // The same folder with two classes.
  const std::string two = folder.path("first/model");
  nlohmann::json config = read_json(two + "/config.json");
  VitOptions o = tuned(two, folder.path("larger"));
  o.size = 24;
  VitTrainer larger(o);
  CHECK(parameter(larger, "position_embedding").shape() == Shape{1, 37, 12});
  CHECK(relative_error(parameter(larger, "blocks.1.norm1.weight"), parameter(first, "blocks.1.norm1.weight")) == 0.0);
  o = tuned(two, folder.path("fresh"));
  o.start.fresh = "classifier.*";
  VitTrainer fresh(o);
  CHECK(relative_error(parameter(fresh, "classifier.weight"), parameter(first, "classifier.weight")) > 0.1);
  o.start.fresh = o.out = "";
  o.size = 18; // patches of 4 do not divide it
  CHECK(message_of([&] { VitTrainer{o}; }).find("do not divide images of 18 x 18") != std::string::npos);
  config["num_channels"] = 1;
  write_json(two + "/config.json", config);
  CHECK(message_of([&] { VitTrainer{tuned(two, "")}; }).find("takes images of 1 channels, these have 3") !=
        std::string::npos);
  CHECK(message_of<ValueError>([&] {
          VitOptions deit = deit_defaults();
          deit.data = "shapes";
          deit.steps = 1;
          deit.start.from = two;
          VitTrainer{deit};
        }).ends_with("holds a model of type 'vit'; `train deit` goes on from 'deit'"));
}

TEST_CASE("vision fine-tuning: who has the key trains as if nothing were permuted, who has not does not") {
  const TemporaryFolder folder;
  VitOptions o = usual(folder.path("plain"));
  o.dtype = DType::f64;
  VitTrainer(o).run();

  // The owner goes on from the plain model, plain and permuted side by side.
  o = tuned(folder.path("plain"), folder.path("owner"));
  o.dtype = DType::f64;
  o.permute = PermuteMode::both;
  o.twin = true;
  VitTrainer owner(o);
  const training::Result authorised = owner.run();
  CHECK(authorised.test.variants[1].drift < 1e-10);
  CHECK(authorised.test.variants[1].drift > 0.0);
  CHECK(authorised.test.variants[0].loss == doctest::Approx(authorised.test.variants[1].loss).epsilon(1e-10));

  // The permuted model that came out, again with the key: nothing is moved a second time.
  VitOptions again = tuned(folder.path("owner"), folder.path("again"));
  again.dtype = DType::f64;
  again.permute = PermuteMode::columns;
  again.twin = true;
  again.from_permuted = true;
  VitTrainer keyed(again);
  CHECK(relative_error(parameter(keyed, "blocks.0.mlp.fc1.weight", 1),
                       parameter(owner, "blocks.0.mlp.fc1.weight", 1)) == 0.0);
  CHECK(relative_error(parameter(keyed, "blocks.0.mlp.fc1.weight", 0), parameter(owner, "blocks.0.mlp.fc1.weight", 0)) <
        1e-10);
  const double loss = keyed.test().variants[1].loss;
  CHECK(loss == doctest::Approx(authorised.test.variants[1].loss).epsilon(1e-10));

  // The same folder without the key is another function.
  VitOptions thief = tuned(folder.path("owner"), "");
  thief.dtype = DType::f64;
  VitTrainer unauthorised(thief);
  CHECK(std::abs(unauthorised.test().variants[0].loss - loss) > 1e-4);
  thief.from_permuted = true;
  CHECK(message_of([&] { VitTrainer{thief}; }) == "train: from_permuted is given, but no columns are permuted");
}

TEST_CASE("distillation: the second token learns what the teacher says") {
  const TemporaryFolder folder;
  VitOptions o = usual(folder.path("teacher"));
  o.model.distillation = false;
  VitTrainer teacher(o);
  teacher.run();
  const ImageKind kind{.side = 16, .channels = 3, .classes = teacher.train_data().class_names()};
  const Tensor images = random_normal({5, 3, 16, 16}, {1, 1});
  const std::vector<std::int64_t> said = argmax(teacher.model(0)(images), -1).to_vector<std::int64_t>();
  const data::Normalization half = data::Normalization::half(3);
  CHECK(Teacher(o.out, kind, half, DType::f32).classes(images).to_vector<std::int64_t>() == said);
  // Pixels normalised in another way mean the same image.
  data::Normalization other{{0.4, 0.5, 0.6}, {0.2, 0.25, 0.3}};
  const Tensor pixels = images * 0.5 + 0.5; // in [0, 1]
  std::vector<Tensor> channels;
  for (std::int64_t c = 0; c < 3; ++c)
    channels.push_back((pixels.slice(1, c, c + 1) - other.mean[static_cast<std::size_t>(c)]) *
                       (1.0 / other.stddev[static_cast<std::size_t>(c)]));
  CHECK(Teacher(o.out, kind, other, DType::f32).classes(concat(channels, 1)).to_vector<std::int64_t>() == said);

  // The teacher's classes move the distillation classifier elsewhere than labels do; the rest of a step is the same.
  std::vector<Tensor> after;
  for (const bool taught : {false, true}) {
    VitOptions student = usual(folder.path(taught ? "taught" : "plain"));
    student.model.distillation = true;
    if (taught) student.teacher = folder.path("teacher");
    student.steps = 1;
    VitTrainer trainer(student);
    trainer.train_step();
    after.push_back(parameter(trainer, "distillation_classifier.weight").clone());
    after.push_back(parameter(trainer, "classifier.weight").clone());
  }
  CHECK(relative_error(after[0], after[2]) > 1e-3);
  CHECK(relative_error(after[1], after[3]) == 0.0);

  ImageKind turned = kind; // the same classes in another order would teach the wrong ones
  std::swap(turned.classes[0], turned.classes[1]);
  CHECK(message_of<ValueError>([&] {
          Teacher(o.out, turned, half, DType::f32);
        }).find("it must have the same classes in the same order") != std::string::npos);
  ImageKind fewer = kind;
  fewer.classes.pop_back();
  CHECK(message_of([&] {
          Teacher(o.out, fewer, half, DType::f32);
        }).ends_with("of 10 classes, and not a classifier of 9"));
}

TEST_CASE("distillation: model and teacher of a run may move before it goes on, not change") {
  const TemporaryFolder folder;
  for (const std::uint64_t seed : {1, 2}) {
    VitOptions teacher = usual(folder.path(fmt::format("teacher{}", seed)));
    teacher.seed = seed;
    VitTrainer(teacher).run();
  }
  VitOptions first = usual(folder.path("first"));
  first.model.distillation = true;
  VitTrainer(first).run();
  VitOptions o = tuned(folder.path("first"), folder.path("whole"));
  o.model.distillation = true;
  o.teacher = folder.path("teacher1");
  VitTrainer(o).run();
  o.out = folder.path("cut");
  std::atomic<bool> stop = false;
  training::Callbacks callbacks;
  callbacks.step = [&](const training::Record& r) { stop = r.step == 3; };
  CHECK_THROWS_AS(VitTrainer(o).run(callbacks, &stop), Interrupted);

  std::filesystem::rename(folder.path("first"), folder.path("moved"));
  VitOptions again = options_of_run(o.out, deit_defaults());
  again.start.from = folder.path("moved");
  again.teacher = folder.path("teacher2");
  CHECK(message_of<ValueError>([&] { VitTrainer{again}; }).find("was made with another teacher: ") !=
        std::string::npos);
  std::filesystem::rename(folder.path("teacher1"), folder.path("moved-teacher"));
  again.teacher = folder.path("moved-teacher");
  const std::string pixels = folder.path("moved/model/preprocessor_config.json"), kept = bytes_of(pixels);
  nlohmann::json other = read_json(pixels);
  other["image_std"][0] = 0.25;
  write_json(pixels, other);
  CHECK(message_of<ValueError>([&] { VitTrainer{again}; }).find("was made with images normalised in another way: ") !=
        std::string::npos);
  write_file(pixels, std::string_view(kept));
  VitTrainer(again).run();
  CHECK(bytes_of(o.out + "/model.safetensors") == bytes_of(folder.path("whole/model.safetensors")));
}

TEST_CASE("distillation: a run that is cut ends in the same bytes, permuted too") {
  const TemporaryFolder folder;
  VitOptions o = usual(folder.path("whole"));
  o.model.distillation = true;
  o.permute = PermuteMode::both;
  o.twin = true;
  o.dtype = DType::f64;
  VitTrainer trainer(o);
  CHECK(trainer.run().test.variants[1].drift < 1e-10);
  o.out = folder.path("cut");
  std::atomic<bool> stop = false;
  training::Callbacks callbacks;
  callbacks.step = [&](const training::Record& r) { stop = r.step == 5; };
  CHECK_THROWS_AS(VitTrainer(o).run(callbacks, &stop), Interrupted);
  CHECK(message_of([&] { options_of_run(o.out); }).find("is a run of `train deit`, not of `train vit`") !=
        std::string::npos);
  VitTrainer(options_of_run(o.out, deit_defaults())).run();
  CHECK(bytes_of(o.out + "/model.safetensors") == bytes_of(folder.path("whole/model.safetensors")));
}
