// ViT and DeiT: names, settings, outputs.

#include "nn/hub/family.h"
#include "nn/vit.h"

#include <fmt/format.h>

#include <array>

namespace eg::hub {

double rows_of(const nn::VitConfig& c) {
  const auto patch = static_cast<double>(c.patch);
  const double patches = static_cast<double>(c.height()) / patch * (static_cast<double>(c.width()) / patch);
  return patches + static_cast<double>(c.channels) * patch * patch + sum_of({c.classes, c.pooler});
}

namespace {

using nn::Head;

constexpr std::array<Architecture, 2> vit_architectures{
    {{"ViTModel", Head::none, "", nullptr},
     {"ViTForImageClassification", Head::sequence_classification, "vit.", "classifier"}}};

constexpr std::array<Architecture, 3> deit_architectures{
    {{"DeiTModel", Head::none, "", nullptr},
     {"DeiTForImageClassification", Head::sequence_classification, "deit.", "classifier"},
     {"DeiTForImageClassificationWithTeacher", Head::sequence_classification, "deit.", "cls_classifier"}}};

constexpr std::array<NameRule, 14> vision_names{{
    {"embeddings.cls_token", "cls_token"},
    {"embeddings.distillation_token", "distillation_token"},
    {"embeddings.position_embeddings", "position_embedding"},
    {"embeddings.patch_embeddings.projection", "patch_embedding"},
    {"encoder.layer.{}.attention.attention.query", "blocks.{}.attention.qkv", Part::q},
    {"encoder.layer.{}.attention.attention.key", "blocks.{}.attention.qkv", Part::k},
    {"encoder.layer.{}.attention.attention.value", "blocks.{}.attention.qkv", Part::v},
    {"encoder.layer.{}.attention.output.dense", "blocks.{}.attention.proj"},
    {"encoder.layer.{}.intermediate.dense", "blocks.{}.mlp.fc1"},
    {"encoder.layer.{}.output.dense", "blocks.{}.mlp.fc2"},
    {"encoder.layer.{}.layernorm_before", "blocks.{}.norm1"},
    {"encoder.layer.{}.layernorm_after", "blocks.{}.norm2"},
    {"layernorm", "norm"},
    {"pooler.dense", "pooler"},
}};

constexpr std::array<NameRule, 1> vision_head_names{{{"distillation_classifier", "distillation_classifier"}}};

nn::VitConfig config_of(const Request& r, const Architecture& a, bool deit) {
  const Fields& f = r.fields;
  nn::VitConfig c;
  const auto [height, width] = f.sizes("image_size", 224);
  const auto [patch_height, patch_width] = f.sizes("patch_size", 16);
  if (patch_height != patch_width) f.refuse("patch_size", "is not square");
  c.image = height;
  c.image_width = width;
  c.patch = patch_height;
  c.channels = f.integer("num_channels", 3);
  c.layers = f.integer("num_hidden_layers", 12);
  c.encoder.dim = f.integer("hidden_size", 768);
  c.encoder.heads = f.integer("num_attention_heads", 12);
  c.encoder.mlp = f.integer("intermediate_size", 3072);
  c.encoder.activation = activation_of(f, "hidden_act", "gelu");
  c.encoder.norm_eps = f.real("layer_norm_eps", 1e-12);
  c.encoder.dropout = f.real("hidden_dropout_prob", 0.0);
  c.encoder.attention_dropout = f.real("attention_probs_dropout_prob", 0.0);
  c.embedding_dropout = c.encoder.dropout;
  c.encoder.qkv_bias = f.flag("qkv_bias", true);
  c.classes = a.head == Head::none ? 0 : labels_of(f, a);
  c.distillation = deit;
  c.distillation_head = std::string_view(a.name).ends_with("WithTeacher");
  if (a.head == Head::none && r.has("pooler.dense.weight")) {
    c.pooler = f.integer("pooler_output_size", c.encoder.dim);
    c.pooler_activation = activation_of(f, "pooler_act", "tanh");
  }
  r.need_room(c.encoder, c.layers, rows_of(c));
  return c;
}

class VisionModel : public ModelOf<nn::Vit> {
public:
  VisionModel(const Request& request, const Family& family, const Architecture& a, bool deit)
      : ModelOf(request, family, a, config_of(request, a, deit)) {
    const nn::BlockConfig& e = model_.config.encoder;
    name_tensors(vision_names, vision_head_names, a.classifier, {e.heads, e.heads, e.width_of_head()});
    for (Binding& b : bindings_)
      if (b.parameter == "patch_embedding.weight")
        b.shape = {e.dim, model_.config.channels, model_.config.patch, model_.config.patch};
    extras_ = {"*embeddings.mask_token"};
    if (!model_.pooler) extras_.insert(extras_.end(), {"*pooler.dense.weight", "*pooler.dense.bias"});
  }

  std::vector<std::string> input_names() const override { return {"pixel_values"}; }
  Tensors input_shapes(std::int64_t batch) const override {
    const nn::VitConfig& c = model_.config;
    return {{"pixel_values", Tensor::meta({batch, c.channels, c.height(), c.width()}, DType::f32)}};
  }

  std::int64_t positions() const override { return model_.config.tokens(); }

protected:
  Tensors run(const Tensors& in, RandomKey key, const Elsewhere& elsewhere) const override {
    const Tensor embedded = model_.embed(required(in, "pixel_values"), key.fold(0));
    const Tensor z = elsewhere ? elsewhere(embedded, {}) : model_.encode(embedded, key.fold(1));
    if (model_.distillation_classifier) {
      const nn::Vit::TwoLogits both = model_.heads(z);
      return {{"logits", (both.classes + both.distillation) * 0.5},
              {"cls_logits", both.classes},
              {"distillation_logits", both.distillation}};
    }
    if (model_.classifier) return {{"logits", model_.head(z)}};
    const Tensor hidden = model_.norm(z);
    if (!model_.pooler) return {{"last_hidden_state", hidden}};
    return {{"last_hidden_state", hidden}, {"pooler_output", model_.pool(z)}};
  }
};

std::unique_ptr<Model> make_vit(const Request& request, const Architecture& a) {
  return std::make_unique<VisionModel>(request, vit_family, a, false);
}

std::unique_ptr<Model> make_deit(const Request& request, const Architecture& a) {
  return std::make_unique<VisionModel>(request, deit_family, a, true);
}

} // namespace

const Family vit_family{"vit", vit_architectures, make_vit};
const Family deit_family{"deit", deit_architectures, make_deit};

} // namespace eg::hub
