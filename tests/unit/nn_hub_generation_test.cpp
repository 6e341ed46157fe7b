// Texts continued as transformers' generate continues them. Values: tests/golden/generation.py (4.57.6 and 5.23.0).

#include "nn/hub/generation/generation.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "nn/decoder.h"
#include "nn/generate.h"
#include "nn/hub/model.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <map>
#include <sstream>

using namespace eg;
using nlohmann::json;
using test::TemporaryFolder;
using Ids = std::vector<std::int64_t>;

namespace {

const Ids prompt = {3, 1, 4, 1, 5, 9, 2, 6};

/// The script's Llama: 12 positions, parameters by a formula of their place among the names.
std::unique_ptr<hub::Model> small_llama(const json& more = json::object()) {
  json config = {{"model_type", "llama"},
                 {"vocab_size", 23},
                 {"hidden_size", 16},
                 {"intermediate_size", 20},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 2},
                 {"num_key_value_heads", 1},
                 {"max_position_embeddings", 12},
                 {"architectures", {"LlamaForCausalLM"}}};
  config.update(more);
  std::unique_ptr<hub::Model> model = hub::make_model(config, {1, 0});
  model->module().to(DType::f64);
  model->module().eval();
  std::map<std::string, const hub::Binding*> names;
  for (const hub::Binding& b : model->bindings()) names[b.file] = &b;
  nn::StateDict slots = model->module().state_dict();
  double tag = 0.0;
  for (const auto& [name, binding] : names) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < binding->shape.numel(); ++i) {
      const auto j = static_cast<double>(i);
      values.push_back(std::sin(1.7 * j + 0.3 * j * j + tag) * 0.9 + (name.ends_with("norm.weight") ? 1.0 : 0.0));
    }
    for (auto& [own, slot] : slots)
      if (own == binding->parameter) hub::insert(slot, *binding, Tensor::from<double>(values, binding->shape));
    tag += 1.0;
  }
  return model;
}

Ids continued(const hub::Model& model, const nn::GenerateOptions& options) {
  return nn::generate(*model.decoder(), prompt, options);
}

/// A folder whose generation_config.json says this.
hub::GenerationSettings settings(const json& content) {
  const TemporaryFolder folder;
  write_file(folder.path("generation_config.json"), std::string_view(content.dump()));
  return hub::read_generation_settings(folder.path());
}

std::string refusal(const json& content) {
  try {
    settings(content);
  } catch (const FileError& e) {
    return e.what();
  }
  return {};
}

} // namespace

TEST_CASE("dynamic rope: a text grows beyond the positions as in transformers, each token turned by its own base") {
  const auto rope = [](double factor) {
    return small_llama({{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", factor}}}});
  };
  CHECK(continued(*rope(2.0), {.max_new_tokens = 30}) == Ids{20, 20, 16, 11, 6,  15, 7,  14, 3,  22,
                                                             20, 20, 20, 20, 20, 22, 21, 20, 20, 20,
                                                             20, 22, 21, 20, 20, 20, 20, 14, 11, 6});
  CHECK(continued(*rope(4.0), {.max_new_tokens = 30}) == Ids{20, 20, 16, 11, 6,  15, 7,  14, 3,  22,
                                                             20, 20, 20, 20, 20, 16, 11, 6,  20, 20,
                                                             20, 16, 11, 6,  14, 11, 12, 16, 20, 20});
  // Of any other rope positions have no end either.
  CHECK(continued(*small_llama(), {.max_new_tokens = 16}) ==
        Ids{20, 20, 16, 11, 6, 15, 7, 21, 20, 22, 21, 20, 20, 16, 20, 20});
}

TEST_CASE("rules change logits as transformers' processors do") {
  const auto model = small_llama();
  const auto with = [&](const nn::LogitRules& rules, const Ids& ends = {}) {
    return continued(*model, {.max_new_tokens = 16, .end_ids = ends, .rules = rules});
  };
  CHECK(with({.repetition_penalty = 1.3}) == Ids{20, 20, 16, 11, 15, 7, 14, 3, 21, 10, 20, 20, 20, 20, 22, 20});
  CHECK(with({.no_repeat_ngram_size = 2}) == Ids{20, 20, 16, 11, 6, 15, 7, 21, 20, 22, 21, 10, 20, 8, 6, 8});
  CHECK(with({.suppress_tokens = {20}, .begin_suppress_tokens = {20}}) ==
        Ids{16, 16, 17, 10, 5, 22, 16, 22, 21, 16, 8, 16, 16, 22, 16, 10});
  CHECK(with({}, {20}) == Ids{20});
  CHECK(with({.min_new_tokens = 5}, {20}) == Ids{16, 16, 17, 10, 5, 22, 20});
  CHECK(with({.min_length = 11}, {20}) == Ids{16, 16, 17, 10, 5, 22, 20});
  CHECK_THROWS_WITH_AS(with({.repetition_penalty = 0.0}), doctest::Contains("repetition_penalty must be positive"),
                       ValueError);
}

TEST_CASE("min_p keeps what is at least so many times as likely as the likeliest") {
  const Tensor logits = Tensor::from<double>({0.0, std::log(0.5), std::log(0.2), std::log(0.05)}, {4});
  const auto support = [&](double min_p) {
    std::map<std::int64_t, int> seen;
    for (std::uint64_t i = 0; i < 400; ++i)
      ++seen[nn::sample(logits, {.temperature = 1.0, .min_p = min_p}, uniform_at({5, 0}, i))];
    return seen.size();
  };
  CHECK(support(0.0) == 4);
  CHECK(support(0.1) == 3);
  CHECK(support(0.3) == 2);
  CHECK(support(1.0) == 1);
  CHECK_THROWS_WITH_AS(nn::sample(logits, {.temperature = 1.0, .min_p = 1.5}, 0.5), doctest::Contains("min_p"),
                       ValueError);
}

TEST_CASE("generation_config.json: what is honoured is read, and checked") {
  const hub::GenerationSettings s = settings({{"do_sample", true},
                                              {"temperature", 0.6},
                                              {"top_p", 0.9},
                                              {"top_k", 20},
                                              {"min_p", 0.05},
                                              {"repetition_penalty", 1.05},
                                              {"no_repeat_ngram_size", 3},
                                              {"max_new_tokens", 7},
                                              {"min_new_tokens", 2},
                                              {"suppress_tokens", {1, 2}},
                                              {"eos_token_id", {3, 4}}});
  CHECK(s.do_sample);
  CHECK(s.temperature == 0.6);
  CHECK(s.top_p == 0.9);
  CHECK(s.top_k == 20);
  CHECK(s.min_p == 0.05);
  CHECK(s.rules.repetition_penalty == 1.05);
  CHECK(s.rules.no_repeat_ngram_size == 3);
  CHECK(s.rules.min_new_tokens == 2);
  CHECK(s.rules.suppress_tokens == Ids{1, 2});
  CHECK(s.end_ids == Ids{3, 4});
  CHECK(s.most_new_tokens(100) == 7);
  CHECK(settings({{"max_length", 30}}).most_new_tokens(8) == 22);
  CHECK(!settings(json::object()).most_new_tokens(8));
  CHECK_THROWS_WITH_AS(settings({{"max_length", 8}}).most_new_tokens(8),
                       doctest::Contains("'max_length' is 8, and the prompt has 8 tokens"), FileError);
  // Where the file does not sample, 0 stands for nothing, and flags that sample are not held to it.
  for (const json& idle :
       {json{{"temperature", 0.0}, {"top_p", 0}}, json{{"do_sample", false}, {"temperature", 0}, {"top_p", 0.0}}}) {
    CHECK(!settings(idle).temperature);
    CHECK(!settings(idle).top_p);
  }
  CHECK(settings({{"temperature", 0.6}, {"top_p", 0.9}}).temperature == 0.6);
  CHECK(settings({{"temperature", 0.6}, {"top_p", 0.9}}).top_p == 0.9);
  for (const auto& [field, value] : std::initializer_list<std::pair<const char*, json>>{{"temperature", 0.0},
                                                                                        {"top_p", 1.5},
                                                                                        {"top_p", 0},
                                                                                        {"top_k", -1},
                                                                                        {"top_k", 1.5},
                                                                                        {"min_p", 2},
                                                                                        {"repetition_penalty", 0},
                                                                                        {"max_new_tokens", "x"},
                                                                                        {"suppress_tokens", {"x"}}})
    CHECK_MESSAGE(
        refusal({{"do_sample", true}, {field, value}}).find(fmt::format("generation_config.json: field '{}'", field)) !=
            std::string::npos,
        field, ": ", refusal({{"do_sample", true}, {field, value}}));
}

TEST_CASE("min_new_tokens takes the place of min_length, as in transformers") {
  for (const std::int64_t least : {0, 1}) {
    const hub::GenerationSettings s = settings({{"min_length", 10}, {"min_new_tokens", least}});
    CHECK(s.rules.min_length == 0);
    CHECK(s.rules.min_new_tokens == least);
  }
  CHECK(settings({{"min_length", 10}, {"min_new_tokens", nullptr}}).rules.min_length == 10);
  CHECK(refusal({{"min_length", "x"}, {"min_new_tokens", 1}}).find("field 'min_length'") != std::string::npos);
  const hub::GenerationSettings s =
      settings({{"max_new_tokens", 12}, {"eos_token_id", 20}, {"min_length", 10}, {"min_new_tokens", 0}});
  CHECK(continued(*small_llama(), {.max_new_tokens = 12, .end_ids = s.end_ids, .rules = s.rules}) == Ids{20});
}

TEST_CASE("generation_config.json: what could change the text and is not supported is refused by name") {
  std::size_t refused = 0;
  for (const hub::GenerationField& field : hub::generation_fields()) {
    const std::string name(field.name);
    CHECK_MESSAGE(refusal({{name, nullptr}}).empty(), name);
    if (field.use == hub::GenerationField::Use::harmless) CHECK_MESSAGE(refusal({{name, 17}}).empty(), name);
    if (field.use != hub::GenerationField::Use::refused) continue;
    ++refused;
    CHECK_MESSAGE(refusal({{name, 17}}).find(fmt::format("field '{}' is 17, which is not supported", name)) !=
                      std::string::npos,
                  name);
    json neutral = json::parse(field.neutral);
    if (!neutral.is_array()) neutral = json::array({neutral});
    for (const json& value : neutral) CHECK_MESSAGE(refusal({{name, value}}).empty(), name);
  }
  CHECK(refused > 20);
  CHECK(refusal({{"of_a_vendor", 17}}).empty()); // transformers passes it over too
}

TEST_CASE("every field of transformers' GenerationConfig is known") {
  // transformers 4.57.6 and 5.23.0, generation/configuration_utils.py: what __init__ takes.
  const char* const fields =
      "max_length max_new_tokens min_length min_new_tokens early_stopping max_time stop_strings do_sample num_beams "
      "use_mtp use_cache cache_implementation cache_config max_cache_len return_legacy_cache prefill_chunk_size "
      "temperature top_k top_p min_p top_h typical_p epsilon_cutoff eta_cutoff repetition_penalty "
      "encoder_repetition_penalty length_penalty no_repeat_ngram_size bad_words_ids renormalize_logits "
      "forced_bos_token_id forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens "
      "begin_suppress_tokens sequence_bias token_healing guidance_scale watermarking_config num_return_sequences "
      "output_attentions output_hidden_states output_scores output_logits return_dict_in_generate pad_token_id "
      "bos_token_id eos_token_id encoder_no_repeat_ngram_size decoder_start_token_id is_assistant num_assistant_tokens "
      "num_assistant_tokens_schedule assistant_confidence_threshold prompt_lookup_num_tokens max_matching_ngram_size "
      "assistant_early_exit assistant_lookbehind target_lookbehind assistant_ensemble_weight speculation_type "
      "compile_config disable_compile continuous_batching_config low_memory penalty_alpha dola_layers "
      "diversity_penalty num_beam_groups constraints force_words_ids";
  std::istringstream words(fields);
  const auto known = hub::generation_fields();
  for (std::string name; words >> name;)
    CHECK_MESSAGE(std::any_of(known.begin(), known.end(), [&](const auto& field) { return field.name == name; }), name);
}

TEST_CASE("ids that end texts: of generation_config.json alone where there is one, else of config.json") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const char* text) { write_file(folder.path(name), std::string_view(text)); };
  CHECK(hub::end_ids(folder.path()).empty());
  write("config.json", R"({"model_type": "gpt2"})");
  CHECK(hub::end_ids(folder.path()) == Ids{50256}); // the class's own
  write("config.json", R"({"model_type": "llama"})");
  CHECK(hub::end_ids(folder.path()) == Ids{2});
  write("config.json", R"({"model_type": "llama", "eos_token_id": null})");
  CHECK(hub::end_ids(folder.path()).empty());
  write("config.json", R"({"eos_token_id": 7, "repetition_penalty": 1.5})");
  CHECK(hub::end_ids(folder.path()) == Ids{7});
  CHECK(hub::read_generation_settings(folder.path()).rules.repetition_penalty == 1.5);
  write("generation_config.json", R"({"eos_token_id": [3, 4]})");
  CHECK(hub::end_ids(folder.path()) == Ids{3, 4});
  CHECK(hub::read_generation_settings(folder.path()).rules.repetition_penalty == 1.0);
  for (const char* without : {R"({"temperature": 1})", R"({"eos_token_id": null})"}) {
    write("generation_config.json", without);
    CHECK(hub::end_ids(folder.path()).empty());
  }
  write("generation_config.json", R"({"eos_token_id": ["x"]})");
  CHECK_THROWS_WITH_AS(hub::end_ids(folder.path()),
                       doctest::Contains("field 'eos_token_id' must be a whole number or a list of them"), FileError);
  write("generation_config.json", "[]");
  CHECK_THROWS_WITH_AS(hub::end_ids(folder.path()), doctest::Contains("generation_config.json: is not a JSON object"),
                       FileError);
}
