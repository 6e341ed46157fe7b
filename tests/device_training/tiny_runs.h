#pragma once
// Lists runs of a few steps of every trainer, on data that are generated here.

#include "core/base/bytes.h"
#include "core/random.h"
#include "data/text/tokenizer_building.h"
#include "nn/hub/model.h"
#include "support/temporary_folder.h"
#include "training/checkpoint.h"
#include "training/language/classify.h"
#include "training/language/difm_task.h"
#include "training/language/language.h"
#include "training/language/text_files.h"
#include "training/vit_trainer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <memory>
#include <string>
#include <string_view>

namespace eg::test {

/// What all of them share; the device is named, so that EQUIGRAD_DEVICE does not count.
template <class Options> Options tiny_run(Options o) {
  o.steps = 20;
  o.batch = 8;
  o.lr = 1e-2;
  o.warmup = 2;
  o.weight_decay = 0.05;
  o.seed = 5;
  o.device = "cpu";
  return o;
}

inline training::VitOptions tiny_vit() {
  training::VitOptions o = tiny_run(training::VitOptions());
  o.data = "shapes";
  o.size = 16;
  o.train_limit = 80;
  o.test_limit = 20;
  o.model.patch = 4;
  o.model.layers = 2;
  o.model.encoder = {.dim = 12, .heads = 3, .head_dim = 5, .mlp = 20};
  o.lr = 3e-2;
  o.workers = 0;
  return o;
}

/// A text of sums in words.
inline std::string tiny_text(const TemporaryFolder& folder) {
  constexpr std::array digits = {"zero", "one", "two", "three", "four"};
  std::string text;
  for (std::size_t i = 0; i < 120; ++i) {
    const std::size_t a = i * 7 % 5, b = i * 3 % 4;
    text += fmt::format("{} plus {} is {} .\n", digits[a], digits[b], digits[(a + b) % 5]);
  }
  write_file(folder.path("sums.txt"), std::string_view(text));
  return folder.path("sums.txt");
}

/// Texts of several lengths, so that batches have padding.
inline training::ClassifyOptions tiny_bert(const TemporaryFolder& folder, training::BertTask task) {
  training::ClassifyOptions o = tiny_run(training::ClassifyOptions());
  o.task = task;
  if (task == training::BertTask::mlm) {
    o.data = tiny_text(folder);
  } else {
    std::string rows = "label\ttext\n";
    for (int i = 0; i < 80; ++i) {
      rows += i % 2 == 0 ? "bad\tthe dull" : "good\tthe lovely";
      for (int j = 0; j < i % 5; ++j) rows += fmt::format(" story {}", i % 7);
      rows += "\n";
    }
    o.lr = 3e-2;
    o.data = folder.path("reviews.tsv");
    write_file(o.data, std::string_view(rows));
  }
  o.held_out = 0.2;
  o.vocabulary = 60;
  o.context = 12;
  o.dim = 12;
  o.layers = 2;
  o.heads = 3;
  o.mlp = 20;
  o.dropout = 0.0;
  return o;
}

/// GPT-2 has a tied head; Llama has a head of its own, and two query heads for each head of keys and values.
inline training::LanguageOptions tiny_decoder(const TemporaryFolder& folder, training::LanguageModel model) {
  training::LanguageOptions o = tiny_run(training::language_defaults(model));
  o.data = tiny_text(folder);
  o.context = 12;
  o.dim = 16;
  o.layers = 2;
  o.heads = 4;
  o.mlp = 24;
  o.batch = 4;
  o.tied = model == training::LanguageModel::gpt2;
  if (model == training::LanguageModel::llama) o.kv_heads = 2;
  return o;
}

/// A Llama whose heads are 6 wide where dim / heads is 4, which only a model folder can ask for.
inline training::LanguageOptions tiny_llama_of_wide_heads(const TemporaryFolder& folder) {
  training::LanguageOptions o = tiny_decoder(folder, training::LanguageModel::llama);
  const Bytes text = read_file(o.data);
  const auto tokenizer =
      training::KeptTokenizer::made(data::character_tokenizer(std::string(text.begin(), text.end())), "{}", "the text");
  nlohmann::json config = training::model_config(o, tokenizer.tokenizer());
  config["head_dim"] = 6;
  o.start.from = folder.path("wide heads");
  training::make_folder(o.start.from);
  training::save_text_model(*hub::make_model(config, {11, 0}), tokenizer, o.start.from);
  return o;
}

/// Rows whose label says whether two categories agree. The bit-wise part has two layers.
inline training::DifmOptions tiny_difm(const TemporaryFolder& folder) {
  std::string rows = "a,b,label,c,x,y\n";
  RandomStream random({3, 1});
  for (int i = 0; i < 120; ++i) {
    const auto a = random.below(3), b = random.below(3);
    rows += fmt::format("a{},b{},{},c{},{:.3f},{}\n", a, b, a == b ? 1 : 0, random.below(4), random.normal(),
                        random.below(5) == 0 ? "" : fmt::format("{:.2f}", random.uniform(0.0, 90.0)));
  }
  training::DifmOptions o = tiny_run(training::DifmOptions());
  o.data = folder.path("pairs.csv");
  write_file(o.data, std::string_view(rows));
  o.table.held_out = 0.3;
  o.dim = 4;
  o.heads = 2;
  o.head_dim = 3;
  o.hidden = "8,6";
  o.lr = 5e-2;
  return o;
}

/// The trainer of a run of such options.
inline std::unique_ptr<training::Trainer> trainer_of(const training::VitOptions& o) {
  return std::make_unique<training::VitTrainer>(o);
}
inline std::unique_ptr<training::Trainer> trainer_of(const training::ClassifyOptions& o) {
  return training::bert_trainer(o);
}
inline std::unique_ptr<training::Trainer> trainer_of(const training::LanguageOptions& o) {
  return training::language_trainer(o);
}
inline std::unique_ptr<training::Trainer> trainer_of(const training::DifmOptions& o) {
  return training::difm_trainer(o);
}

} // namespace eg::test
