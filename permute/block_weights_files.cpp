// Victims from files.

#include "permute/block_weights.h"

#include "core/base/json.h"
#include "data/safetensors.h"
#include "nn/bert.h"
#include "nn/decoder.h"
#include "nn/hub/folder.h"
#include "nn/hub/llama2c.h"
#include "nn/vit.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eg::permute {
namespace {

BlockWeights of_blocks(std::string name, const nn::Blocks& blocks) {
  if (blocks.empty()) throw FileError(fmt::format("{}: the model has no blocks", name));
  return {.name = std::move(name),
          .block = blocks.front()->config,
          .layers = static_cast<std::int64_t>(blocks.size()),
          .weights = separate_weights(blocks),
          .pictures = {},
          .text = {}};
}

/// The input of a ViT that has a class token or none.
std::optional<PictureInput> pictures_of(const nn::Vit& vit) {
  const nn::VitConfig& c = vit.config;
  if (c.height() != c.width() || !vit.classifier || c.pooling != nn::Pooling::cls || c.distillation) return {};
  PictureInput p;
  p.patch_weight = vit.patch_embedding.weight.clone();
  p.channels = c.channels;
  p.side = c.height();
  p.patch = c.patch;
  p.special = c.special_tokens();
  p.has_positions = vit.position_embedding.defined();
  // The part that does not depend on the image is what a black image gives.
  p.plain = vit.embed(Tensor::zeros({1, c.channels, c.height(), c.width()}, DType::f64)).select(0, 0).contiguous();
  p.norm_eps = vit.norm.eps;
  p.head = {{"norm.weight", vit.norm.weight},
            {"norm.bias", vit.norm.bias},
            {"weight", vit.classifier->weight},
            {"bias", vit.classifier->bias}};
  return p;
}

/// The blocks of a model of the hub; they keep the model alive where embeddings need it.
BlockWeights of_model(const std::string& name, const std::shared_ptr<hub::Model>& model, RandomKey key,
                      bool has_embeddings) {
  model->module().to(DType::f64);
  model->module().eval();
  nn::Module* const module = &model->module();
  if (auto* vit = dynamic_cast<nn::Vit*>(module)) {
    BlockWeights v = of_blocks(name, vit->blocks);
    v.pictures = pictures_of(*vit);
    return v;
  }
  if (nn::Decoder* decoder = model->decoder()) {
    BlockWeights v = of_blocks(name, decoder->blocks);
    v.text = TextInput{.vocabulary = decoder->config.vocabulary,
                       .embed = [model, decoder](const Tensor& ids) { return decoder->embed({.ids = ids}); }};
    return v;
  }
  auto* bert = dynamic_cast<nn::Bert*>(module);
  if (bert == nullptr) throw FileError(fmt::format("{}: no attack knows a {}", name, model->architecture()));
  BlockWeights v = of_blocks(name, bert->blocks);
  v.text = TextInput{.vocabulary = bert->config.vocabulary,
                     .embed = [model, bert](const Tensor& ids) { return bert->embed({.ids = ids}); }};
  if (has_embeddings) return v;
  const Tensor table = random_normal({2000, v.block.dim}, key, 0.0, 1.0, DType::f64);
  v.text = TextInput{
      .vocabulary = 2000, .embed = [table](const Tensor& ids) { return embedding(table, ids); }, .drawn = true};
  return v;
}

/// A folder of Hugging Face's format whose embeddings, and they alone, may be missing.
BlockWeights open_folder(const std::string& folder, RandomKey key) {
  const hub::LoadedModel outline = hub::outline_of_folder(folder);
  const auto is_embedding = [](const std::string& name) { return name.find("embeddings.") != std::string::npos; };
  const std::vector<std::string>& missing = outline.report.missing;
  if (missing.empty()) {
    std::shared_ptr<hub::Model> model = hub::load_model(folder).model;
    return of_model(folder, model, key, true);
  }
  if (!std::all_of(missing.begin(), missing.end(), is_embedding) || outline.model->family() != "bert")
    throw FileError(fmt::format("{}: {}", folder, outline.report.summary()));
  const data::TensorReader file = data::open_tensors(folder);
  std::shared_ptr<hub::Model> model =
      hub::make_model(read_json((std::filesystem::path(folder) / "config.json").string()), key, folder);
  nn::StateDict slots = model->module().state_dict();
  for (const hub::Binding& b : model->bindings())
    for (auto& [name, slot] : slots)
      if (name == b.parameter && file.find(b.file) != nullptr) hub::insert(slot, b, file.read(b.file, {.widen = true}));
  return of_model(folder, model, key, false);
}

/// A ViT of three blocks whose names are its author's (kavishka-dot/shallow-vit-mnist): two linear maps of a patch are
/// added, each head has projections of its own, there is neither class token nor position embedding, and row 0 is read.
class ShallowVit {
public:
  explicit ShallowVit(const std::string& folder)
      : folder_(folder), file_(data::load_safetensors((std::filesystem::path(folder) / "model.safetensors").string())) {
  }

  BlockWeights model() const {
    nn::BlockConfig config{.dim = 32,
                           .heads = 4,
                           .mlp = 128,
                           .activation = nn::Activation::relu,
                           .norm_eps = 1e-5,
                           .qkv_bias = false,
                           .attention_scale = 1.0 / std::sqrt(32.0)};
    BlockWeights v{.name = folder_, .block = config, .layers = 3, .weights = {}, .pictures = {}, .text = {}};
    for (std::int64_t layer = 0; layer < v.layers; ++layer) add_block(v.weights, layer);
    PictureInput p;
    p.channels = 1;
    p.side = 28;
    p.patch = 7;
    p.has_positions = false;
    p.norm_eps = 1e-5;
    p.patch_weight = at("encoder.weight") + at("pos_embedding.weight");
    p.plain = expand((at("encoder.bias") + at("pos_embedding.bias")).unsqueeze(0), {16, config.dim}).contiguous();
    p.head = {{"norm.weight", at("ln_f.weight")},
              {"norm.bias", at("ln_f.bias")},
              {"weight", at("vit_head.weight")},
              {"bias", at("vit_head.bias")}};
    v.pictures = std::move(p);
    return v;
  }

private:
  Tensor at(const std::string& name) const {
    const Tensor* t = file_.find(name);
    if (t == nullptr) throw FileError(fmt::format("{}: the tensor {} is missing", folder_, name));
    return t->to(DType::f64);
  }

  void add_block(nn::StateDict& weights, std::int64_t layer) const {
    const std::string to = fmt::format("blocks.{}.", layer);
    const std::string& from = to;
    for (const auto& [part, name] : {std::pair{"q", "query"}, {"k", "key"}, {"v", "value"}}) {
      std::vector<Tensor> heads;
      heads.reserve(4);
      for (int head = 0; head < 4; ++head)
        heads.push_back(at(fmt::format("{}sa.heads.{}.{}.weight", from, head, name)));
      weights.emplace_back(to + part, concat(heads, 0));
    }
    for (const auto& [part, name] : {std::pair{"o", "sa.proj.weight"},
                                     {"o.bias", "sa.proj.bias"},
                                     {"up", "ffwd.net.0.weight"},
                                     {"up.bias", "ffwd.net.0.bias"},
                                     {"down", "ffwd.net.2.weight"},
                                     {"down.bias", "ffwd.net.2.bias"},
                                     {"norm1.weight", "ln1.weight"},
                                     {"norm1.bias", "ln1.bias"},
                                     {"norm2.weight", "ln2.weight"},
                                     {"norm2.bias", "ln2.bias"}})
      weights.emplace_back(to + part, at(from + name));
  }

  std::string folder_;
  data::TensorFile file_;
};

/// The one llama2.c checkpoint of a folder that has no config.json; "" when there is none.
std::string checkpoint_in(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder) || std::filesystem::exists(folder / "config.json")) return {};
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".bin") && !name.starts_with("tok")) found.push_back(entry.path().string());
  }
  return found.size() == 1 ? found.front() : std::string();
}

} // namespace

BlockWeights open_block_weights(const std::string& path, RandomKey key) {
  const std::string checkpoint = path.ends_with(".bin") ? path : checkpoint_in(path);
  if (!checkpoint.empty()) return of_model(path, hub::load_llama2c(checkpoint), key, true);
  const std::string config = (std::filesystem::path(path) / "config.json").string();
  if (std::filesystem::exists(config)) {
    const nlohmann::json json = read_json(config);
    if (json.is_object() && json.value("architecture", nlohmann::json()) == "shallow ViT, MNIST")
      return ShallowVit(path).model();
  }
  return open_folder(hub::model_folder_of_run(path), key);
}

} // namespace eg::permute
