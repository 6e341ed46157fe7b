// Memory that saving a model takes: nothing of the size of its weights.

#include "core/memory/allocator.h"
#include "data/loader.h"
#include "nn/hub/folder.h"
#include "nn/vit.h"
#include "support/temporary_folder.h"
#include "training/vision_model.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <optional>

using namespace eg;
using namespace eg::test;

namespace {

/// The most bytes that were live at once during `f`, beyond those that were before.
template <class F> std::size_t peak_of(F f) {
  allocator::reset_peak();
  const std::size_t before = allocator::stats().live_bytes;
  f();
  return allocator::stats().peak_bytes - before;
}

std::size_t bytes_of(const nn::Module& module) { return static_cast<std::size_t>(module.parameter_count()) * 4; }

nn::VitConfig config() {
  nn::VitConfig config;
  config.image = 8;
  config.patch = 4;
  config.channels = 3;
  config.classes = 3;
  config.layers = 3;
  config.encoder.dim = 64;
  config.encoder.heads = 4;
  config.encoder.mlp = 128;
  return config;
}

} // namespace

TEST_CASE("saving a model takes no memory for a second set of weights") {
  const TemporaryFolder folder;
  nn::Vit vit(config(), {.seed = 7});
  const data::Normalization pixels{.mean = {0.5, 0.4, 0.3}, .stddev = {0.2, 0.3, 0.4}};
  const std::optional<nlohmann::json> written = training::vision_config(vit.config, {"a", "b", "c"}, pixels);
  REQUIRE(written.has_value());
  const std::string path = folder.path("vit");
  const std::size_t saving = peak_of([&] { training::save_vision_model(vit, *written, pixels, path); });
  CHECK(saving < bytes_of(vit) / 8);

  const hub::LoadedModel loaded = hub::load_model(path);
  const std::size_t again = peak_of([&] { hub::save_model(*loaded.model, folder.path("again")); });
  CHECK(again < bytes_of(loaded.model->module()) / 8);
  // Control: a copy of the weights shows up in the figure.
  const std::size_t copied = peak_of([&] {
    std::vector<Tensor> copies;
    for (const Tensor& value : vit.parameters()) copies.push_back(value.clone());
  });
  CHECK(copied >= bytes_of(vit));
  // What was saved are these weights.
  const std::vector<Tensor> before = vit.parameters(), after = loaded.model->module().parameters();
  REQUIRE(before.size() == after.size());
  for (std::size_t i = 0; i < before.size(); ++i)
    CHECK(std::memcmp(before[i].data<float>(), after[i].data<float>(), before[i].nbytes()) == 0);
}
