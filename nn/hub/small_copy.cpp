#include "nn/hub/small_copy.h"

#include "core/ops.h"
#include "data/tensor_reader.h"
#include "nn/bert.h"
#include "nn/decoder.h"
#include "nn/vit.h"

#include <algorithm>

namespace eg::hub {
namespace {

/// Small sizes of a stack of blocks.
struct SmallBlocks {
  std::int64_t layers, heads, kv_heads, head_dim, dim, mlp;
};

SmallBlocks small_blocks(const nn::BlockConfig& b, std::int64_t layers) {
  const std::int64_t kv_heads = b.kv_heads > 0 ? b.kv_heads : b.heads;
  SmallBlocks s{};
  s.layers = std::min<std::int64_t>(layers, 2);
  s.kv_heads = std::min<std::int64_t>(kv_heads, 3);
  s.heads = s.kv_heads * std::min<std::int64_t>(b.heads / kv_heads, 2);
  s.head_dim = std::min<std::int64_t>(b.width_of_head(), 4);
  // Where heads are not dim wide together, neither are they here.
  s.dim = b.heads * b.width_of_head() == b.dim ? s.heads * s.head_dim : s.heads * (s.head_dim + 1);
  s.mlp = std::min<std::int64_t>(b.mlp, 7);
  return s;
}

/// Under the names of all families but GPT-2's and timm's.
void write_blocks(nlohmann::json& config, const SmallBlocks& s) {
  config["num_hidden_layers"] = s.layers;
  config["hidden_size"] = s.dim;
  config["num_attention_heads"] = s.heads;
  config["intermediate_size"] = s.mlp;
}

std::int64_t small_vocabulary(std::int64_t n) { return std::min<std::int64_t>(n, 11); }
std::int64_t small_positions(std::int64_t n) { return std::min<std::int64_t>(n, 5); }

/// Height and width of a small image in pixels, [h, w], and of its patches.
std::pair<nlohmann::json, std::int64_t> small_image(const nn::VitConfig& c) {
  const std::int64_t patch = std::min<std::int64_t>(c.patch, 2);
  const std::int64_t rows = c.height() / c.patch, columns = c.width() / c.patch;
  const std::int64_t high = std::min<std::int64_t>(rows, 3);
  const std::int64_t wide = std::min<std::int64_t>(columns, rows == columns ? 3 : 2);
  return {{high * patch, wide * patch}, patch};
}

void shrink_labels(nlohmann::json& config, std::int64_t labels) {
  for (const char* names : {"id2label", "label2id"}) config.erase(names);
  config["num_labels"] = std::min<std::int64_t>(labels, 5);
}

/// The id of padding stays inside or outside the vocabulary, before its end or counted from it.
void shrink_padding(nlohmann::json& config, std::int64_t from, std::int64_t to) {
  const auto found = config.find("pad_token_id");
  if (found == config.end() || !found->is_number_integer()) return;
  const auto id = found->get<std::int64_t>();
  *found = id < 0 ? std::max(id, -to) : id < from ? std::min(id, to - 1) : to;
}

void shrink(nlohmann::json& config, const nn::Vit& model) {
  const nn::VitConfig& c = model.config;
  const SmallBlocks s = small_blocks(c.encoder, c.layers);
  const auto [image, patch] = small_image(c);
  const std::int64_t channels = std::min<std::int64_t>(c.channels, 3), classes = std::min<std::int64_t>(c.classes, 5);
  if (!config.contains("model_type")) { // timm
    nlohmann::json& args = config["model_args"];
    args["img_size"] = image;
    args["patch_size"] = patch;
    args["in_chans"] = channels;
    args["num_classes"] = classes;
    args["depth"] = s.layers;
    args["embed_dim"] = s.dim;
    args["num_heads"] = s.heads;
    args["mlp_ratio"] = (static_cast<double>(s.mlp) + 0.5) / static_cast<double>(s.dim); // rounded down to s.mlp
    config["num_classes"] = classes;
    return;
  }
  config["image_size"] = image;
  config["patch_size"] = patch;
  config["num_channels"] = channels;
  write_blocks(config, s);
  config.erase("pooler_output_size");
  if (c.pooler > 0 && c.pooler != c.encoder.dim) config["pooler_output_size"] = std::min<std::int64_t>(c.pooler, 3);
  if (c.classes > 0) shrink_labels(config, c.classes);
}

void shrink(nlohmann::json& config, const nn::Bert& model) {
  const nn::BertConfig& c = model.config;
  const SmallBlocks s = small_blocks(c.encoder, c.layers);
  config["vocab_size"] = small_vocabulary(c.vocabulary);
  shrink_padding(config, c.vocabulary, small_vocabulary(c.vocabulary));
  config["max_position_embeddings"] = small_positions(c.positions);
  config["type_vocab_size"] = std::min<std::int64_t>(c.token_types, 3);
  write_blocks(config, s);
  shrink_labels(config, c.labels);
}

void shrink(nlohmann::json& config, const nn::Decoder& model) {
  const nn::DecoderConfig& c = model.config;
  const SmallBlocks s = small_blocks(c.block, c.layers);
  config["vocab_size"] = small_vocabulary(c.vocabulary);
  shrink_padding(config, c.vocabulary, small_vocabulary(c.vocabulary));
  shrink_labels(config, c.labels);
  if (c.learned_positions) { // GPT-2, whose sizes have two names
    for (const char* other :
         {"hidden_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings", "n_ctx"})
      config.erase(other);
    config["n_embd"] = s.dim;
    config["n_head"] = s.heads;
    config["n_layer"] = s.layers;
    config["n_inner"] = s.mlp;
    config["n_positions"] = small_positions(c.positions);
    return;
  }
  write_blocks(config, s);
  config["num_key_value_heads"] = s.kv_heads;
  config["head_dim"] = s.head_dim;
  config["max_position_embeddings"] = small_positions(c.positions);
}

/// Names of the model's tensors, for those who look at names alone.
data::TensorReader names_of(const Model& model) {
  data::TensorReader::Contents contents{
      .path = "a small copy", .format = "safetensors", .files = {}, .tensors = {}, .metadata = {}};
  for (const Binding& b : model.bindings()) contents.tensors.emplace_back().name = b.file;
  return {std::move(contents), nullptr};
}

} // namespace

nlohmann::json small_config(const Model& model) {
  nlohmann::json config = model.config();
  const nn::Module& module = model.module();
  if (const auto* vit = dynamic_cast<const nn::Vit*>(&module))
    shrink(config, *vit);
  else if (const auto* bert = dynamic_cast<const nn::Bert*>(&module))
    shrink(config, *bert);
  else if (const auto* decoder = dynamic_cast<const nn::Decoder*>(&module))
    shrink(config, *decoder);
  else
    throw ValueError("small_config: the model is of no known family");
  return config;
}

std::unique_ptr<Model> small_copy(const Model& model, RandomKey key) {
  const data::TensorReader names = names_of(model);
  std::unique_ptr<Model> small = make_model(small_config(model), key, "a small copy", &names);
  small->module().to(DType::f64);
  small->module().eval();
  std::uint64_t number = 0;
  for (nn::Parameter& p : small->module().named_parameters())
    p.value.copy_from(random_normal(p.value.shape(), key.fold(++number), 0.0, 0.5, DType::f64));
  return small;
}

Tensors random_inputs(const Model& model, RandomKey key) {
  const nn::Module& module = model.module();
  std::int64_t ids = 0;
  if (const auto* bert = dynamic_cast<const nn::Bert*>(&module)) ids = bert->config.vocabulary;
  if (const auto* decoder = dynamic_cast<const nn::Decoder*>(&module)) ids = decoder->config.vocabulary;
  Tensors inputs = model.input_shapes(1);
  for (auto& [name, t] : inputs)
    t = t.dtype() == DType::i64 ? random_integers(t.shape(), key, 0, ids)
                                : random_normal(t.shape(), key, 0.0, 1.0, DType::f64);
  return inputs;
}

} // namespace eg::hub
