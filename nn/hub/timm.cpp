// Vision transformers of timm: config.json with "architecture" instead of "model_type", names of their own.

#include "nn/hub/timm.h"

#include "core/ops.h"
#include "nn/hub/family.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace eg::hub {
namespace {

constexpr std::array<Architecture, 1> architectures{
    {{"VisionTransformer", nn::Head::sequence_classification, "", "head"}}};

constexpr std::array<NameRule, 12> timm_names{{
    {"cls_token", "cls_token"},
    {"pos_embed", "position_embedding"},
    {"dist_token", "distillation_token"},
    {"patch_embed.proj", "patch_embedding"},
    {"blocks.{}.norm1", "blocks.{}.norm1"},
    {"blocks.{}.attn.qkv", "blocks.{}.attention.qkv"},
    {"blocks.{}.attn.proj", "blocks.{}.attention.proj"},
    {"blocks.{}.norm2", "blocks.{}.norm2"},
    {"blocks.{}.mlp.fc1", "blocks.{}.mlp.fc1"},
    {"blocks.{}.mlp.fc2", "blocks.{}.mlp.fc2"},
    {"norm", "norm"},
    {"head_dist", "distillation_classifier"},
}};
/// The norm behind the mean.
constexpr std::array<NameRule, 1> fc_norm_names{{{"fc_norm", "norm"}}};

struct Size {
  std::string_view name;
  std::int64_t dim, layers, heads;
};
constexpr std::array<Size, 4> sizes{
    {{"tiny", 192, 12, 3}, {"small", 384, 12, 6}, {"base", 768, 12, 12}, {"large", 1024, 24, 16}}};

/// "deit_tiny_distilled_patch16_224": the meaning of its parts.
struct Named {
  Size size{};
  bool distilled = false;
  std::int64_t patch = 0, image = 0;
};

std::int64_t taken_number(std::string_view& text) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc()) return 0;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return n;
}

bool taken(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

Named parsed(const Fields& f, const std::string& architecture) {
  std::string_view rest = architecture;
  Named named;
  bool known = taken(rest, "vit_") || taken(rest, "deit_");
  for (const Size& size : sizes)
    if (known && named.size.dim == 0 && taken(rest, size.name)) named.size = size;
  known = known && named.size.dim > 0 && taken(rest, "_");
  named.distilled = known && taken(rest, "distilled_");
  known = known && taken(rest, "patch") && (named.patch = taken_number(rest)) > 0 && taken(rest, "_") &&
          (named.image = taken_number(rest)) > 0 && (rest.empty() || rest == "_in21k");
  if (!known)
    f.refuse("architecture",
             fmt::format("is '{}'; supported of timm are vit_SIZE_patchN_M and deit_SIZE_patchN_M, with "
                         "or without distilled_, for SIZE tiny, small, base, large",
                         architecture));
  return named;
}

/// How tokens become what the classifier reads.
struct Pooled {
  bool mean = false;      ///< of all patches; else the class token
  bool norm_last = false; ///< the norm acts on the mean
};

Pooled pooling_of(const Fields& f, const Fields& args) {
  const std::string pool = args.text("global_pool", "token");
  if (pool != "token" && pool != "avg")
    args.refuse("global_pool", fmt::format("is '{}'; supported are token, avg", pool));
  if (const std::string said = f.text("global_pool", pool); said != pool)
    f.refuse("global_pool", fmt::format("is '{}', the model's arguments say '{}'", said, pool));
  const bool mean = pool == "avg";
  if (args.flag("class_token", true) == mean)
    args.refuse("class_token", fmt::format("is {}, which is not supported where global_pool is {}", mean, pool));
  const bool norm_last = args.has("fc_norm") ? args.flag("fc_norm", false) : mean;
  if (norm_last && !mean) args.refuse("fc_norm", "is true, which is supported where global_pool is avg alone");
  return {mean, norm_last};
}

Fields arguments_of(const Fields& f) {
  Fields args = f.object("model_args");
  args.allow({"img_size", "patch_size", "in_chans", "num_classes", "depth", "embed_dim", "num_heads", "mlp_ratio",
              "qkv_bias", "global_pool", "class_token", "no_embed_class", "reg_tokens", "pre_norm", "qk_norm",
              "fc_norm", "dynamic_img_size",
              // of training alone
              "drop_path_rate", "drop_rate", "pos_drop_rate", "patch_drop_rate", "proj_drop_rate", "attn_drop_rate",
              "weight_init"});
  for (const char* off : {"no_embed_class", "pre_norm", "qk_norm", "dynamic_img_size"})
    if (args.flag(off, false)) args.refuse(off, "is true, which is not supported");
  if (args.integer("reg_tokens", 0) != 0) args.refuse("reg_tokens", "is not 0, the only number supported");
  return args;
}

nn::VitConfig config_of(const Request& r) {
  const Fields& f = r.fields;
  const Named named = parsed(f, f.text("architecture", ""));
  const Fields args = arguments_of(f);
  nn::VitConfig c;
  const auto [height, width] = args.sizes("img_size", named.image);
  c.image = height;
  c.image_width = width;
  c.patch = args.integer("patch_size", named.patch);
  c.channels = args.integer("in_chans", 3);
  c.classes = args.integer("num_classes", f.integer("num_classes", 1000));
  c.layers = args.integer("depth", named.size.layers);
  c.encoder.dim = args.integer("embed_dim", named.size.dim);
  c.encoder.heads = args.integer("num_heads", named.size.heads);
  const double ratio = args.real("mlp_ratio", 4.0), mlp = ratio * static_cast<double>(c.encoder.dim);
  if (!(mlp >= 1.0 && mlp <= 1e6))
    args.refuse("mlp_ratio", fmt::format("is {}, which makes an MLP of {} features", ratio, mlp));
  c.encoder.mlp = static_cast<std::int64_t>(mlp);
  c.encoder.qkv_bias = args.flag("qkv_bias", true);
  c.encoder.norm_eps = 1e-6;
  c.distillation = named.distilled;
  if (pooling_of(f, args).mean) c.pooling = nn::Pooling::mean;
  r.need_room(c.encoder, c.layers, rows_of(c));
  return c;
}

class TimmModel : public ModelOf<nn::Vit> {
public:
  TimmModel(const Request& request, const Architecture& a)
      : ModelOf(request, timm_family, a, config_of(request)),
        norm_last_(pooling_of(request.fields, arguments_of(request.fields)).norm_last) {
    const nn::VitConfig& c = model_.config;
    std::vector<NameRule> names(timm_names.begin(), timm_names.end());
    if (norm_last_) {
      std::erase_if(names, [](const NameRule& rule) { return std::string_view(rule.file) == "norm"; });
      names.push_back(fc_norm_names.front());
    }
    name_tensors(names, {}, a.classifier, {c.encoder.heads, c.encoder.heads, c.encoder.width_of_head()});
    for (Binding& b : bindings_)
      if (b.parameter == "patch_embedding.weight") b.shape = {c.encoder.dim, c.channels, c.patch, c.patch};
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
    if (model_.classifier && norm_last_) return {{"logits", (*model_.classifier)(model_.norm(mean(z, {1})))}};
    if (model_.classifier) return {{"logits", model_.head(z)}};
    return {{"last_hidden_state", norm_last_ ? z : model_.norm(z)}};
  }

private:
  bool norm_last_;
};

std::unique_ptr<Model> make(const Request& request, const Architecture& a) {
  return std::make_unique<TimmModel>(request, a);
}

} // namespace

std::pair<std::int64_t, std::int64_t> timm_image_size(const nlohmann::json& config, const std::string& source) {
  const Fields f(config, source);
  return f.object("model_args").sizes("img_size", parsed(f, f.text("architecture", "")).image);
}

const Family timm_family{"timm", architectures, make};

} // namespace eg::hub
