// ModelSymmetries::certify: it passes what holds and refuses what does not, and says where.

#include "core/call.h"
#include "core/meta.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "nn/hub/small_copy.h"
#include "nn/init.h"
#include "permute/hub_symmetries.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <functional>

using namespace eg;
using namespace eg::permute;
using nlohmann::json;

namespace {

Tensor general(const Shape& shape, std::uint64_t tag) { return random_normal(shape, {tag, 7}, 0.0, 1.0, DType::f64); }

/// Read on shapes; every leaf is a parameter.
ModelSymmetries inferred(const nn::StateDict& leaves, const NamedFunction& f) {
  const MetaCallScope shapes_alone;
  nn::StateDict seen = leaves;
  for (auto& [name, tensor] : seen) tensor = Tensor::meta(tensor.shape(), tensor.dtype());
  return ModelSymmetries({.parameters = seen, .inputs = {}, .run = [&] { return f(seen); }});
}

/// What certify says of a claim that does not hold.
std::string refusal(const ModelSymmetries& s, const NamedFunction& f, const nn::StateDict& leaves) {
  try {
    s.certify(f, leaves);
  } catch (const SymmetryError& e) {
    return e.what();
  }
  return "certified";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A sum along rows of which somebody believes that it knows no order.
const OpDef& mistaken() {
  static const OpDef op = [] {
    OpDef wrong = cumsum_op;
    wrong.symmetries = [](const Sample&) {
      return std::vector<Symmetry>{{"rows", {{Leg::Side::in, 0, 0}, {Leg::Side::out, 0, 0}}},
                                   {"columns", {{Leg::Side::in, 0, 1}, {Leg::Side::out, 0, 1}}}};
    };
    return wrong;
  }();
  return op;
}

std::unique_ptr<hub::Model> outline(const json& config) {
  const MetaTensorScope tensors;
  const MetaCallScope calls;
  const nn::init::SkipScope skip;
  std::unique_ptr<hub::Model> model = hub::make_model(config, {});
  model->module().eval();
  return model;
}

json config_of(const std::string& family, const std::string& architecture, const json& more = {}) {
  json config = {{"model_type", family}, {"architectures", {architecture}}};
  if (more.is_object()) config.update(more);
  return config;
}

} // namespace

TEST_CASE("a perceptron's symmetries are certified, and its generators counted") {
  const nn::StateDict leaves{{"w1", general({6, 4}, 1)}, {"w2", general({3, 6}, 2)}, {"x", general({5, 4}, 3)}};
  const NamedFunction f = [](const nn::StateDict& v) {
    return nn::StateDict{{"y", linear(gelu(linear(v[2].second, v[0].second)), v[1].second)}};
  };
  std::int64_t steps = 0;
  const CertifyOptions options{.progress = [&](std::int64_t done, std::int64_t all) {
    CHECK(done <= all);
    ++steps;
  }};
  const Certificate c = inferred(leaves, f).certify(f, leaves, options);
  CHECK(c.groups == 4); // hidden, in, out, rows: two generators each
  CHECK(c.generators == 8);
  CHECK(steps == 8);
  CHECK(c.forward_error < 1e-14);
  CHECK(c.gradient_error < 1e-13);
  CHECK(c.no_gradient.empty());
}

TEST_CASE("a row that claims too much is found out by operation, group and generator") {
  const nn::StateDict leaves{{"w", general({4, 4}, 1)}, {"x", general({5, 4}, 3)}};
  const NamedFunction f = [](const nn::StateDict& v) {
    const Tensor h = tanh(linear(v[1].second, v[0].second));
    const PlaceScope place("encoder");
    const Tensor sums = call(mistaken(), {h}, Attrs{{"axis", std::int64_t{0}}}).front();
    return nn::StateDict{{"y", exp(sums * 0.1)}};
  };
  const std::string words = refusal(inferred(leaves, f), f, leaves);
  CAPTURE(words);
  CHECK(has(words, "\"x\": "));
  CHECK(has(words, "exchanging its first two places"));
  CHECK(has(words, "first at cumsum at encoder"));
  const NamedFunction sound = [](const nn::StateDict& v) {
    return nn::StateDict{
        {"y", call(cumsum_op, {linear(v[1].second, v[0].second)}, Attrs{{"axis", std::int64_t{0}}}).front()}};
  };
  CHECK(refusal(inferred(leaves, sound), sound, leaves) == "certified");
}

TEST_CASE("a gradient that does not follow is found out though the forward pass does") {
  // The value is x, the gradient that of x times its place.
  const NamedFunction f = [](const nn::StateDict& v) {
    const Tensor& x = v[0].second;
    if (!x.has_storage()) return nn::StateDict{{"y", x * 1.0}};
    const Tensor places = Tensor::from<double>({1, 2, 3, 4}, {4});
    Tensor value;
    {
      const PauseRecording pause;
      value = x - x * places;
    }
    return nn::StateDict{{"y", x * places + value}};
  };
  const nn::StateDict leaves{{"x", general({4}, 1)}};
  const std::string words = refusal(inferred(leaves, f), f, leaves);
  CAPTURE(words);
  CHECK(has(words, "the gradient by \"x\" differs"));
}

TEST_CASE("a model that takes another course with values is found out") {
  const NamedFunction f = [](const nn::StateDict& v) {
    const Tensor& x = v[0].second;
    return nn::StateDict{{"y", x.has_storage() ? x + Tensor::from<double>({1, 2, 3, 4}, {4}) : x + 1.0}};
  };
  const nn::StateDict leaves{{"x", general({4}, 1)}};
  const std::string words = refusal(inferred(leaves, f), f, leaves);
  CAPTURE(words);
  CHECK(has(words, "another course"));
}

TEST_CASE("automorphisms of a mask are among the generators") {
  const Tensor ring = Tensor::from<double>({0, 1, 2, 1, 1, 0, 1, 2, 2, 1, 0, 1, 1, 2, 1, 0}, {4, 4});
  const auto with = [](const Tensor& mask) {
    return [=](const nn::StateDict& v) {
      const Tensor& x = v[0].second;
      return nn::StateDict{{"y", matmul(matmul(x, x, false, true) * mask, x)}};
    };
  };
  const nn::StateDict leaves{{"x", general({4, 3}, 1)}};
  const ModelSymmetries s = inferred(leaves, with(ring));
  const auto tokens = std::find_if(s.groups().begin(), s.groups().end(),
                                   [](const SymmetryGroup& g) { return g.kind == GroupKind::automorphisms; });
  REQUIRE(tokens != s.groups().end());
  CHECK(s.certify(with(ring), leaves).generators >= 4);
  // The control: a mask that has less.
  const Tensor causal = Tensor::from<double>({0, 1, 1, 1, 2, 0, 1, 1, 2, 2, 0, 1, 2, 2, 2, 0}, {4, 4});
  CHECK(has(refusal(s, with(causal), leaves), "of its automorphisms"));
}

TEST_CASE("what certify cannot compare is said") {
  const nn::StateDict leaves{{"x", general({4}, 1)}};
  const NamedFunction f = [](const nn::StateDict& v) { return nn::StateDict{{"y", v[0].second * 2.0}}; };
  const ModelSymmetries s = inferred(leaves, f);
  CHECK_THROWS_WITH_AS(s.certify(f, {}), doctest::Contains("no value for \"x\""), ValueError);
  CHECK_THROWS_WITH_AS(s.certify(f, {{"x", general({4}, 1).to(DType::f32)}}), doctest::Contains("f64"), ValueError);
  CHECK_THROWS_WITH_AS(s.certify(f, {{"x", Tensor::full({4}, std::nan(""), DType::f64)}}),
                       doctest::Contains("not finite"), ValueError);
  // A function that gives other outputs than the query's.
  const NamedFunction none = [](const nn::StateDict&) { return nn::StateDict{}; };
  CHECK_THROWS_WITH_AS(s.certify(none, leaves), doctest::Contains("does not give the output \"y\""), ValueError);
  const NamedFunction more = [](const nn::StateDict& v) {
    return nn::StateDict{{"y", v[0].second * 2.0}, {"z", v[0].second}};
  };
  CHECK_THROWS_WITH_AS(s.certify(more, leaves), doctest::Contains("no tensor \"z\""), ValueError);
  // An output that is zero in theory, beside one that is not.
  const NamedFunction centered = [](const nn::StateDict& v) {
    const Tensor& x = v[0].second;
    return nn::StateDict{{"y", x * 2.0}, {"zero", sum(x - mean(x))}};
  };
  CHECK(inferred(leaves, centered).certify(centered, leaves).generators == 2);
  const NamedFunction order = [](const nn::StateDict& v) { return nn::StateDict{{"y", round(v[0].second)}}; };
  CHECK(inferred(leaves, order).certify(order, leaves).generators == 2);
}

TEST_CASE("the families' symmetries are certified on small copies") {
  const json large_llama{{"hidden_size", 4096},        {"num_attention_heads", 32}, {"num_key_value_heads", 8},
                         {"intermediate_size", 11008}, {"num_hidden_layers", 4},    {"vocab_size", 32000}};
  json padded = large_llama, wide = large_llama, ropes = large_llama;
  padded["pad_token_id"] = 0;
  wide["head_dim"] = 64;
  ropes["rope_scaling"] = {{"rope_type", "llama3"},
                           {"factor", 8.0},
                           {"original_max_position_embeddings", 8192},
                           {"low_freq_factor", 1.0},
                           {"high_freq_factor", 4.0}};
  const std::vector<json> configs{
      config_of("vit", "ViTForImageClassification"),
      config_of("vit", "ViTModel", {{"image_size", {64, 96}}, {"qkv_bias", false}, {"num_hidden_layers", 1}}),
      config_of("deit", "DeiTForImageClassificationWithTeacher", {{"num_channels", 1}}),
      config_of("bert", "BertForMaskedLM"),
      config_of("bert", "BertForSequenceClassification", {{"num_hidden_layers", 3}, {"num_labels", 3}}),
      config_of("bert", "BertModel", {{"pad_token_id", nullptr}}),
      config_of("bert", "BertForQuestionAnswering"),
      config_of("gpt2", "GPT2LMHeadModel"),
      config_of("gpt2", "GPT2ForSequenceClassification", {{"pad_token_id", 50256}, {"n_layer", 3}}),
      config_of("gpt2", "GPT2ForTokenClassification", {{"n_head", 1}, {"scale_attn_by_inverse_layer_idx", true}}),
      config_of("llama", "LlamaForCausalLM", large_llama),
      config_of("llama", "LlamaForCausalLM", padded),
      config_of("llama", "LlamaForCausalLM", wide),
      config_of("llama", "LlamaModel", ropes),
      {{"architecture", "vit_tiny_patch16_224"}, {"num_classes", 10}},
      {{"architecture", "deit_tiny_distilled_patch16_224"}},
  };
  for (const json& config : configs) {
    const std::string words = config.dump();
    CAPTURE(words);
    const std::unique_ptr<hub::Model> model = outline(config);
    for (const TensorNames names : {TensorNames::files, TensorNames::parameters}) {
      const ModelSymmetries s = symmetries_of(*model, names);
      const Certificate c = certify(*model, s, names);
      CHECK(c.groups >= 8);
      CHECK(c.generators > c.groups);
      CHECK(c.no_gradient.empty());
      CHECK(c.forward_error < 1e-11);
      CHECK(c.gradient_error < 1e-10);
    }
  }
}

TEST_CASE("symmetries of another model are not certified by a small copy") {
  const auto symmetries = [](const json& config) { return symmetries_of(*outline(config), TensorNames::files); };
  const json gelu = config_of("vit", "ViTForImageClassification"), no_bias = [&] {
    json config = gelu;
    config["qkv_bias"] = false;
    return config;
  }();
  const std::unique_ptr<hub::Model> model = outline(gelu);
  CHECK_THROWS_WITH_AS(certify(*model, symmetries(no_bias), TensorNames::files), doctest::Contains("no group like"),
                       SymmetryError);
}
