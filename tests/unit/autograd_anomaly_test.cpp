#include "autograd/anomaly.h"

#include "autograd/checkpoint.h"
#include "autograd/tape.h"
#include "core/ops.h"
#include "core/random.h"
#include "nn/vit.h"
#include "support/message.h"
#include "unit/autograd_vectors.h"

#include <doctest/doctest.h>

#include <limits>

using namespace eg;
using namespace eg::test;

namespace {

void says(const std::string& message, std::initializer_list<const char*> words) {
  INFO(message);
  for (const char* word : words) CHECK(message.find(word) != std::string::npos);
  CHECK_FALSE(recording());
}

} // namespace

TEST_CASE("anomaly: the first operation of the forward pass, its place and its inputs' ranges") {
  const std::string message = test::message_of<NumericError>([] {
    const DetectAnomaly watch;
    const PlaceScope place("encoder.3");
    const Tensor x = vec({4, -1, 0, -2.5});
    const Tensor fine = mul(x, x);
    log(add(log(x), fine));
  });
  says(message, {"anomaly: log gave 2 NaN and 1 infinite of 4 values in y f64 [4] (at encoder.3)",
                 "input x f64 [4]: -2.5 to 4, 0 not finite"});
}

TEST_CASE("anomaly: a rule of the backward pass, named with the operation whose gradient it is") {
  const std::string message = test::message_of<NumericError>([] {
    const DetectAnomaly watch;
    const Tensor x = vec({4, 0});
    Tape tape;
    Tensor y;
    {
      const PlaceScope place("head");
      y = sum(sqrt(x));
    }
    tape.gradient(y, {x});
  });
  says(message, {"infinite of 2 values", "(at head)", "in the gradient of sqrt"});
}

TEST_CASE("anomaly: rules that compute in loops of their own, and sums of gradients") {
  const auto op = std::make_shared<CustomOp>();
  op->name = "careless";
  op->forward = [](std::span<const Tensor> in) -> std::vector<Tensor> { return {in[0].clone()}; };
  op->vjp = [](std::span<const Tensor> in, std::span<const Tensor>, std::span<const Tensor>) -> std::vector<Tensor> {
    return {Tensor::full(in[0].shape(), std::numeric_limits<double>::quiet_NaN(), DType::f64)};
  };
  says(test::message_of<NumericError>([&] {
         const Tensor x = vec({1, 2});
         const DetectAnomaly watch;
         Tape tape;
         tape.gradient(sum(call(op, std::span(&x, 1))[0]), {x});
       }),
       {"the rule of careless gave 2 NaN and 0 infinite of 2 values in the gradient of input 0",
        "cotangent 0 f64 [2]: 1 to 1"});
  says(test::message_of<NumericError>([&] {
         const Tensor x = Tensor::full({2}, 1.0);
         const DetectAnomaly watch;
         Tape tape;
         const Tensor h = affine(x, 1.0, 0.0);
         tape.gradient(sum(add(affine(h, 3e38, 0.0), affine(h, 3e38, 0.0))), {x});
       }),
       {"infinite of"});
}

TEST_CASE("anomaly: inside a model, plain and checkpointed, forward") {
  for (const bool checkpointed : {false, true}) {
    CAPTURE(checkpointed);
    nn::VitConfig c;
    c.image = 8;
    c.layers = 2;
    c.encoder = {.dim = 16, .heads = 2, .mlp = 24, .checkpoint = checkpointed};
    nn::Vit model(c, {1, 0});
    model.blocks[1]->attention.qkv.bias.fill(std::numeric_limits<double>::infinity());
    const Tensor images = random_normal({2, 3, 8, 8}, {2, 0});
    const std::string message = test::message_of<NumericError>([&] {
      const DetectAnomaly watch;
      Tape tape;
      model(images);
    });
    says(message,
         {"anomaly: linear gave 0 NaN and", "(at blocks.1.attention.qkv)", "input bias f32 [48]: no finite value, 48"});
  }
}

TEST_CASE("anomaly: finite work is left alone and has the same bits; infinities may be allowed") {
  const Tensor x = random_normal({33, 7}, {3, 0});
  const auto gradient = [&] {
    Tape tape;
    const Tensor y = softmax(mul(x, x));
    return tape.gradient(sum(mul(y, x)), {x, x});
  };
  const std::vector<Tensor> plain = gradient();
  const DetectAnomaly watch;
  std::vector<Tensor> watched = gradient();
  CHECK(same_bits(plain[0], watched[0]));
  watched[0].fill(1.0); // gradients share no elements, also when an observer listens
  CHECK(same_bits(plain[1], watched[1]));
  CHECK_THROWS_AS(log(vec({0})), NumericError);
  const std::string allowed = test::message_of<NumericError>([] {
    const PauseRecording pause;
    const DetectAnomaly only_nan({.infinities = false});
    log(vec({0}));
    log(vec({-1}));
  });
  CHECK(allowed.find("1 NaN") != std::string::npos);
}

TEST_CASE("anomaly: a sum of cotangents that overflows shows what was added, not the sum twice") {
  const std::string message = test::message_of<NumericError>([] {
    const DetectAnomaly watch;
    const Tensor x = Tensor::from(std::vector<float>{0.1F}, {1});
    Tape tape;
    const Tensor y = x * 3e38 + x * 2.9e38;
    tape.gradient(y, {x}, Tensor::ones({1}));
  });
  INFO(message);
  CHECK(message.find("add gave") != std::string::npos);
  CHECK(message.find("0 not finite") != std::string::npos);
  CHECK(message.find("no finite value") == std::string::npos);
}
