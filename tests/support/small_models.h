#pragma once
// Small model folders of every family whose numbers are all drawn.

#include "core/call.h"
#include "core/ops.h"
#include "nn/hub/folder.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace eg::test {

/// config.json of a small gpt2, llama, bert, vit or deit.
inline nlohmann::json small_config(const std::string& family) {
  if (family == "gpt2")
    return {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
            {"vocab_size", 257},    {"n_embd", 48},
            {"n_layer", 3},         {"n_head", 4},
            {"n_positions", 256},   {"eos_token_id", 256}};
  if (family == "llama")
    return {{"model_type", "llama"},
            {"architectures", {"LlamaForCausalLM"}},
            {"vocab_size", 257},
            {"hidden_size", 48},
            {"intermediate_size", 80},
            {"num_hidden_layers", 3},
            {"num_attention_heads", 4},
            {"num_key_value_heads", 2},
            {"max_position_embeddings", 256}};
  nlohmann::json encoder{{"model_type", family},
                         {"hidden_size", 32},
                         {"num_hidden_layers", 2},
                         {"num_attention_heads", 4},
                         {"intermediate_size", 64}};
  if (family == "bert") {
    encoder["architectures"] = {"BertForSequenceClassification"};
    encoder["vocab_size"] = 101;
    encoder["max_position_embeddings"] = 40;
    return encoder;
  }
  encoder["architectures"] = {family == "vit" ? "ViTForImageClassification" : "DeiTForImageClassificationWithTeacher"};
  encoder["image_size"] = 16;
  encoder["patch_size"] = 4;
  return encoder;
}

/// Matrices normal(1 / sqrt(in)), gains about 1, everything else about 0, so that nothing that should move is alike.
inline void draw_all(nn::Module& module, RandomKey key) {
  const PauseRecording pause;
  std::uint64_t tag = 0;
  for (nn::Parameter& p : module.named_parameters()) {
    const bool gain = p.name.find("norm") != std::string::npos && p.name.ends_with("weight");
    const double spread = p.value.rank() == 2 ? 1.0 / std::sqrt(static_cast<double>(p.value.size(1))) : 0.3;
    p.value.copy_from(random_normal(p.value.shape(), key.fold(tag++), gain ? 1.0 : 0.0, spread));
  }
}

/// A model folder of that family.
inline void write_small_model(const std::string& folder, const std::string& family, std::uint64_t seed = 1) {
  const auto model = hub::make_model(small_config(family), {seed, 0});
  draw_all(model->module(), {seed, 1});
  hub::save_model(*model, folder);
}

/// Inputs of a pass: texts of which one is padded, or pictures.
inline hub::Tensors small_inputs(const hub::Model& model, DType dtype = DType::f32) {
  if (model.input_names().front() == "pixel_values")
    return {{"pixel_values", random_normal({3, 3, 16, 16}, {5, 0}, 0.0, 1.0, dtype)}};
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < 2 * 12; ++i) ids.push_back(1 + i * 37 % 100);
  std::vector<std::int64_t> mask(24, 1);
  for (std::size_t i = 19; i < 24; ++i) mask[i] = 0;
  return {{"input_ids", Tensor::from<std::int64_t>(ids, {2, 12})},
          {"attention_mask", Tensor::from<std::int64_t>(mask, {2, 12})}};
}

} // namespace eg::test
