// Modules, initialisers and random tensors on a device.

#include "autograd/tape.h"
#include "core/device/device.h"
#include "core/ops.h"
#include "core/random.h"
#include "nn/init.h"
#include "nn/layers.h"
#include "nn/metrics.h"

#include <doctest/doctest.h>

using namespace eg;

namespace {

const Device gpu = Device::cuda();

/// Two layers, a buffer, and a parameter that stands in two places.
class Tied : public nn::Module {
public:
  Tied() : first(4, 3, {1, 2}), second(3, 4, {3, 4}) {
    register_module("first", first);
    register_module("second", second);
    tied = first.weight;
    register_parameter("tied", tied);
    buffer = random_normal({5}, {5, 6});
    register_buffer(buffer);
  }
  nn::Linear first, second;
  Tensor tied, buffer;
};

} // namespace

TEST_CASE("a module goes to the device and back with its bits") {
  Tied model;
  const nn::StateDict before = [&] {
    nn::StateDict copies;
    for (const auto& [name, tensor] : model.state_dict()) copies.emplace_back(name, tensor.clone());
    return copies;
  }();
  const Tensor buffer = model.buffer;
  model.to(gpu);
  for (const nn::Parameter& p : model.named_parameters()) CHECK_MESSAGE(p.value.device() == gpu, p.name);
  CHECK(model.buffer.device() == gpu);
  CHECK(same_bits(model.buffer, buffer));
  CHECK(model.tied.storage() == model.first.weight.storage());
  const nn::StateDict there = model.state_dict();
  REQUIRE(there.size() == before.size());
  for (std::size_t i = 0; i < there.size(); ++i) CHECK_MESSAGE(same_bits(there[i].second, before[i].second), i);

  nn::StateDict zeros;
  for (const auto& [name, tensor] : before) zeros.emplace_back(name, Tensor::zeros(tensor.shape()));
  model.load_state_dict(zeros);
  CHECK(model.second.weight.device() == gpu);
  CHECK(same_bits(model.second.weight, zeros[2].second));
  model.load_state_dict(before);
  model.to(Device::cpu());
  CHECK(same_bits(model.second.weight, before[2].second));
  CHECK(model.tied.storage() == model.first.weight.storage());
}

TEST_CASE("a module that is moved is on no tape") {
  Tied model;
  const Tensor old = model.first.bias;
  Tape tape;
  model.to(gpu);
  const Tensor y = model.first.bias * 2.0;
  const std::vector<Tensor> g = tape.gradient(y, {old, model.first.bias}, Tensor::ones({3}).to(gpu));
  CHECK(same_bits(g[0], Tensor::zeros({3})));
  CHECK(same_bits(g[1], Tensor::full({3}, 2.0)));
}

TEST_CASE("weights in fewer bits move too") {
  for (const nn::WeightStorage storage : {nn::WeightStorage::bf16, nn::WeightStorage::int8}) {
    nn::Embedding table(6, 4, {7, 8});
    table.narrow(storage);
    const Tensor ids = Tensor::from<std::int64_t>({5, 0, 2}, {3});
    const Tensor here = table(ids);
    table.to(gpu);
    CHECK_THROWS_AS(table(ids), DeviceError); // the ids are on the CPU
    table.to(Device::cpu());
    CHECK(same_bits(table(ids), here));
  }
}

TEST_CASE("what is drawn for a device has the bits of the CPU") {
  const auto drawn = [] {
    std::vector<Tensor> all = {random_normal({3, 5}, {1, 1}), random_uniform({7}, {2, 2}, -1.0, 1.0, DType::f64),
                               random_integers({9}, {3, 3}, -4, 100), random_permutation(11, {4, 4}),
                               random_nonidentity_permutation(4, {5, 5})};
    for (const auto& fill : {+[](Tensor& x) {
                               nn::init::trunc_normal(x, 0.02, {6, 6});
                             },
                             +[](Tensor& x) {
                               nn::init::xavier_uniform(x, {7, 7});
                             },
                             +[](Tensor& x) {
                               nn::init::xavier_normal(x, {8, 8});
                             },
                             +[](Tensor& x) {
                               nn::init::kaiming_uniform(x, {9, 9});
                             },
                             +[](Tensor& x) {
                               nn::init::kaiming_normal(x, {10, 10});
                             },
                             +[](Tensor& x) {
                               nn::init::uniform(x, -3.0, 2.0, {11, 11});
                             },
                             +[](Tensor& x) {
                               nn::init::normal(x, 0.5, {12, 12});
                             },
                             +[](Tensor& x) { nn::init::constant(x, 0.75); }}) {
      Tensor x = Tensor::empty({4, 6}, all.size() % 2 == 0 ? DType::f32 : DType::f64);
      fill(x);
      all.push_back(x);
    }
    const nn::Linear layer(3, 2, {13, 13});
    for (const Tensor& p : layer.parameters()) all.push_back(p);
    return all;
  };
  const std::vector<Tensor> here = drawn();
  const DeviceScope scope(gpu);
  const std::vector<Tensor> there = drawn();
  REQUIRE(here.size() == there.size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    CHECK_MESSAGE(there[i].device() == gpu, i);
    CHECK_MESSAGE(same_bits(here[i], there[i]), i);
  }
}

TEST_CASE("metrics read the device") {
  const Tensor logits = random_normal({6, 4}, {14, 14});
  const Tensor labels = random_integers({6}, {15, 15}, 0, 4);
  CHECK(nn::count_in_top(logits.to(gpu), labels.to(gpu), 2) == nn::count_in_top(logits, labels, 2));
  CHECK(same_bits(nn::confusion_matrix(labels.to(gpu), labels.to(gpu), 4), nn::confusion_matrix(labels, labels, 4)));
}
