// Options of the trainer: to JSON and back, and what is refused.

#include "core/base/bytes.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "training/vit_trainer.h"
#include "unit/training_small_run.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace eg;
using namespace eg::permute;
using namespace eg::test;
using namespace eg::training;

TEST_CASE("training: options to JSON and back, and every mistake by name") {
  VitOptions o = small();
  o.variants = {PermuteMode::none, PermuteMode::both};
  o.model.pooling = nn::Pooling::mean;
  o.model.encoder.activation = nn::Activation::silu;
  VitOptions back;
  apply_options(back, nlohmann::json::parse(options_json(o).dump()), "file");
  CHECK(options_json(back) == options_json(o));

  const auto refused = [](const char* text) {
    VitOptions options;
    return message_of([&] { apply_options(options, nlohmann::json::parse(text), "run.json"); });
  };
  CHECK(refused(R"({"batch": "8"})") == "run.json: 'batch' must be a whole number, not \"8\"");
  CHECK(refused(R"({"batch": 8.5})") == "run.json: 'batch' must be a whole number, not 8.5");
  CHECK(refused(R"({"permute": "all"})") == "run.json: permute: 'all' is not one of none, rows, columns, both");
  CHECK(refused(R"({"batches": 8})").starts_with("run.json: unknown option 'batches'; did you mean batch?"));
  CHECK(refused("[1]") == "run.json: options must be a JSON object");

  const auto wrong = [](auto change) {
    VitOptions options = small();
    change(options);
    return message_of([&] { VitTrainer{options}; });
  };
  CHECK(wrong([](VitOptions& t) { t.batch = 0; }) == "train: batch must be positive, not 0");
  CHECK(wrong([](VitOptions& t) { t.batch = std::int64_t{1} << 40; }) ==
        "train: batch must be at most 4194304, not 1099511627776");
  CHECK(wrong([](VitOptions& t) {
          t.steps = 0;
          t.epochs = std::numeric_limits<std::int64_t>::max();
        }) == "train: epochs must be at most 16777216, not 9223372036854775807");
  CHECK(wrong([](VitOptions& t) {
          t.model.encoder.dim = 3'000'000'000;
          t.model.encoder.heads = 1;
        }) == "encoder: dim must be at most 1048576, not 3000000000");
  CHECK(wrong([](VitOptions& t) {
          t.model.encoder = {.dim = 1 << 20, .heads = 1 << 12, .head_dim = 1 << 20, .mlp = 1 << 20};
          t.model.layers = 1 << 16;
        }).find("no batch would fit") != std::string::npos);
  CHECK(wrong([](VitOptions& t) { t.steps = 0; }) == "train: steps or epochs must be given");
  CHECK(wrong([](VitOptions& t) { t.epochs = 1; }) == "train: steps and epochs cannot both be given");
  CHECK(wrong([](VitOptions& t) { t.lr = 0; }) == "train: lr must be positive, not 0");
  CHECK(wrong([](VitOptions& t) { t.twin = true; }) == "train: twin needs a permutation to compare with: give permute");
  CHECK(wrong([](VitOptions& t) { t.key = "k"; }) == "train: key is given, but nothing is permuted");
  CHECK(wrong([](VitOptions& t) { t.optimizer = "adagrad"; }) ==
        "optimizer: 'adagrad' is not one of sgd, momentum, nesterov, adam, adamw, rmsprop, lion, adafactor, muon");
  CHECK(wrong([](VitOptions& t) { t.drop_factor = 0.0; }) == "train: drop_factor must be in (0, 1], not 0");
  CHECK(wrong([](VitOptions& t) { t.drop_every = -1; }) == "train: drop_every must not be negative, not -1");
  const auto of_warmup = [](std::int64_t warmup, std::int64_t steps) {
    RunOptions options;
    options.warmup = warmup, options.steps = steps;
    return message_of([&] { require_warmup_in_run(options); });
  };
  CHECK(of_warmup(5, 3) == "train: warmup is 5, and the run has 3 steps: the learning rate would never reach lr");
  CHECK(of_warmup(3, 3) == "");
  CHECK(of_warmup(5, 0) == ""); // epochs are given
  CHECK(wrong([](VitOptions& t) { t.model.patch = 5; }) == "vit: patch 5 does not divide image 16");
  CHECK(wrong([](VitOptions& t) { t.checkpoint_every = 2; }) == "train: checkpoint_every needs a run folder: give out");
  CHECK(wrong([](VitOptions& t) {
          t.permute = PermuteMode::rows;
          t.model.patch = 16;
          t.model.pooling = nn::Pooling::mean;
        }) == "train: one token cannot be permuted; use a smaller patch or no row permutation");
  CHECK(wrong([](VitOptions& t) {
          t.permute = PermuteMode::rows;
          t.twin = true;
          t.model.encoder.dropout = 0.1;
        }).starts_with("train: dropout must be 0 for twins"));
}

TEST_CASE("training: a folder whose splits have different classes is refused with the first difference") {
  const TemporaryFolder folder;
  const data::Image image{8, 8, 3, std::vector<std::uint8_t>(192, 7)};
  for (const char* name : {"train/a/1.png", "train/b/1.png", "train/c/1.png", "test/a/1.png", "test/b/1.png"})
    write_file(folder.path(name, true), data::encode_png(image));
  VitOptions o = small();
  o.data = folder.path();
  o.batch = 1;
  o.size = 0;
  const std::string begin = "train: training and test images of '" + folder.path() + "' have different classes: ";
  CHECK(message_of([&] { VitTrainer{o}; }) == begin + "class 2 is 'c' for training and missing for testing");
  write_file(folder.path("test/d/1.png", true), data::encode_png(image));
  CHECK(message_of([&] { VitTrainer{o}; }) == begin + "class 2 is 'c' for training and 'd' for testing");
}
