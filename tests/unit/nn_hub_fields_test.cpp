// Every field of config.json that transformers looks at is read, known to change nothing, or refused by name.

#include "core/base/error.h"
#include "core/base/json.h"
#include "nn/hub/family.h"
#include "nn/hub/field_rules.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace eg;
using nlohmann::json;

namespace {

const std::map<std::string, const hub::Family*>& families() {
  static const std::map<std::string, const hub::Family*> all = {{"bert", &hub::bert_family},
                                                                {"deit", &hub::deit_family},
                                                                {"gpt2", &hub::gpt2_family},
                                                                {"llama", &hub::llama_family},
                                                                {"vit", &hub::vit_family}};
  return all;
}

json small_config(const std::string& family) {
  json config = {{"model_type", family}};
  if (family == "gpt2")
    config.update({{"vocab_size", 20}, {"n_embd", 12}, {"n_layer", 1}, {"n_head", 3}, {"n_positions", 8}});
  else
    config.update(
        {{"hidden_size", 12}, {"num_hidden_layers", 1}, {"num_attention_heads", 3}, {"intermediate_size", 8}});
  if (family == "bert" || family == "llama") config.update({{"vocab_size", 20}, {"max_position_embeddings", 8}});
  if (family == "vit" || family == "deit") config.update({{"image_size", 8}, {"patch_size", 4}});
  return config;
}

/// Fields that transformers looks at, of all versions that tests/golden/config_fields.py has run under.
std::set<std::string> fields_of_transformers(const std::string& family) {
  static const json all = read_json(EQUIGRAD_SOURCE_DIR "/tests/golden/config_fields.json");
  std::set<std::string> names;
  for (const auto& [version, of] : all.items())
    for (const json& name : of.at(family)) names.insert(name.get<std::string>());
  return names;
}

std::map<std::string, hub::FieldRule> rules_of(const std::string& family) {
  std::map<std::string, hub::FieldRule> rules;
  for (const hub::FieldRule& rule : hub::field_rules(family)) {
    CAPTURE(rule.name);
    CHECK(rules.emplace(rule.name, rule).second); // one rule for each
    CHECK((rule.fits != nullptr) == (rule.use == hub::FieldUse::fixed));
  }
  return rules;
}

std::string refusal(json config, const std::string& field, const json& value) {
  config[field] = value;
  try {
    hub::make_model(config, {});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Values that a fixed field may have; everything else is to be refused.
bool is_supported(const std::string& family, const std::string& field, const json& value) {
  const bool decoder = family == "gpt2" || family == "llama";
  if (field == "is_causal") return decoder ? value == true : value == false || value.is_null();
  if (field == "token_classification_bias") return value == true;
  if (field == "head_dim") return value == 4 || value.is_null();
  if (field == "position_embedding_type") return value == "absolute" || value.is_null();
  if (field == "is_decoder") return value == false || value.is_null();
  if (field == "layer_types") return value.is_null() || value == json::array() || value == json{"full_attention"};
  if (field == "num_kv_shared_layers") return value.is_null() || value == 0;
  if (field == "partial_rotary_factor" && family == "llama") return value == 1 || value.is_null();
  return value.is_null() || value == false || value == "" || value == json::object() || value == json::array();
}

const std::vector<json>& values() {
  static const std::vector<json> all = {nullptr,
                                        true,
                                        false,
                                        0,
                                        1,
                                        4,
                                        7,
                                        0.5,
                                        "",
                                        "absolute",
                                        "x",
                                        json::object(),
                                        json::array(),
                                        {"x"},
                                        {"full_attention"},
                                        {{"x", 1}}};
  return all;
}

hub::Tensors outputs(const json& config) {
  const auto model = hub::make_model(config, {5, 0});
  model->module().eval();
  hub::Tensors in = model->input_shapes(1);
  for (auto& [name, tensor] : in)
    tensor =
        tensor.dtype() == DType::i64 ? Tensor::from<std::int64_t>({1, 2, 0, 3}, {1, 4}) : Tensor::ones(tensor.shape());
  return model->forward(in);
}

bool same_outputs(const hub::Tensors& a, const hub::Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && same_bits(x.second, y.second); });
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

} // namespace

TEST_CASE("every field that transformers looks at has a rule") {
  for (const auto& [family, maker] : families()) {
    const auto rules = rules_of(family);
    const std::set<std::string> names = fields_of_transformers(family);
    CHECK(names.size() > 90);
    for (const std::string& name : names) CHECK_MESSAGE(rules.contains(name), fmt::format("{}: {}", family, name));
  }
}

TEST_CASE("a field that is not looked at is refused by name, unless it holds the supported value") {
  for (const auto& [family, maker] : families())
    for (const auto& [field, rule] : rules_of(family))
      for (const json& value : values()) {
        if (rule.use != hub::FieldUse::fixed) continue;
        const std::string words = refusal(small_config(family), field, value);
        const std::string wanted = fmt::format("config: field '{}' is ", field);
        const bool right = is_supported(family, field, value) ? words.empty() : words.starts_with(wanted);
        CHECK_MESSAGE(right, fmt::format("{}: {} = {}: '{}'", family, field, value.dump(), words));
      }
}

TEST_CASE("a harmless field changes no bit of the outputs") {
  for (const auto& [family, maker] : families()) {
    const json plain = small_config(family);
    const hub::Tensors wanted = outputs(plain);
    for (const auto& [field, rule] : rules_of(family))
      for (const json& value : {json(7), json(true), json{"x"}, json{{"x", 1}}}) {
        if (rule.use != hub::FieldUse::harmless) continue;
        json config = plain;
        config[field] = value;
        CHECK_MESSAGE(same_outputs(outputs(config), wanted), fmt::format("{}: {}", family, field));
      }
  }
}

TEST_CASE("the fields that are said to be looked at are those that the makers ask for") {
  for (const auto& [family, maker] : families()) {
    std::set<std::string> asked = {"model_type", "architectures"}, read;
    for (const hub::Architecture& a : maker->architectures)
      for (const char* rope : {"default", "linear", "dynamic", "llama3", "yarn"}) {
        json config = small_config(family);
        config["rope_parameters"] = {{"rope_type", rope}, {"factor", 2.0}};
        const hub::Fields fields(config, "config");
        static_cast<void>(maker->make({config, fields, {}, nullptr}, a));
        asked.insert(fields.asked().begin(), fields.asked().end());
      }
    for (const auto& [field, rule] : rules_of(family))
      if (rule.use == hub::FieldUse::read) read.insert(field);
    CHECK_MESSAGE(asked == read,
                  fmt::format("{}: asked {}, said {}", family, fmt::join(asked, " "), fmt::join(read, " ")));
  }
}

TEST_CASE("auto_map is allowed: transformers has classes of its own for these families") {
  for (const auto& [family, maker] : families())
    CHECK(refusal(small_config(family), "auto_map", {{"AutoModel", "modeling_own.OwnModel"}}).empty());
}

TEST_CASE("a field that no class of transformers knows is allowed: it is ignored there too") {
  for (const auto& [family, maker] : families())
    CHECK(refusal(small_config(family), "transformers.js_config", {{"dtype", "fp16"}}).empty());
}

namespace {

constexpr std::array<std::string_view, 6> all_families = {"bert", "gpt2", "llama", "vit", "deit", "timm"};

/// `names` in backticks, with commas.
std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += fmt::format("{}`{}`", text.empty() ? "" : ", ", name);
  return text;
}

void collect(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

/// Tables of the rules.
std::string field_rules_markdown() {
  std::string text = "| family | fields that are looked at |\n|---|---|\n";
  std::map<std::string, std::vector<std::string>> harmless;                         // by what they are about
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> families; // by field and supported value
  for (const std::string_view family : all_families) {
    std::vector<std::string> read;
    for (const hub::FieldRule& rule : hub::field_rules(family)) {
      if (rule.use == hub::FieldUse::read) read.emplace_back(rule.name);
      if (rule.use == hub::FieldUse::harmless) collect(harmless[rule.words], rule.name);
      if (rule.use == hub::FieldUse::fixed) families[{rule.name, rule.words}].emplace_back(family);
    }
    text += fmt::format("| {} | {} |\n", family, quoted(read));
  }
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> fixed; // fields by families and value
  for (const auto& [key, in] : families)
    fixed[{fmt::format("{}", fmt::join(in, ", ")), key.second}].push_back(key.first);
  text += "\n| refused | unless it is | in |\n|---|---|---|\n";
  for (const auto& [key, names] : fixed)
    text += fmt::format("| {} | {} | {} |\n", quoted(names), key.second, key.first);
  text += "\n| change nothing in a pass | they are about |\n|---|---|\n";
  for (const auto& [about, names] : harmless) text += fmt::format("| {} | {} |\n", quoted(names), about);
  return text;
}

} // namespace

TEST_CASE("docs/models.md lists the fields as they are") {
  const std::string path = EQUIGRAD_SOURCE_DIR "/docs/models.md";
  const std::string begin = "<!-- fields: written by nn_hub_fields_test with EQUIGRAD_WRITE_DOCS=1 -->\n";
  const std::string end = "<!-- end of fields -->\n";
  std::string page = file_text(path);
  const std::size_t from = page.find(begin), to = page.find(end);
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  const std::size_t body = from + begin.size();
  const std::string wanted = "\n" + field_rules_markdown() + "\n";
  const bool same = page.substr(body, to - body) == wanted;
  if (std::getenv("EQUIGRAD_WRITE_DOCS") != nullptr)
    std::ofstream(path, std::ios::binary) << page.replace(body, to - body, wanted);
  else
    CHECK_MESSAGE(same, "run this test with EQUIGRAD_WRITE_DOCS=1 and commit docs/models.md");
}
