// Modules: names, counts, state dicts, types, train and eval, places in errors.

#include "nn/vit.h"
#include "support/message.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace eg;
using namespace eg::nn;
using eg::test::message_of;

namespace {

VitConfig small_vit() {
  VitConfig c;
  c.image = 8;
  c.patch = 4;
  c.layers = 2;
  c.encoder = {.dim = 6, .heads = 2, .mlp = 10};
  return c;
}

} // namespace

TEST_CASE("nn: a ViT's parameters have the documented names and shapes, in order") {
  const Vit model(small_vit(), {1, 0});
  std::vector<std::string> found;
  for (const Parameter& p : model.named_parameters()) found.push_back(p.name + " " + p.value.shape().str());
  std::vector<std::string> expected{"patch_embedding.weight [6, 48]", "patch_embedding.bias [6]", "cls_token [1, 1, 6]",
                                    "position_embedding [1, 5, 6]"};
  for (const std::string block : {"blocks.0.", "blocks.1."})
    for (const char* rest :
         {"norm1.weight [6]", "norm1.bias [6]", "attention.qkv.weight [18, 6]", "attention.qkv.bias [18]",
          "attention.proj.weight [6, 6]", "attention.proj.bias [6]", "norm2.weight [6]", "norm2.bias [6]",
          "mlp.fc1.weight [10, 6]", "mlp.fc1.bias [10]", "mlp.fc2.weight [6, 10]", "mlp.fc2.bias [6]"})
      expected.push_back(block + rest);
  for (const char* rest : {"norm.weight [6]", "norm.bias [6]", "classifier.weight [10, 6]", "classifier.bias [10]"})
    expected.emplace_back(rest);
  CHECK(found == expected);
  std::int64_t count = 0;
  for (const Tensor& t : model.parameters()) count += t.numel();
  CHECK(model.parameter_count() == count);
}

TEST_CASE("nn: the state of one model gives another the same output") {
  const Vit a(small_vit(), {1, 0});
  Vit b(small_vit(), {2, 0});
  const Tensor images = random_normal({3, 3, 8, 8}, {3, 0});
  CHECK_FALSE(same_bits(a(images), b(images)));
  b.load_state_dict(a.state_dict());
  CHECK(same_bits(a(images), b(images)));
}

TEST_CASE("nn: a state that does not fit is refused with every reason, and nothing is changed") {
  Vit model(small_vit(), {1, 0});
  const Tensor before = model.classifier->weight.clone();
  StateDict state;
  for (const auto& [name, tensor] : Vit(small_vit(), {2, 0}).state_dict()) state.emplace_back(name, tensor);

  StateDict wrong = state;
  wrong[0].second = Tensor::zeros({6, 47});
  CHECK(message_of([&] { model.load_state_dict(wrong); }) ==
        "load_state_dict: the state does not fit the model; 1 of another shape: patch_embedding.weight is [6, 47], the "
        "model has [6, 48]");
  CHECK_THROWS_AS(model.load_state_dict(wrong), ShapeError);

  wrong.erase(wrong.begin() + 1);
  wrong.emplace_back("head.weight", Tensor::zeros({1}));
  wrong.push_back(wrong[2]);
  CHECK_THROWS_AS(model.load_state_dict(wrong), ValueError);
  const std::string text = message_of([&] { model.load_state_dict(wrong); });
  CHECK(text.find("1 missing: patch_embedding.bias;") != std::string::npos);
  CHECK(text.find("1 unexpected: head.weight;") != std::string::npos);
  CHECK(text.find("1 given twice: position_embedding;") != std::string::npos);
  CHECK(text.find("1 of another shape: patch_embedding.weight") != std::string::npos);

  wrong = state;
  wrong[0].second = Tensor::zeros({6, 48}, DType::i64);
  CHECK(message_of([&] { model.load_state_dict(wrong); }).find("patch_embedding.weight is i64, the model has f32") !=
        std::string::npos);
  CHECK(message_of([&] { model.load_state_dict({}); }).find("and 24 more") != std::string::npos);
  CHECK(same_bits(model.classifier->weight, before));
}

TEST_CASE("nn: converting a model converts parameters and constants; f64 output agrees with f32") {
  VitConfig c = small_vit();
  c.position = PositionEmbedding::sinusoidal;
  Vit model(c, {1, 0});
  const Tensor images = random_normal({2, 3, 8, 8}, {3, 0});
  const Tensor narrow = model(images);
  model.to(DType::f64);
  CHECK(model.position_embedding.dtype() == DType::f64);
  const Tensor wide = model(images.to(DType::f64));
  CHECK(relative_error(narrow.to(DType::f64), wide) < 1e-5);
  CHECK_THROWS_AS(model.to(DType::i64), DTypeError);
}

TEST_CASE("nn: train and eval reach every child, and dropout obeys") {
  VitConfig c = small_vit();
  c.encoder.dropout = 0.5;
  Vit model(c, {1, 0});
  const Tensor images = random_normal({2, 3, 8, 8}, {3, 0});
  const Tensor one = model(images, {9, 1}), again = model(images, {9, 1}), other = model(images, {9, 2});
  CHECK(same_bits(one, again));
  CHECK_FALSE(same_bits(one, other));
  model.eval();
  CHECK_FALSE(model.blocks[1]->mlp.fc1.training());
  CHECK(same_bits(model(images, {9, 1}), model(images, {9, 2})));
  CHECK_FALSE(same_bits(model(images), one));

  Dropout drop(0.25);
  const Tensor x = Tensor::ones({10000});
  CHECK(mean(drop(x, {1, 1})).item() == doctest::Approx(1.0).epsilon(0.03));
  drop.eval();
  CHECK(drop(x, {1, 1}).id() == x.id());
  CHECK_THROWS_WITH_AS(Dropout(1.0), "Dropout: p must be in [0, 1), not 1", ValueError);
}

TEST_CASE("nn: an error names its place in the model") {
  const Vit model(small_vit(), {1, 0});
  const std::string text = message_of([&] { model.encode(Tensor::zeros({2, 5, 7})); });
  CHECK(text.find("(at blocks.0.norm1)") != std::string::npos);
  const Vit wide(
      [] {
        VitConfig c = small_vit();
        c.encoder.pre_norm = false;
        return c;
      }(),
      {1, 0});
  CHECK(message_of([&] {
          wide.encode(Tensor::zeros({2, 5, 7}));
        }).find("(at blocks.0.attention.qkv)") != std::string::npos);
  CHECK(message_of([&] {
          model(Tensor::zeros({2, 3, 8, 9}));
        }) == "vit: images must be [batch, 3, 8, 8], not [2, 3, 8, 9]");
}

TEST_CASE("nn: a config that makes no model is refused with the field's name") {
  const auto refused = [](auto change) {
    VitConfig c = small_vit();
    change(c);
    return message_of([&] { Vit(c, {}); });
  };
  CHECK(refused([](VitConfig& c) { c.patch = 3; }) == "vit: patch 3 does not divide image 8");
  CHECK(refused([](VitConfig& c) { c.patch = 0; }) == "vit: patch must be positive, not 0");
  CHECK(refused([](VitConfig& c) { c.layers = -1; }) == "vit: layers must not be negative, not -1");
  CHECK(refused([](VitConfig& c) { c.encoder.heads = 4; }) ==
        "encoder: dim 6 is not a multiple of heads 4; give head_dim");
  CHECK(refused([](VitConfig& c) { c.encoder.dropout = 1.0; }) == "encoder: dropout must be in [0, 1), not 1");
  CHECK(refused([](VitConfig& c) {
          c.encoder = {.dim = 5, .heads = 1, .mlp = 4};
          c.position = PositionEmbedding::sinusoidal;
        }) == "vit: a sinusoidal position embedding needs an even dim, not 5");
  CHECK_THROWS_WITH_AS(Linear(0, 3, {}), "Linear: in must be positive, not 0", ValueError);
  CHECK_THROWS_WITH_AS(pooling_named("max"), "pooling: 'max' is not one of cls, mean", ValueError);
  CHECK_THROWS_WITH_AS(
      activation_named("swash"),
      "activation: 'swash' is not one of gelu, gelu_tanh, quick_gelu, relu, relu2, silu, mish, sigmoid, tanh",
      ValueError);
}
