#include "nn/hub/folder.h"

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/json.h"
#include "core/ops.h"
#include "data/safetensors.h"
#include "nn/decoder.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace eg;
using nlohmann::json;
using test::TemporaryFolder;

namespace {

json bert_config(const char* architecture = "BertForMaskedLM") {
  return {{"model_type", "bert"},   {"architectures", {architecture}}, {"vocab_size", 20},
          {"hidden_size", 12},      {"num_hidden_layers", 1},          {"num_attention_heads", 3},
          {"intermediate_size", 8}, {"max_position_embeddings", 6}};
}

json vit_config() {
  return {{"model_type", "vit"},      {"architectures", {"ViTForImageClassification"}},
          {"hidden_size", 8},         {"num_hidden_layers", 1},
          {"num_attention_heads", 2}, {"intermediate_size", 8},
          {"image_size", {8, 12}},    {"patch_size", 4},
          {"num_labels", 3}};
}

/// Writes the folder of a model after `change` had its tensors.
template <class Change>
std::unique_ptr<hub::Model> written(const TemporaryFolder& folder, const json& config, Change&& change) {
  auto model = hub::make_model(config, {7, 0});
  hub::Tensors state = model->state();
  change(state);
  write_json(folder.path("config.json"), config);
  data::save_safetensors(folder.path("model.safetensors"), state);
  return model;
}

void rename(hub::Tensors& state, const std::string& from, const std::string& to) {
  for (auto& [name, tensor] : state)
    for (std::size_t at = name.find(from); at != std::string::npos; at = name.find(from, at + to.size()))
      name.replace(at, from.size(), to);
}

Tensor& tensor(hub::Tensors& state, std::string_view name) {
  for (auto& [own, value] : state)
    if (own == name) return value;
  throw ValueError("no such tensor");
}

std::string refusal(const TemporaryFolder& folder, const hub::LoadModelOptions& options = {}) {
  try {
    hub::load_model(folder.path(), options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string config_refusal(json config, const char* field, const json& value) {
  config[field] = value;
  try {
    hub::make_model(config, {});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void check_same_weights(const hub::Model& a, const hub::Model& b) {
  const hub::Tensors x = a.state(), y = b.state();
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) CHECK_MESSAGE(same_bits(x[i].second, y[i].second), x[i].first);
}

} // namespace

TEST_CASE("reading a folder can be stopped before each of its tensors") {
  const TemporaryFolder folder;
  const auto model = written(folder, bert_config(), [](hub::Tensors&) {});
  struct Stop {};
  int asked = 0, last = 0;
  const auto check = [&] {
    if (++asked == last) throw Stop{};
  };
  const InterruptScope scope(check);
  hub::load_model(folder.path());
  CHECK(asked >= static_cast<int>(model->bindings().size()));
  last = asked;
  asked = 0;
  CHECK_THROWS_AS(hub::load_model(folder.path()), Stop);
}

TEST_CASE("older names are found: gamma and beta, with and without the base model's prefix") {
  const TemporaryFolder folder;
  const auto model = written(folder, bert_config(), [](hub::Tensors& state) {
    rename(state, "LayerNorm.weight", "LayerNorm.gamma");
    rename(state, "LayerNorm.bias", "LayerNorm.beta");
    rename(state, "bert.", "");
    state.emplace_back("embeddings.position_ids", Tensor::arange(6));
    state.emplace_back("cls.predictions.decoder.weight", tensor(state, "embeddings.word_embeddings.weight"));
    state.emplace_back("cls.seq_relationship.weight", Tensor::ones({2, 12}));
    state.emplace_back("pooler.dense.weight", Tensor::ones({12, 12}));
  });
  const hub::LoadedModel loaded = hub::load_model(folder.path());
  check_same_weights(*model, *loaded.model);
  CHECK(loaded.report.unused.size() == 4);
  CHECK(!loaded.report.renamed.empty());
  CHECK(!loaded.model->module().training());

  const TemporaryFolder base;
  const auto bert = written(base, bert_config("BertModel"), [](hub::Tensors& state) {
    for (auto& [name, value] : state) name.insert(0, "bert.");
  });
  check_same_weights(*bert, *hub::load_model(base.path()).model);
}

TEST_CASE("what is missing, unexpected or of another shape is refused by name") {
  const TemporaryFolder folder;
  written(folder, bert_config(), [](hub::Tensors& state) {
    rename(state, "attention.self.query.weight", "attention.self.qury.weight");
    Tensor& dense = tensor(state, "bert.encoder.layer.0.intermediate.dense.weight");
    dense = dense.transpose(0, 1);
  });
  const std::string words = refusal(folder);
  CHECK(words.starts_with(folder.path()));
  CHECK(words.find('\n') == std::string::npos);
  CHECK(words.find("1 tensor is missing: bert.encoder.layer.0.attention.self.query.weight") != std::string::npos);
  CHECK(words.find("qury.weight; did you mean bert.encoder.layer.0.attention.self.query.weight?") != std::string::npos);
  CHECK(words.find("is [12, 8], the model's is [8, 12] (transposed?)") != std::string::npos);
  const hub::ModelSummary summary = hub::examine_model(folder.path());
  CHECK(summary.architecture == "BertForMaskedLM");
  CHECK(!summary.report.complete());
  CHECK(words == summary.report.path + ": " + summary.report.summary());
}

TEST_CASE("a config that asks for more than the files hold takes no memory") {
  const TemporaryFolder folder;
  written(folder, bert_config(), [](hub::Tensors&) {});
  for (const char* field : {"vocab_size", "intermediate_size"}) {
    json config = bert_config();
    config["num_hidden_layers"] = 20;
    config[field] = 1 << 20;
    config["hidden_size"] = 96;
    write_json(folder.path("config.json"), config);
    CHECK(refusal(folder).find("the config asks for at least") != std::string::npos);
  }
  for (const char* field : {"vocab_size", "max_position_embeddings", "type_vocab_size", "num_labels"}) {
    json config = bert_config();
    config[field] = 1 << 24;
    write_json(folder.path("config.json"), config);
    CHECK_MESSAGE(refusal(folder).find("the config asks for at least") != std::string::npos, field);
  }
  json deep = bert_config();
  deep["num_hidden_layers"] = 65536;
  write_json(folder.path("config.json"), deep);
  CHECK(refusal(folder).find("tensors, the config asks for 65536 blocks") != std::string::npos);
  const TemporaryFolder images;
  written(images, vit_config(), [](hub::Tensors&) {});
  for (const json& change : {json{{"image_size", 1 << 14}, {"patch_size", 1}}, json{{"num_labels", 1 << 24}},
                             json{{"num_channels", 1 << 16}, {"patch_size", 64}, {"image_size", 64}}}) {
    json config = vit_config();
    config.update(change);
    write_json(images.path("config.json"), config);
    CHECK_MESSAGE(refusal(images).find("the config asks for at least") != std::string::npos, change.dump());
  }
}

TEST_CASE("integers are no weights") {
  const TemporaryFolder folder;
  written(folder, bert_config(),
          [](hub::Tensors& state) { tensor(state, "cls.predictions.bias") = Tensor::arange(20); });
  CHECK(refusal(folder).find("cls.predictions.bias holds i64, not floating-point numbers") != std::string::npos);
}

TEST_CASE("a fresh head begins at random, the body does not") {
  const TemporaryFolder folder;
  const auto model = written(folder, bert_config("BertForSequenceClassification"), [](hub::Tensors& state) {
    std::erase_if(state, [](const auto& t) { return t.first == "classifier.bias"; });
    tensor(state, "classifier.weight") = Tensor::ones({5, 12});
  });
  CHECK(refusal(folder).find("classifier") != std::string::npos);
  const hub::LoadedModel fresh = hub::load_model(folder.path(), {.fresh_head = true, .key = {9, 0}});
  CHECK(fresh.report.fresh == std::vector<std::string>{"classifier.weight", "classifier.bias"});
  CHECK(fresh.report.summary() == "2 tensors are random: classifier.weight, classifier.bias");
  const hub::Tensors state = fresh.model->state();
  CHECK(hub::find(state, "classifier.weight").shape() == Shape{2, 12});
  CHECK(same_bits(hub::find(state, "bert.pooler.dense.weight"), hub::find(model->state(), "bert.pooler.dense.weight")));

  const TemporaryFolder body;
  written(body, bert_config("BertForSequenceClassification"), [](hub::Tensors& all) {
    std::erase_if(all, [](const auto& t) { return t.first == "bert.encoder.layer.0.output.dense.bias"; });
  });
  CHECK(refusal(body, {.fresh_head = true}).find("is missing: bert.encoder.layer.0.output.dense.bias") !=
        std::string::npos);
}

TEST_CASE("a checkpoint for masked words gets a head for texts, whose pooler is fresh too") {
  const TemporaryFolder folder;
  written(folder, bert_config(), [](hub::Tensors&) {});
  write_json(folder.path("config.json"), bert_config("BertForSequenceClassification"));
  CHECK(refusal(folder).find("tensors are missing: bert.pooler.dense.weight") != std::string::npos);
  const hub::LoadedModel fresh = hub::load_model(folder.path(), {.fresh_head = true});
  CHECK(fresh.report.fresh == std::vector<std::string>{"bert.pooler.dense.weight", "bert.pooler.dense.bias",
                                                       "classifier.weight", "classifier.bias"});
}

TEST_CASE("what lacks a prefix has no more that may begin at random") {
  json config = bert_config("BertModel");
  const TemporaryFolder bert, timm;
  written(bert, config, [](hub::Tensors&) {});
  config["num_hidden_layers"] = 2;
  write_json(bert.path("config.json"), config);
  CHECK(refusal(bert, {.fresh_head = true}).find("encoder.layer.1.") != std::string::npos);
  const json vit = {{"architecture", "vit_tiny_patch4_8"},
                    {"num_classes", 3},
                    {"model_args", {{"embed_dim", 8}, {"num_heads", 2}, {"depth", 1}}}};
  written(timm, vit, [](hub::Tensors& state) {
    std::erase_if(state, [](const auto& t) { return t.first == "blocks.0.norm1.bias" || t.first == "head.bias"; });
  });
  CHECK(refusal(timm, {.fresh_head = true}).find("1 tensor is missing: blocks.0.norm1.bias") != std::string::npos);
}

TEST_CASE("in training, dropout follows the key that forward() is given") {
  json config = bert_config("BertForSequenceClassification");
  config["hidden_dropout_prob"] = 0.0;
  config["attention_probs_dropout_prob"] = 0.0;
  config["classifier_dropout"] = 0.5;
  const auto model = hub::make_model(config, {3, 0});
  const hub::Tensors inputs = {{"input_ids", Tensor::from<std::int64_t>({1, 2, 3}, {1, 3})}};
  const auto logits = [&](RandomKey key) { return model->forward(inputs, key)[0].second; };
  CHECK(same_bits(logits({1, 0}), logits({1, 0})));
  CHECK(!same_bits(logits({1, 0}), logits({2, 0})));
  model->module().eval();
  CHECK(same_bits(logits({1, 0}), logits({2, 0})));
  config["classifier_dropout"] = 0.0;
  const auto plain = hub::make_model(config, {3, 0});
  CHECK(same_bits(plain->forward(inputs, {1, 0})[0].second, logits({})));
}

TEST_CASE("a folder that is written says its own dtype, whatever the one that was read said") {
  const TemporaryFolder folder, again;
  json config = bert_config();
  config["dtype"] = "bfloat16";
  written(folder, config, [](hub::Tensors&) {});
  hub::save_model(*hub::load_model(folder.path(), {.dtype = DType::f64}).model, again.path());
  const json saved = read_json(again.path("config.json"));
  CHECK(!saved.contains("dtype"));
  CHECK(saved["torch_dtype"] == "float64");
}

TEST_CASE("F16 and BF16 weights are widened") {
  const TemporaryFolder folder;
  const auto model = written(folder, bert_config(), [](hub::Tensors& state) {
    for (auto& [name, value] : state) value = value.to(DType::bf16);
  });
  const hub::LoadedModel loaded = hub::load_model(folder.path());
  for (const auto& [name, value] : loaded.model->state()) {
    CHECK(value.dtype() == DType::f32);
    CHECK(same_bits(value, hub::find(model->state(), name).to(DType::bf16).to(DType::f32)));
  }
}

TEST_CASE("a ViT reads images of another size with resampled positions") {
  const TemporaryFolder folder;
  const auto model = written(folder, vit_config(), [](hub::Tensors&) {});
  const hub::LoadedModel larger = hub::load_model(folder.path(), {.image_size = std::pair{16, 16}});
  const Tensor positions = hub::find(larger.model->state(), "vit.embeddings.position_embeddings");
  const Tensor before = hub::find(model->state(), "vit.embeddings.position_embeddings");
  REQUIRE(positions.shape() == Shape{1, 17, 8});
  CHECK(same_bits(slice(positions, 1, 0, 1), slice(before, 1, 0, 1)));
  const Tensor grid = slice(before, 1, 1, 7).reshape({1, 2, 3, 8}).permute({0, 3, 1, 2});
  const Tensor wanted = interpolate(grid, {4, 4}, "bicubic").permute({0, 2, 3, 1}).reshape({1, 16, 8});
  CHECK(same_bits(slice(positions, 1, 1, 17).contiguous(), wanted.contiguous()));
  CHECK(larger.model->forward({{"pixel_values", Tensor::ones({2, 3, 16, 16})}})[0].second.shape() == Shape{2, 3});
  CHECK(same_bits(hub::resample_positions(before, 1, {2, 3}, {2, 3}), before));
  CHECK(refusal(folder, {.image_size = std::pair{16, 18}}).find("do not divide images of 16 x 18") !=
        std::string::npos);
  CHECK_THROWS_AS(hub::resample_positions(before, 2, {2, 3}, {2, 3}), ShapeError);
}

TEST_CASE("a config that makes no model is refused by field") {
  const json c = bert_config();
  CHECK(config_refusal(c, "model_type", "t5").find("'model_type' is 't5'; supported are bert, ") != std::string::npos);
  CHECK(config_refusal(c, "architectures", {"BertForMaskedLm"}).find("did you mean BertForMaskedLM?") !=
        std::string::npos);
  CHECK(config_refusal(c, "hidden_size", "12").find("'hidden_size' must be a whole number") != std::string::npos);
  CHECK(config_refusal(c, "hidden_size", 13).find("not a multiple of heads") != std::string::npos);
  CHECK(config_refusal(c, "hidden_size", 1e300).find("must be a whole number") != std::string::npos);
  CHECK(config_refusal(c, "vocab_size", std::uint64_t{1} << 63)
            .find("'vocab_size' is 9223372036854775808; numbers beyond") != std::string::npos);
  CHECK(
      config_refusal({{"model_type", "gpt2"}}, "n_embd", INT64_MIN).find("'n_embd' is -9223372036854775808; numbers") !=
      std::string::npos);
  CHECK(config_refusal(c, "vocab_size", -4).find("vocabulary must be positive") != std::string::npos);
  CHECK(config_refusal(c, "hidden_act", "gelu_10").find("'hidden_act' is 'gelu_10'; supported are gelu") !=
        std::string::npos);
  CHECK(config_refusal(c, "position_embedding_type", "relative_key").find("supported is \"absolute\"") !=
        std::string::npos);
  CHECK(config_refusal(c, "id2label", json::array()).find("must be an object of names") != std::string::npos);
  CHECK(config_refusal(json::object(), "hidden_size", 3).find("'model_type' is missing") != std::string::npos);
  const auto timm = [](const char* name) { return config_refusal({{"architecture", name}}, "num_classes", 3); };
  CHECK(timm("vit_tiny_patch16_224").empty());
  CHECK(timm("vit_base_patch16_clip_224").find("'architecture' is 'vit_base_patch16_clip_224'; supported") !=
        std::string::npos);
  const json tiny = {{"architecture", "vit_tiny_patch16_224"}};
  CHECK(config_refusal(tiny, "model_args", {{"act_layer", "quick_gelu"}})
            .find("model_args: field 'act_layer' is not supported") != std::string::npos);
  CHECK(config_refusal(tiny, "model_args", {{"class_token", false}}).find("'class_token' is false") !=
        std::string::npos);
  for (const double ratio : {1e300, -2.5, 0.0})
    CHECK(config_refusal(tiny, "model_args", {{"mlp_ratio", ratio}}).find("field 'mlp_ratio' is ") !=
          std::string::npos);
  CHECK(config_refusal(tiny, "model_args", {{"qk_norm", false}, {"reg_tokens", 0}, {"num_classes", 7}}).empty());
  CHECK(timm("vit_huge_patch14_224").find("supported of timm are vit_SIZE_patchN_M") != std::string::npos);
  CHECK(config_refusal({{"architecture", "vit_tiny_patch16_224"}}, "global_pool", "avg")
            .find("'global_pool' is 'avg', the model's arguments say 'token'") != std::string::npos);
  const json llama = {{"model_type", "llama"}, {"hidden_size", 8},       {"num_attention_heads", 2},
                      {"vocab_size", 9},       {"intermediate_size", 4}, {"num_hidden_layers", 1}};
  const auto rope = [&](const json& scaling) { return config_refusal(llama, "rope_scaling", scaling); };
  CHECK(rope({{"rope_type", "linear"}}).find("rope_scaling: field 'factor' is missing") != std::string::npos);
  CHECK(rope({{"rope_type", "yarn"}, {"factor", 2.0}}).empty());
  CHECK(rope({{"rope_type", "yarn"}, {"factor", 2.0}, {"beta_fast", 0}})
            .find("'beta_fast' is 0, not more than beta_slow") != std::string::npos);
  CHECK(rope({{"rope_type", "yarn"}, {"factor", 2.0}, {"beta_slow", 0}}).find("'beta_slow' is 0, not positive") !=
        std::string::npos);
  CHECK(rope({{"rope_type", "llama3"}, {"factor", 2.0}, {"low_freq_factor", 4}}).find("'high_freq_factor' is 4") !=
        std::string::npos);
  CHECK(rope({{"rope_type", "llama3"}, {"factor", 2.0}, {"original_max_position_embeddings", 0}})
            .find("'original_max_position_embeddings' is 0, not at least 1") != std::string::npos);
  CHECK(config_refusal(llama, "rope_scaling", {{"rope_type", "longrope"}}).find("'rope_type' is 'longrope'") !=
        std::string::npos);
  CHECK(config_refusal(llama, "num_key_value_heads", 3).find("kv_heads 3 does not divide heads 2") !=
        std::string::npos);
  CHECK(config_refusal(llama, "pad_token_id", 9).find("'pad_token_id' is 9, not one of 9 ids") != std::string::npos);
}

TEST_CASE("inputs are checked by name, type and shape") {
  const auto bert = hub::make_model(bert_config(), {});
  const Tensor ids = Tensor::zeros({2, 5}, DType::i64);
  CHECK_THROWS_WITH_AS(bert->forward({}), doctest::Contains("the input input_ids is missing"), ValueError);
  CHECK_THROWS_WITH_AS(bert->forward({{"input_ids", ids}, {"atention_mask", ids}}),
                       doctest::Contains("did you mean attention_mask?"), ValueError);
  CHECK_THROWS_WITH_AS(bert->forward({{"input_ids", ids.to(DType::f32)}}), doctest::Contains("input_ids must be i64"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(bert->forward({{"input_ids", ids}, {"attention_mask", Tensor::ones({2, 4})}}),
                       doctest::Contains("attention_mask must be [batch, tokens], here [2, 5]"), ShapeError);
  CHECK_THROWS_AS(bert->forward({{"input_ids", Tensor::full({1, 2}, 20, DType::i64)}}), IndexError);
  CHECK_THROWS_WITH_AS(bert->forward({{"input_ids", Tensor::zeros({1, 7}, DType::i64)}}),
                       doctest::Contains("there are 6 positions"), ShapeError);
}

TEST_CASE("every parameter of every supported architecture has its place in a file") {
  for (const auto& [family, architectures] : hub::supported())
    for (const std::string& architecture : architectures) {
      CAPTURE(architecture);
      json config = {{"model_type", family},     {"architectures", {architecture}},
                     {"hidden_size", 8},         {"n_embd", 8},
                     {"num_attention_heads", 2}, {"n_head", 2},
                     {"num_hidden_layers", 2},   {"n_layer", 2},
                     {"vocab_size", 11},         {"intermediate_size", 6},
                     {"image_size", 8},          {"patch_size", 4}};
      if (family == "timm")
        config = {{"architecture", "deit_tiny_distilled_patch4_8"},
                  {"num_classes", 3},
                  {"model_args", {{"embed_dim", 8}, {"num_heads", 2}, {"depth", 2}}}};
      const auto model = hub::make_model(config, {});
      std::int64_t covered = 0;
      for (const hub::Binding& b : model->bindings()) covered += b.shape.numel();
      CHECK(covered == model->module().parameter_count());
    }
}
