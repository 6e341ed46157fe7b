#include "nn/vit.h"

#include "core/base/named_values.h"
#include "core/exact/elementary.h"
#include "nn/config_checks.h"
#include "nn/init.h"

#include <fmt/format.h>

#include <cmath>

namespace eg::nn {

namespace {

constexpr NamedValues<Pooling, 2> poolings{{{"cls", Pooling::cls}, {"mean", Pooling::mean}}};
constexpr NamedValues<PositionEmbedding, 3> embeddings{{{"learned", PositionEmbedding::learned},
                                                        {"sinusoidal", PositionEmbedding::sinusoidal},
                                                        {"none", PositionEmbedding::none}}};

} // namespace

Pooling pooling_named(std::string_view name) { return value_named(poolings, "pooling", name); }

PositionEmbedding position_embedding_named(std::string_view name) {
  return value_named(embeddings, "position embedding", name);
}

std::string_view name_of(Pooling pooling) { return name_in(poolings, pooling); }

std::string_view name_of(PositionEmbedding position) { return name_in(embeddings, position); }

void check(const VitConfig& c) {
  const ConfigChecks field("vit");
  field.extent("image", c.image, limits::side);
  if (c.image_width != 0) field.extent("image width", c.image_width, limits::side);
  field.extent("channels", c.channels, limits::side);
  field.extent("patch", c.patch, limits::side);
  field.count("classes", c.classes, limits::classes);
  field.count("layers", c.layers, limits::layers);
  field.count("pooler", c.pooler, limits::width);
  field.share("embedding_dropout", c.embedding_dropout);
  for (const std::int64_t side : {c.height(), c.width()})
    if (side % c.patch != 0) throw ValueError(fmt::format("vit: patch {} does not divide image {}", c.patch, side));
  if ((c.distillation || c.pooler > 0) && c.pooling != Pooling::cls)
    throw ValueError("vit: a distillation token and a pooler need the class token (pooling cls)");
  check(c.encoder);
  if (c.position == PositionEmbedding::sinusoidal && c.encoder.dim % 2 != 0)
    throw ValueError(fmt::format("vit: a sinusoidal position embedding needs an even dim, not {}", c.encoder.dim));
}

Tensor sinusoidal_positions(std::int64_t tokens, std::int64_t dim, DType dtype) {
  if (dim % 2 != 0) throw ValueError(fmt::format("sinusoidal_positions: dim {} is odd", dim));
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(tokens * dim));
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t i = 0; i < dim; i += 2) {
      const double angle =
          static_cast<double>(t) / elementary::pow(10000.0, static_cast<double>(i) / static_cast<double>(dim));
      values.push_back(elementary::sin(angle));
      values.push_back(elementary::cos(angle));
    }
  const PauseRecording pause;
  return Tensor::from<double>(values, {tokens, dim}).to(dtype);
}

PatchEmbedding::PatchEmbedding(std::int64_t channels, std::int64_t patch_, std::int64_t dim, RandomKey key)
    : Linear(channels * patch_ * patch_, dim, key), patch(patch_) {}

Tensor PatchEmbedding::operator()(const Tensor& images) const {
  const Scope scope(*this);
  return called({&images}, linear(patchify(images, patch), weight, bias));
}

namespace {
const VitConfig& checked(const VitConfig& config) {
  check(config);
  return config;
}
} // namespace

Vit::Vit(const VitConfig& c, RandomKey key)
    : config(checked(c)), patch_embedding(c.channels, c.patch, c.encoder.dim, key.fold(0)),
      norm(c.encoder.norm, c.encoder.dim, c.encoder.norm_eps) {
  register_module("patch_embedding", patch_embedding);
  if (c.pooling == Pooling::cls) {
    cls_token = Tensor::zeros({1, 1, c.encoder.dim});
    register_parameter("cls_token", cls_token);
  }
  if (c.distillation) {
    distillation_token = Tensor::zeros({1, 1, c.encoder.dim});
    register_parameter("distillation_token", distillation_token);
  }
  if (c.position == PositionEmbedding::learned) {
    position_embedding = Tensor::zeros({1, c.tokens(), c.encoder.dim});
    register_parameter("position_embedding", position_embedding);
  } else if (c.position == PositionEmbedding::sinusoidal) {
    position_embedding = sinusoidal_positions(c.tokens(), c.encoder.dim).unsqueeze(0);
    register_buffer(position_embedding);
  }
  for (std::int64_t i = 0; i < c.layers; ++i) {
    blocks.push_back(std::make_unique<Block>(c.encoder, key.fold(2).fold(static_cast<std::uint64_t>(i))));
    register_module(fmt::format("blocks.{}", i), *blocks.back());
  }
  register_module("norm", norm);
  const auto add = [&](const char* name, std::optional<Linear>& layer, std::int64_t width, std::uint64_t tag) {
    if (width > 0) register_module(name, layer.emplace(c.encoder.dim, width, key.fold(tag)));
  };
  add("classifier", classifier, c.classes, 1);
  add("distillation_classifier", distillation_classifier, c.distillation && c.distillation_head ? c.classes : 0, 4);
  add("pooler", pooler, c.pooler, 5);
  init::timm_vit(*this, key);
}

Tensor Vit::operator()(const Tensor& images, RandomKey dropout_key) const {
  return called({&images}, head(encode(embed(images, embedding_key(dropout_key)), dropout_key)));
}

RandomKey Vit::embedding_key(RandomKey dropout_key) {
  constexpr std::uint64_t of_embeddings = std::uint64_t{1} << 32; // beyond the layers' numbers
  return dropout_key.fold(of_embeddings);
}

Tensor Vit::embed(const Tensor& images, RandomKey key) const {
  const Scope scope(*this);
  if (images.rank() != 4 || images.size(1) != config.channels || images.size(2) != config.height() ||
      images.size(3) != config.width())
    throw ShapeError(fmt::format("vit: images must be [batch, {}, {}, {}], not {}", config.channels, config.height(),
                                 config.width(), images.shape().str()));
  Tensor z = patch_embedding(images);
  const PlaceScope place("embed");
  std::vector<Tensor> tokens;
  for (const Tensor& token : {cls_token, distillation_token})
    if (token.defined()) tokens.push_back(token.expand({images.size(0), 1, config.encoder.dim}));
  tokens.push_back(z);
  if (tokens.size() > 1) z = concat(tokens, 1);
  if (position_embedding.defined()) z = z + position_embedding;
  return training() && config.embedding_dropout > 0.0 ? dropout(z, config.embedding_dropout, key) : z;
}

Tensor Vit::encode(const Tensor& z, RandomKey key) const {
  const Scope scope(*this);
  return run_blocks(blocks, z, {}, key);
}

Tensor Vit::head(const Tensor& z) const {
  const Scope scope(*this);
  if (!classifier) throw ValueError("vit: there is no classifier (classes is 0)");
  if (distillation_classifier) {
    const TwoLogits both = heads(z);
    return (both.classes + both.distillation) * 0.5;
  }
  // The norm acts on each token alone, so only the class token needs it.
  if (config.pooling == Pooling::cls) return (*classifier)(norm(z.select(1, 0)));
  return (*classifier)(mean(norm(z), {1}));
}

Vit::TwoLogits Vit::heads(const Tensor& z) const {
  const Scope scope(*this);
  if (!distillation_classifier) throw ValueError("vit: there is no distillation token with a classifier");
  return {(*classifier)(norm(z.select(1, 0))), (*distillation_classifier)(norm(z.select(1, 1)))};
}

Tensor Vit::pool(const Tensor& z) const {
  const Scope scope(*this);
  if (!pooler) throw ValueError("vit: there is no pooler");
  return activate((*pooler)(norm(z.select(1, 0))), config.pooler_activation);
}

std::vector<MultiHeadAttention::Trace> Vit::trace_encoder(Tensor& z) const {
  const Scope scope(*this);
  std::vector<MultiHeadAttention::Trace> traces(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) z = blocks[i]->traced(z, traces[i]);
  return traces;
}

std::vector<MultiHeadAttention::Trace> Vit::trace(const Tensor& images) const {
  Tensor z = embed(images);
  return trace_encoder(z);
}

void init::timm_vit(Vit& model, RandomKey key) {
  const RandomKey root = key.fold(3);
  std::uint64_t tag = 0;
  for (Parameter& p : model.named_parameters()) {
    const RandomKey own = root.fold(tag++);
    if (p.name == "patch_embedding.weight")
      kaiming_uniform(p.value, own);
    else if (p.name == "cls_token" || p.name == "distillation_token")
      normal(p.value, 1e-6, own);
    else if (p.name == "position_embedding" || p.value.rank() == 2)
      trunc_normal(p.value, 0.02, own);
    else
      constant(p.value, p.name.find("norm") != std::string::npos && p.name.ends_with("weight") ? 1.0 : 0.0);
  }
}

} // namespace eg::nn
