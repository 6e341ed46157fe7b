// Models of Hugging Face's transformers: outputs and every gradient, from folders that are written here with the
// weights of tests/golden/transformers_compare.py (which says how numbers are drawn) and read by hub::load_model.

#include "autograd/tape.h"
#include "core/base/json.h"
#include "core/ops.h"
#include "data/safetensors.h"
#include "nn/hub/folder.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

using namespace eg;
using nlohmann::json;
using test::TemporaryFolder;

namespace {

std::uint64_t hash_of(std::string_view name) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

/// Numbers in [-1, 1) that depend on (name, index) alone: FNV-1a, SplitMix64.
Tensor drawn(const std::string& name, const Shape& shape, DType dtype) {
  std::vector<double> values;
  const std::uint64_t h = hash_of(name);
  for (std::uint64_t i = 1; i <= static_cast<std::uint64_t>(shape.numel()); ++i) {
    std::uint64_t x = h + i * 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    x ^= x >> 31;
    values.push_back(static_cast<double>(x >> 40) / 8388608.0 - 1.0);
  }
  return Tensor::from<double>(values, shape).to(dtype);
}

Tensor weight(const std::string& name, const Shape& shape) {
  const Tensor u = drawn(name, shape, DType::f32);
  if (shape.rank() == 1) return u * 0.25 + (name.ends_with("weight") ? 1.0 : 0.0);
  const auto row = static_cast<double>(shape.numel() / shape[0]);
  return u * std::exp2(-std::floor(std::log2(std::sqrt(row))));
}

Shape shape_of(const json& dims) { return Shape(std::span<const std::int64_t>(dims.get<std::vector<std::int64_t>>())); }

/// Largest difference of three projections, over what they can be for the reference's largest entry.
double error(const std::string& name, const Tensor& ours, const json& theirs) {
  REQUIRE_MESSAGE(ours.shape() == shape_of(theirs[0]), name);
  const Tensor t = ours.to(DType::f64);
  double worst = 0.0;
  for (int k = 0; k < 3; ++k) {
    const double projected = sum(t * drawn(fmt::format("{}.{}", k, name), t.shape(), DType::f64)).item();
    worst = std::max(worst, std::abs(projected - theirs[static_cast<std::size_t>(2 + k)].get<double>()));
  }
  return worst / std::sqrt(static_cast<double>(t.numel()));
}

struct Pass {
  hub::Tensors outputs, gradients;
};

hub::Tensors inputs_of(const json& entry, DType dtype) {
  hub::Tensors inputs;
  for (const auto& [name, value] : entry["inputs"].items()) {
    const Shape shape = shape_of(value[0]);
    inputs.emplace_back(name, value[1].empty()
                                  ? drawn("input." + name, shape, dtype)
                                  : Tensor::from<std::int64_t>(value[1].get<std::vector<std::int64_t>>(), shape));
  }
  return inputs;
}

/// What padding tokens say is nobody's business: x [B, T, ...] times the mask.
Tensor masked(const Tensor& x, const Tensor& mask) {
  if (!mask.defined() || x.rank() < 2 || x.size(0) != mask.size(0) || x.size(1) != mask.size(1)) return x;
  const Tensor factor = mask.to(x.dtype());
  return x * (x.rank() == 3 ? factor.unsqueeze(-1) : factor);
}

Pass run(const hub::Model& model, const hub::Tensors& inputs, DType dtype) {
  Tape tape;
  Pass pass{.outputs = model.forward(inputs), .gradients = {}};
  const Tensor mask = hub::find(inputs, "attention_mask");
  std::vector<Tensor> ys, cotangents, xs = model.module().parameters();
  for (auto& [name, y] : pass.outputs) {
    ys.push_back(y);
    cotangents.push_back(masked(drawn("cotangent." + name, y.shape(), dtype), mask));
  }
  const std::size_t parameters = xs.size();
  const Tensor pixels = hub::find(inputs, "pixel_values");
  if (pixels.defined()) xs.push_back(pixels);
  std::vector<Tensor> g = tape.gradient(ys, xs, cotangents);
  for (auto& [name, y] : pass.outputs) y = masked(y, mask);
  if (pixels.defined()) pass.gradients.emplace_back("input.pixel_values", g[parameters]);
  g.resize(parameters);
  for (auto& named : model.by_file_names(g)) pass.gradients.push_back(std::move(named));
  return pass;
}

/// The largest entry that counts: a gradient that is 0 in truth (a key's bias) is rounding of the largest one.
double scale_of(const json& entry, const char* kind, const std::string& name) {
  double largest = 0.0;
  for (const auto& [other, numbers] : entry[kind].items()) largest = std::max(largest, numbers[1].get<double>());
  const double own = entry[kind][name][1].get<double>();
  return own > 1e-10 * largest ? own : largest;
}

double worst_error(const json& entry, const char* kind, const hub::Tensors& ours) {
  std::set<std::string> names;
  double worst = 0.0;
  for (const auto& [key, tensor] : ours) {
    const std::string& name = key; // clang 14 captures no structured binding
    REQUIRE_MESSAGE(entry[kind].contains(name), name);
    names.insert(name);
    worst = std::max(worst, error(name, tensor, entry[kind][name]) / scale_of(entry, kind, name));
  }
  CHECK(names.size() == entry[kind].size());
  return worst;
}

/// A model folder as transformers would have saved it.
void write_folder(const json& config, const std::string& folder, std::uint64_t shard_bytes) {
  write_json(folder + "/config.json", config);
  hub::Tensors weights;
  const auto model = hub::make_model(config, {});
  for (const hub::Binding& b : model->bindings()) weights.emplace_back(b.file, weight(b.file, b.shape));
  data::save_sharded(folder, weights, {.max_bytes = shard_bytes});
}

json fixture() { return read_json(EQUIGRAD_SOURCE_DIR "/tests/golden/transformers.json"); }

} // namespace

TEST_CASE("outputs and gradients of transformers' models in f64 and f32") {
  const json all = fixture();
  REQUIRE(all["cases"].size() == 42);
  std::size_t number = 0;
  for (const json& entry : all["cases"]) {
    CAPTURE(entry["name"].get<std::string>());
    const TemporaryFolder folder;
    write_folder(entry["config"], folder.path(), number++ % 3 == 0 ? 20000 : 1 << 30);
    for (const DType dtype : {DType::f64, DType::f32}) {
      const bool resampled = entry.contains("image_size");
      hub::LoadModelOptions options{.dtype = dtype};
      if (resampled) options.image_size.emplace(entry["image_size"][0], entry["image_size"][1]);
      const hub::LoadedModel loaded = hub::load_model(folder.path(), options);
      Pass pass = run(*loaded.model, inputs_of(entry, dtype), dtype);
      if (resampled) // there is one for the embeddings after resampling, in the fixture none
        std::erase_if(pass.gradients, [](const auto& g) { return g.first.ends_with("position_embeddings"); });
      const double bound = dtype == DType::f64 ? 1e-10 : 2e-5;
      CHECK(worst_error(entry, "outputs", pass.outputs) < bound);
      CHECK(worst_error(entry, "gradients", pass.gradients) < bound);
    }
  }
}

TEST_CASE("control: one weight of a thousandth more is seen in outputs and gradients") {
  const json entry = fixture()["cases"][0];
  const TemporaryFolder folder;
  write_folder(entry["config"], folder.path(), 1 << 30);
  const hub::LoadedModel loaded = hub::load_model(folder.path(), {.dtype = DType::f64});
  Tensor some = loaded.model->module().parameters()[7];
  some.copy_from(some * 1.001);
  const Pass pass = run(*loaded.model, inputs_of(entry, DType::f64), DType::f64);
  CHECK(worst_error(entry, "outputs", pass.outputs) > 1e-6);
  CHECK(worst_error(entry, "gradients", pass.gradients) > 1e-6);
}

TEST_CASE("a folder that is written again holds the same bytes under the same names, sharded or not") {
  for (const json& entry : fixture()["cases"]) {
    CAPTURE(entry["name"].get<std::string>());
    const TemporaryFolder first, second;
    write_folder(entry["config"], first.path(), 1 << 30);
    hub::save_model(*hub::load_model(first.path()).model, second.path(), 30000);
    const data::TensorReader a = data::open_tensors(first.path()), b = data::open_tensors(second.path());
    std::size_t written = 0; // an untied bias of BERT's decoder has two names
    for (const hub::Binding& binding : hub::load_model(first.path()).model->bindings())
      written += binding.twin.empty() ? 1 : 2;
    REQUIRE(b.tensors().size() == written);
    for (const data::TensorInfo& info : a.tensors()) CHECK(same_bits(a.read(info.name), b.read(info.name)));
    const hub::LoadedModel again = hub::load_model(second.path());
    CHECK(again.report.complete());
    CHECK(again.report.renamed.empty());
  }
}
