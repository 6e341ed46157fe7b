// Parameters that are treated otherwise than the rest: their learning rates, their weight decay, Muon's matrices.

#include "core/base/error.h"
#include "core/random.h"
#include "nn/vit.h"
#include "optim/optimizer.h"
#include "training/parameter_groups.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace eg;
using optim::Optimizer;
using training::ParameterRole;

namespace {

constexpr const char* rules[] = {"sgd",     "momentum", "nesterov",  "adam", "adamw",
                                 "rmsprop", "lion",     "adafactor", "muon"};

Tensor drawn(std::uint64_t i) { return random_normal({6, 5}, {3, i}, 0.0, 1.0, DType::f64); }

/// A parameter after three steps with these settings beside one without.
Tensor trained(const char* rule, double rate, double decay, optim::ParameterSettings settings) {
  Tensor w = drawn(0), other = drawn(1);
  const auto optimizer = optim::make_optimizer(rule, {w, other}, decay);
  optimizer->set_settings({settings, {}});
  for (std::uint64_t t = 1; t <= 3; ++t) optimizer->step({drawn(2 * t), drawn(2 * t + 1)}, rate);
  return w;
}

} // namespace

TEST_CASE("optim: a parameter's factor is a learning rate of its own, whatever the rule") {
  for (const char* rule : rules) {
    CAPTURE(rule);
    CHECK(same_bits(trained(rule, 0.5, 0.1, {.learning_rate = 0.25}), trained(rule, 0.125, 0.1, {})));
    CHECK_FALSE(same_bits(trained(rule, 0.5, 0.1, {.learning_rate = 0.25}), trained(rule, 0.5, 0.1, {})));
  }
}

TEST_CASE("optim: a parameter's decay factor is a weight decay of its own, whatever the rule") {
  for (const char* rule : rules) {
    CAPTURE(rule);
    CHECK(same_bits(trained(rule, 0.5, 0.25, {.weight_decay = 0.5}), trained(rule, 0.5, 0.125, {})));
    CHECK(same_bits(trained(rule, 0.5, 0.25, {.weight_decay = 0.0}), trained(rule, 0.5, 0.0, {})));
    CHECK_FALSE(same_bits(trained(rule, 0.5, 0.25, {.weight_decay = 0.0}), trained(rule, 0.5, 0.25, {})));
  }
}

TEST_CASE("optim: a learning rate that is no finite number is refused, and nothing changes") {
  for (const char* rule : rules) {
    const Tensor w = drawn(0), before = w.clone();
    const auto optimizer = optim::make_optimizer(rule, {w}, 0.1);
    for (const double rate : {-0.1, std::nan(""), std::numeric_limits<double>::infinity()}) {
      CHECK_THROWS_AS(optimizer->step({drawn(2)}, rate), ValueError);
      CHECK_THROWS_AS(optimizer->begin(rate), ValueError);
    }
    CHECK(optimizer->steps() == 0);
    CHECK(same_bits(w, before));
  }
}

TEST_CASE("optim: a factor of zero leaves a parameter and its state as they are") {
  for (const char* rule : rules) {
    CAPTURE(rule);
    const Tensor w = drawn(0), other = drawn(1);
    const auto optimizer = optim::make_optimizer(rule, {w, other}, 0.1);
    optimizer->set_settings({{.learning_rate = 0.0}, {}});
    optimizer->step({drawn(2), drawn(3)}, 0.5);
    CHECK(same_bits(w, drawn(0)));
    CHECK_FALSE(same_bits(other, drawn(1)));
    for (const auto& [name, tensor] : optimizer->state(0))
      for (const double x : tensor.to_vector<double>()) CHECK(x == 0.0);
  }
}

TEST_CASE("optim: the gradients of a step may come one by one, with settings, whatever the rule") {
  for (const char* rule : rules) {
    CAPTURE(rule);
    std::vector<Tensor> at_once{drawn(0), drawn(1)}, one_by_one{drawn(0), drawn(1)};
    const auto a = optim::make_optimizer(rule, at_once, 0.1), b = optim::make_optimizer(rule, one_by_one, 0.1);
    for (const auto* optimizer : {&a, &b}) (*optimizer)->set_settings({{.learning_rate = 0.5}, {.hidden = false}});
    for (std::uint64_t t = 1; t <= 3; ++t) {
      a->step({drawn(2 * t), drawn(2 * t + 1)}, 0.1);
      Optimizer::Step step = b->begin(0.1);
      step.update(1, drawn(2 * t + 1));
      step.update(0, drawn(2 * t));
    }
    for (std::size_t i = 0; i < 2; ++i) CHECK(same_bits(at_once[i], one_by_one[i]));
  }
}

TEST_CASE("optim: settings that do not fit are refused") {
  const auto optimizer = optim::adam({drawn(0)});
  CHECK_THROWS_WITH_AS(optimizer->set_settings({}), "adam: 0 settings for 1 parameters", ValueError);
  CHECK_THROWS_WITH_AS(optimizer->set_settings({{.learning_rate = -1.0}}),
                       "adam: learning_rate of parameter 0 is times -1; a factor is finite and not negative",
                       ValueError);
  CHECK_THROWS_WITH_AS(optimizer->set_settings({{.weight_decay = std::numeric_limits<double>::infinity()}}),
                       "adam: weight_decay of parameter 0 is times inf; a factor is finite and not negative",
                       ValueError);
  optimizer->step({drawn(1)}, 0.1);
  CHECK_THROWS_WITH_AS(optimizer->set_settings({{}}), "adam: settings cannot change after step 1", ValueError);
}

TEST_CASE("optim: Muon's hidden matrices have momentum, everything else AdamW's moments") {
  const auto optimizer = optim::muon({drawn(0), drawn(1), Tensor::ones({4})});
  optimizer->set_settings({{}, {.hidden = false}, {}});
  CHECK(optimizer->state(0).size() == 1);
  CHECK(optimizer->state(0)[0].first == "momentum");
  CHECK(optimizer->state(1).size() == 2);
  CHECK(optimizer->state(2).size() == 2);
}

TEST_CASE("training: what a parameter is, by its name and axes") {
  const Tensor matrix = Tensor::ones({2, 3}), vector = Tensor::ones({3}), row = Tensor::ones({1, 1, 3});
  CHECK(training::role_of("blocks.0.attention.qkv.weight", matrix) == ParameterRole::matrix);
  CHECK(training::role_of("blocks.0.attention.qkv.bias", vector) == ParameterRole::vector);
  CHECK(training::role_of("norm.weight", vector) == ParameterRole::vector);
  CHECK(training::role_of("classifier.bias", vector) == ParameterRole::vector);
  CHECK(training::role_of("cls_token", row) == ParameterRole::place);
  CHECK(training::role_of("position_embedding", row) == ParameterRole::place);
  CHECK(training::role_of("position_embedding.weight", matrix) == ParameterRole::place);
  CHECK(training::role_of("token_type_embedding.weight", matrix) == ParameterRole::place);
  CHECK(training::role_of("token_embedding.weight", matrix) == ParameterRole::embedding);
  CHECK(training::role_of("word_embedding.weight", matrix) == ParameterRole::embedding);
  CHECK(training::role_of("lm_head.weight", matrix) == ParameterRole::head);
  CHECK(training::role_of("classifier.weight", matrix) == ParameterRole::head);
  CHECK(training::role_of("patch_embedding.weight", matrix) == ParameterRole::matrix);
}

TEST_CASE("training: layer decay slows blocks by their depth, embeddings most, heads not at all") {
  CHECK(training::depths_of({"patch_embedding.weight", "cls_token", "blocks.0.norm1.weight", "blocks.1.norm1.weight",
                             "blocks.10.mlp.fc1.bias", "norm.weight", "classifier.bias"}) ==
        std::vector<std::int64_t>{0, 0, 1, 2, 11, 12, 12});
  CHECK(training::depths_of({"embedding.weight", "bias"}) == std::vector<std::int64_t>{0, 0});
  nn::VitConfig config;
  config.image = 8;
  config.layers = 2;
  config.encoder = {.dim = 8, .heads = 2, .mlp = 8};
  const nn::Vit model(config, {1, 0});
  training::RunOptions options;
  options.optimizer = "sgd";
  const std::vector<nn::Parameter> parameters = model.named_parameters();
  for (const optim::ParameterSettings& s : training::parameter_settings(options, model)) CHECK(s.learning_rate == 1.0);
  options.layer_decay = 0.5;
  const auto optimizer = training::optimizer_for(options, model, nn::parameter_names(model));
  std::vector<Tensor> ones, before;
  for (const nn::Parameter& p : parameters) {
    ones.push_back(Tensor::ones(p.value.shape()));
    Tensor(p.value).fill(0.0);
  }
  optimizer->step(ones, 1.0);
  for (const nn::Parameter& p : parameters) {
    CAPTURE(p.name);
    const double share = p.name.starts_with("blocks.0.")                                    ? 0.25
                         : p.name.starts_with("blocks.1.")                                  ? 0.5
                         : p.name.starts_with("norm.") || p.name.starts_with("classifier.") ? 1.0
                                                                                            : 0.125;
    CHECK(same_bits(p.value, Tensor::full(p.value.shape(), -share)));
  }
}

TEST_CASE("training: decay on matrices spares biases, gains, tokens and positions, and the default spares nothing") {
  nn::VitConfig config;
  config.image = 8;
  config.layers = 1;
  config.encoder = {.dim = 8, .heads = 2, .mlp = 8};
  const nn::Vit model(config, {1, 0});
  training::RunOptions options;
  for (const optim::ParameterSettings& s : training::parameter_settings(options, model)) CHECK(s.weight_decay == 1.0);
  options.decay_on = training::DecayOn::matrices;
  options.weight_decay = 0.5;
  const std::vector<optim::ParameterSettings> settings = training::parameter_settings(options, model);
  const std::vector<nn::Parameter> parameters = model.named_parameters();
  const auto optimizer = training::optimizer_for(options, model, nn::parameter_names(model));
  std::vector<Tensor> nothing, before;
  for (const nn::Parameter& p : parameters) {
    nothing.push_back(Tensor::zeros(p.value.shape()));
    before.push_back(p.value.clone());
  }
  optimizer->step(nothing, 1.0); // gradients of zero: what moves has decayed
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    CAPTURE(name);
    const bool spared = name.ends_with("bias") || name.find("norm") != std::string::npos || name == "cls_token" ||
                        name == "position_embedding";
    CHECK(settings[i].weight_decay == (spared ? 0.0 : 1.0));
    CHECK(settings[i].hidden == (!spared && name != "classifier.weight"));
    CHECK(same_bits(parameters[i].value, before[i]) == spared);
  }
}
