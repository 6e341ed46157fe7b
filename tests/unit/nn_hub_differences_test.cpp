// Folders on which transformers computes something else than a plain reading of their config.json suggests.

#include "autograd/tape.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/ops.h"
#include "data/safetensors.h"
#include "nn/hub/folder.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace eg;
using nlohmann::json;
using test::TemporaryFolder;

namespace {

json bert_config(const char* architecture, bool tied) {
  return {{"model_type", "bert"},   {"architectures", {architecture}}, {"vocab_size", 20},
          {"hidden_size", 12},      {"num_hidden_layers", 1},          {"num_attention_heads", 3},
          {"intermediate_size", 8}, {"max_position_embeddings", 6},    {"tie_word_embeddings", tied}};
}

json llama_config(const json& more = json::object()) {
  json config = {{"model_type", "llama"},
                 {"architectures", {"LlamaForCausalLM"}},
                 {"vocab_size", 20},
                 {"hidden_size", 16},
                 {"num_hidden_layers", 1},
                 {"num_attention_heads", 2},
                 {"intermediate_size", 8},
                 {"num_key_value_heads", 2},
                 {"max_position_embeddings", 32},
                 {"tie_word_embeddings", false}};
  config.update(more);
  return config;
}

json gpt2_config(const json& more = json::object()) {
  json config = {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
                 {"vocab_size", 20},     {"n_embd", 12},
                 {"n_head", 2},          {"n_layer", 1},
                 {"n_positions", 8}};
  config.update(more);
  return config;
}

/// The tensors of a model of `config`, drawn.
hub::Tensors drawn(const json& config) { return hub::make_model(config, {7, 0})->state(); }

void put(hub::Tensors& state, const std::string& name, const Tensor& value) {
  for (auto& [own, tensor] : state)
    if (own == name) {
      tensor = value;
      return;
    }
  state.emplace_back(name, value);
}

void take(hub::Tensors& state, const std::string& name) {
  CHECK_MESSAGE(std::erase_if(state, [&](const auto& t) { return t.first == name; }) == 1, name);
}

void write(const TemporaryFolder& folder, const json& config, const hub::Tensors& state) {
  write_json(folder.path("config.json"), config);
  data::save_safetensors(folder.path("model.safetensors"), state);
}

Tensor some_ids() { return Tensor::from<std::int64_t>({0, 1, 2, 0, 3}, {1, 5}); }

Tensor logits(const hub::Model& model) { return model.forward({{"input_ids", some_ids()}})[0].second; }

Tensor logits(const TemporaryFolder& folder) { return logits(*hub::load_model(folder.path()).model); }

Tensor logits_of(const json& config) {
  const auto model = hub::make_model(config, {7, 0});
  model->module().eval();
  return logits(*model);
}

template <class Call> std::string refusal(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string load_refusal(const TemporaryFolder& folder) {
  return refusal([&] { hub::load_model(folder.path()); });
}

std::string config_refusal(const json& config) {
  return refusal([&] { hub::make_model(config, {}); });
}

bool says(const std::string& text, const char* words) { return text.find(words) != std::string::npos; }

/// Gradient of the sum of all outputs by one tensor of the file.
Tensor gradient(const hub::Model& model, const std::string& name) {
  Tape tape;
  const Tensor y = sum(logits(model));
  return hub::find(model.by_file_names(tape.gradient(y, model.module().parameters())), name);
}

} // namespace

TEST_CASE("an untied decoder of BERT adds its own bias, not cls.predictions.bias") {
  for (const char* architecture : {"BertForMaskedLM", "BertForPreTraining"}) {
    const json config = bert_config(architecture, false);
    const Tensor bias = Tensor::arange(20).to(DType::f32);
    const TemporaryFolder with, without, again;
    hub::Tensors state = drawn(config);
    put(state, "cls.predictions.bias", Tensor::full({20}, 5.0));
    put(state, "cls.predictions.decoder.bias", Tensor::zeros({20}));
    write(without, config, state);
    put(state, "cls.predictions.decoder.bias", bias);
    write(with, config, state);
    const hub::LoadedModel loaded = hub::load_model(with.path());
    CHECK(sum(abs(logits(*loaded.model) - logits(without) - bias)).item() < 1e-4);
    CHECK(gradient(*loaded.model, "cls.predictions.decoder.bias").defined());
    hub::save_model(*loaded.model, again.path());
    const data::TensorReader written = data::open_tensors(again.path());
    CHECK(same_bits(written.read("cls.predictions.decoder.bias"), bias));
    CHECK(same_bits(written.read("cls.predictions.bias"), bias)); // transformers 4 reads this one
    CHECK(same_bits(logits(again), logits(with)));
  }
}

TEST_CASE("transformers 4 wrote the bias of an untied decoder as cls.predictions.bias alone") {
  const json config = bert_config("BertForMaskedLM", false);
  const Tensor bias = Tensor::arange(20).to(DType::f32);
  const TemporaryFolder folder, again;
  hub::Tensors state = drawn(config);
  put(state, "cls.predictions.bias", bias);
  std::erase_if(state, [](const auto& t) { return t.first == "cls.predictions.decoder.bias"; });
  write(folder, config, state);
  hub::save_model(*hub::load_model(folder.path()).model, again.path());
  const data::TensorReader written = data::open_tensors(again.path());
  CHECK(written.find("cls.predictions.decoder.bias") != nullptr);
  CHECK(same_bits(written.read("cls.predictions.bias"), bias));
  CHECK(same_bits(logits(again), logits(folder)));
}

TEST_CASE("a file whose tied tensors differ is refused, one that has either or both alike is read") {
  const json bert = bert_config("BertForMaskedLM", true), gpt2 = gpt2_config();
  const json llama = llama_config({{"tie_word_embeddings", true}});
  struct Case {
    const json& config;
    const char *own, *copy;
  };
  for (const Case& c : {Case{bert, "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"},
                        Case{bert, "cls.predictions.bias", "cls.predictions.decoder.bias"},
                        Case{gpt2, "transformer.wte.weight", "lm_head.weight"},
                        Case{llama, "model.embed_tokens.weight", "lm_head.weight"}}) {
    CAPTURE(c.copy);
    const TemporaryFolder own, both, copy, other;
    hub::Tensors state = drawn(c.config);
    const Tensor value = hub::find(state, c.own);
    write(own, c.config, state);
    put(state, c.copy, value);
    write(both, c.config, state);
    take(state, c.own);
    write(copy, c.config, state);
    put(state, c.own, value + 1.0);
    write(other, c.config, state);
    CHECK(same_bits(logits(both), logits(own)));
    CHECK(same_bits(logits(copy), logits(own)));
    const std::string words = load_refusal(other);
    CHECK(says(words, "differ, but the config's field 'tie_word_embeddings' makes them one"));
    CHECK(says(words, c.own));
    CHECK(says(words, c.copy));
  }
}

TEST_CASE("position_ids that do not count on need an attention_mask") {
  for (const json& config : {llama_config(), gpt2_config()}) {
    const auto model = hub::make_model(config, {7, 0});
    model->module().eval();
    const auto run = [&](std::vector<std::int64_t> positions, bool mask) {
      hub::Tensors in = {{"input_ids", some_ids()}, {"position_ids", Tensor::from<std::int64_t>(positions, {1, 5})}};
      if (mask) in.emplace_back("attention_mask", Tensor::ones({1, 5}));
      return model->forward(in)[0].second;
    };
    CHECK(says(refusal([&] { run({0, 1, 2, 0, 1}, false); }), "position_ids: 2 is followed by 0"));
    CHECK(says(refusal([&] { run({0, 2, 3, 4, 5}, false); }), "position_ids: 0 is followed by 2"));
    CHECK(run({0, 1, 2, 0, 1}, true).defined());
    CHECK(same_bits(run({0, 1, 2, 3, 4}, false), logits(*model)));
    CHECK(run({3, 4, 5, 6, 7}, false).defined());
  }
}

TEST_CASE("attention the other way round is refused by name") {
  for (const json& off : {json(false), json(nullptr)}) {
    CHECK(says(config_refusal(llama_config({{"is_causal", off}})), "field 'is_causal' is "));
    CHECK(says(config_refusal(gpt2_config({{"is_causal", off}})), "field 'is_causal' is "));
  }
  CHECK(config_refusal(llama_config({{"is_causal", true}})).empty());
  json bert = bert_config("BertModel", true);
  bert["is_causal"] = true;
  CHECK(says(config_refusal(bert), "field 'is_causal' is true"));
  bert["is_causal"] = false;
  CHECK(config_refusal(bert).empty());
}

TEST_CASE("two ropes in one config have to say the same") {
  const json linear = {{"rope_type", "linear"}, {"factor", 4.0}}, plain = {{"rope_type", "default"}};
  const auto both = [](const json& older, const json& newer) {
    return llama_config({{"rope_scaling", older}, {"rope_parameters", newer}});
  };
  CHECK(says(config_refusal(both(linear, plain)), "field 'rope_scaling' is not what 'rope_parameters' beside it says"));
  const Tensor scaled = logits_of(llama_config({{"rope_scaling", linear}}));
  CHECK(!same_bits(scaled, logits_of(llama_config())));
  CHECK(same_bits(scaled, logits_of(both(linear, linear))));
  CHECK(same_bits(scaled, logits_of(both(linear, json::object()))));
  CHECK(same_bits(scaled, logits_of(both(nullptr, linear))));
  CHECK(says(config_refusal(llama_config({{"rope_theta", 50.0}, {"rope_parameters", {{"rope_theta", 60.0}}}})),
             "field 'rope_theta' is 50, and that of the rope is 60"));
  CHECK(says(config_refusal(llama_config({{"rope_parameters", {{"full_attention", linear}}}})),
             "rope_parameters: field 'full_attention' is an object"));
}

TEST_CASE("original_max_position_embeddings may stand in the rope or beside it") {
  for (const char* type : {"llama3", "yarn"}) {
    json rope = {{"rope_type", type}, {"factor", 8.0}, {"rope_theta", 10.0}};
    json inside = rope;
    inside["original_max_position_embeddings"] = 4;
    const auto config = [](const json& r, const json& beside) {
      return llama_config({{"rope_parameters", r}, {"original_max_position_embeddings", beside}});
    };
    const Tensor wanted = logits_of(config(inside, nullptr));
    CHECK(!same_bits(wanted, logits_of(config(rope, nullptr))));
    CHECK(same_bits(wanted, logits_of(config(rope, 4))));
    CHECK(same_bits(wanted, logits_of(config(inside, 4))));
    CHECK(says(config_refusal(config(inside, 8)),
               "field 'original_max_position_embeddings' is 8, and that of the rope is 4"));
  }
}

TEST_CASE("a rope over a part of each head is refused for Llama, which has none") {
  CHECK(says(config_refusal(llama_config({{"partial_rotary_factor", 0.5}})), "field 'partial_rotary_factor' is 0.5"));
  CHECK(says(config_refusal(llama_config({{"rope_parameters", {{"partial_rotary_factor", 0.5}}}})),
             "rope_parameters: field 'partial_rotary_factor' is 0.5"));
  CHECK(config_refusal(llama_config({{"partial_rotary_factor", 1.0}})).empty());
}

TEST_CASE("which row of the embedding gets no gradient follows pad_token_id, null too") {
  struct Case {
    json pad;
    std::int64_t row; ///< without gradient; -1: none
  };
  const auto zero_rows = [](const json& config, const char* name) {
    const auto model = hub::make_model(config, {7, 0});
    model->module().eval();
    const Tensor ids = Tensor::arange(20).reshape({4, 5});
    Tape tape;
    const Tensor hidden = model->forward({{"input_ids", ids}})[0].second;
    const Tensor weights = Tensor::arange(hidden.numel()).to(DType::f32).reshape(hidden.shape());
    const auto all = tape.gradient(sum(hidden * sin(weights)), model->module().parameters());
    const Tensor g = sum(abs(hub::find(model->by_file_names(all), name)), {1});
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < 20; ++i)
      if (g.select(0, i).item() == 0.0) rows.push_back(i);
    return rows;
  };
  const auto wanted = [](std::int64_t row) {
    return row < 0 ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{row};
  };
  json bert = bert_config("BertModel", true), llama = llama_config({{"architectures", {"LlamaModel"}}});
  CHECK(zero_rows(bert, "embeddings.word_embeddings.weight") == wanted(0));
  CHECK(zero_rows(llama, "embed_tokens.weight") == wanted(-1));
  for (const Case& c : {Case{nullptr, -1}, Case{3, 3}, Case{-1, 19}}) {
    CAPTURE(c.pad.dump());
    bert["pad_token_id"] = c.pad;
    llama["pad_token_id"] = c.pad;
    CHECK(zero_rows(bert, "embeddings.word_embeddings.weight") == wanted(c.row));
    CHECK(zero_rows(llama, "embed_tokens.weight") == wanted(c.row));
  }
  for (const int bad : {20, -21}) {
    bert["pad_token_id"] = bad;
    llama["pad_token_id"] = bad;
    CHECK(says(config_refusal(bert), "not one of 20 ids"));
    CHECK(says(config_refusal(llama), "not one of 20 ids"));
  }
}

TEST_CASE("GPT-2 has no row of padding: an id beyond its vocabulary is that of no token") {
  const auto classes = [](const json& pad) {
    const auto model = hub::make_model(
        gpt2_config({{"architectures", {"GPT2ForSequenceClassification"}}, {"pad_token_id", pad}}), {7, 0});
    model->module().eval();
    const Tensor ids = Tensor::from<std::int64_t>({1, 2, 3, 4, 5, 6}, {2, 3});
    return model->forward({{"input_ids", ids}})[0].second;
  };
  const Tensor never = classes(9);
  for (const json& pad : {json(20), json(25), json(-1)}) CHECK(same_bits(classes(pad), never));
  CHECK(!same_bits(classes(6), never));
  CHECK(says(refusal([&] { classes(nullptr); }), "there is no padding id"));
}

TEST_CASE("GPT-2's sizes have two names each") {
  json general = gpt2_config();
  for (const auto& [name, alias] : {std::pair{"n_embd", "hidden_size"},
                                    {"n_head", "num_attention_heads"},
                                    {"n_layer", "num_hidden_layers"},
                                    {"n_positions", "max_position_embeddings"}}) {
    general[alias] = general[name];
    CHECK(config_refusal(general).empty());
    json other = general;
    other[alias] = 3 * general[name].get<int>();
    CHECK(says(config_refusal(other), (std::string("field '") + alias + "' is ").c_str()));
    general.erase(name);
  }
  CHECK(same_bits(logits_of(general), logits_of(gpt2_config())));
}

TEST_CASE("id2label and num_labels have to agree, and a classifier needs a class") {
  json config = bert_config("BertForSequenceClassification", true);
  config["id2label"] = {{"0", "a"}, {"1", "b"}, {"2", "c"}};
  config["num_labels"] = 5;
  CHECK(says(config_refusal(config), "field 'num_labels' is 5, and 'id2label' has 3 names"));
  config["num_labels"] = 3;
  CHECK(logits_of(config).size(-1) == 3);
  config.erase("num_labels");
  CHECK(logits_of(config).size(-1) == 3);
  config["id2label"] = json::object();
  CHECK(says(config_refusal(config), "field 'id2label' names no class; BertForSequenceClassification needs one"));
  config.erase("id2label");
  config["num_labels"] = 0;
  CHECK(says(config_refusal(config), "field 'num_labels' names no class"));
  config["architectures"] = {"BertForMaskedLM"};
  CHECK(config_refusal(config).empty());
}

TEST_CASE("id2label and num_labels may differ where no head has classes") {
  const json differ = {{"id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}}}, {"num_labels", 5}};
  for (json config : {bert_config("BertForMaskedLM", true), gpt2_config(), llama_config()}) {
    const json plain = config;
    config.update(differ);
    CAPTURE(config.dump());
    REQUIRE(config_refusal(config).empty());
    CHECK(same_bits(logits_of(config), logits_of(plain)));
  }
}

TEST_CASE("weights that are said to be quantized are refused by the field's name") {
  const json quantized = {{"quant_method", "gptq"}, {"bits", 4}};
  CHECK(says(config_refusal(llama_config({{"quantization_config", quantized}})),
             "field 'quantization_config' is {\"bits\":4,\"quant_method\":\"gptq\"}"));
  CHECK(config_refusal(llama_config({{"quantization_config", nullptr}})).empty());
}

TEST_CASE("a ViT's head_dim is the hidden size over the heads, or is refused by name") {
  json config = {{"model_type", "vit"},    {"hidden_size", 12}, {"num_hidden_layers", 1}, {"num_attention_heads", 3},
                 {"intermediate_size", 8}, {"image_size", 8},   {"patch_size", 4}};
  config["head_dim"] = 4;
  CHECK(config_refusal(config).empty());
  config["head_dim"] = 6;
  CHECK(says(config_refusal(config), "field 'head_dim' is 6"));
}

TEST_CASE("what timm uses in training alone does not keep a folder from being read") {
  const json config = {{"architecture", "vit_tiny_patch4_8"},
                       {"num_classes", 3},
                       {"model_args", {{"embed_dim", 8}, {"num_heads", 2}, {"depth", 1}, {"drop_path_rate", 0.1}}}};
  CHECK(config_refusal(config).empty());
}

TEST_CASE("null is false where false is the default, and refused where it is not") {
  CHECK(config_refusal(llama_config({{"attention_bias", nullptr}})).empty());
  CHECK(says(config_refusal(gpt2_config({{"tie_word_embeddings", nullptr}})), "field 'tie_word_embeddings' is null"));
}
