#include "nn/bert.h"

#include "core/device/device.h"

#include "nn/config_checks.h"
#include "nn/init.h"

#include <fmt/format.h>

namespace eg::nn {
namespace {

std::int64_t classes_of(const BertConfig& c) {
  switch (c.head) {
  case Head::sequence_classification:
  case Head::token_classification:
    return c.labels;
  case Head::question_answering:
  case Head::next_sentence:
  case Head::pretraining:
    return 2;
  default:
    return 0;
  }
}

} // namespace

void check(const BertConfig& c) {
  const ConfigChecks field("bert");
  field.extent("vocabulary", c.vocabulary, limits::ids);
  field.extent("positions", c.positions, limits::ids);
  field.extent("token_types", c.token_types, limits::ids);
  field.extent("labels", c.labels, limits::classes);
  field.count("layers", c.layers, limits::layers);
  field.share("head_dropout", c.head_dropout);
  if (c.padding >= c.vocabulary)
    throw ValueError(fmt::format("bert: padding {} is not one of {} ids", c.padding, c.vocabulary));
  check(c.encoder);
  const bool texts =
      c.head == Head::sequence_classification || c.head == Head::next_sentence || c.head == Head::pretraining;
  if (texts && !c.pooler) throw ValueError(fmt::format("bert: the head {} needs the pooler", name_of(c.head)));
}

MaskedLmHead::MaskedLmHead(const BertConfig& c, RandomKey key)
    : dense(c.encoder.dim, c.encoder.dim, key.fold(0)), activation(c.encoder.activation),
      norm(c.encoder.norm, c.encoder.dim, c.encoder.norm_eps) {
  register_module("dense", dense);
  register_module("norm", norm);
  if (!c.tied) {
    decoder = Tensor::zeros({c.vocabulary, c.encoder.dim});
    register_parameter("decoder", decoder);
  }
  bias = Tensor::zeros({c.vocabulary});
  register_parameter("bias", bias);
}

Tensor MaskedLmHead::operator()(const Tensor& hidden, const Tensor& embedding) const {
  const Scope scope(*this);
  return called({&hidden, &embedding},
                linear(norm(activate(dense(hidden), activation)), decoder.defined() ? decoder : embedding, bias));
}

Bert::Bert(const BertConfig& c, RandomKey key)
    : config(checked(c)), word_embedding(c.vocabulary, c.encoder.dim, key.fold(0), c.padding),
      position_embedding(c.positions, c.encoder.dim, key.fold(1)),
      token_type_embedding(c.token_types, c.encoder.dim, key.fold(2)),
      embedding_norm(c.encoder.norm, c.encoder.dim, c.encoder.norm_eps) {
  register_module("word_embedding", word_embedding);
  register_module("position_embedding", position_embedding);
  register_module("token_type_embedding", token_type_embedding);
  register_module("embedding_norm", embedding_norm);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    blocks.push_back(std::make_unique<Block>(c.encoder, key.fold(3).fold(static_cast<std::uint64_t>(i))));
    register_module(fmt::format("blocks.{}", i), *blocks.back());
  }
  const std::int64_t dim = c.encoder.dim, classes = classes_of(c);
  if (c.pooler) register_module("pooler", pooler.emplace(dim, dim, key.fold(4)));
  if (c.head == Head::language_model || c.head == Head::pretraining)
    register_module("lm_head", lm_head.emplace(c, key.fold(5)));
  if (classes > 0) register_module("classifier", classifier.emplace(dim, classes, key.fold(6)));
  init::normal_model(*this, 0.02, key.fold(7));
}

Tensor Bert::embed(const BertInput& in, RandomKey key) const {
  const Scope scope(*this);
  const Tensor& given = ids_or_embeddings("bert", in.ids, in.embeddings);
  const std::int64_t batch = given.size(0), tokens = given.size(1);
  const DeviceScope there(given.device());
  if (!in.positions.defined() && tokens > config.positions)
    throw ShapeError(fmt::format("bert: texts have {} tokens, there are {} positions", tokens, config.positions));
  const Tensor words = in.ids.defined() ? word_embedding(in.ids) : in.embeddings;
  const Tensor where = position_embedding(in.positions.defined() ? in.positions : Tensor::arange(tokens));
  const Tensor type =
      token_type_embedding(in.token_types.defined() ? in.token_types : Tensor::zeros({batch, tokens}, DType::i64));
  const Tensor z = embedding_norm(words + where + type);
  return training() && config.encoder.dropout > 0.0 ? dropout(z, config.encoder.dropout, key) : z;
}

Tensor Bert::encode(const Tensor& z, const Tensor& attention_mask, RandomKey key) const {
  const Scope scope(*this);
  return run_blocks(blocks, z, {.mask = key_mask(attention_mask, z.size(0), z.size(1))}, key);
}

Tensor Bert::operator()(const BertInput& input, RandomKey key) const {
  return called({&input.ids, &input.attention_mask, &input.token_types, &input.positions, &input.embeddings},
                encode(embed(input, key.fold(0)), input.attention_mask, key.fold(1)));
}

Tensor Bert::pool(const Tensor& hidden) const {
  const Scope scope(*this);
  if (!pooler) throw ValueError("bert: there is no pooler");
  return tanh((*pooler)(hidden.select(1, 0)));
}

Tensor Bert::masked_lm(const Tensor& hidden) const {
  const Scope scope(*this);
  if (!lm_head) throw ValueError(fmt::format("bert: the head is {}, not language_model", name_of(config.head)));
  return (*lm_head)(hidden, word_embedding.weight);
}

bool Bert::classifies_texts() const {
  return config.head != Head::token_classification && config.head != Head::question_answering;
}

Tensor Bert::classify(const Tensor& hidden, RandomKey key) const {
  const Scope scope(*this);
  if (!classifier) throw ValueError(fmt::format("bert: the head {} has no classifier", name_of(config.head)));
  const Tensor of = classifies_texts() ? pool(hidden) : hidden;
  const bool drops = training() && config.head_dropout > 0.0;
  return (*classifier)(drops ? dropout(of, config.head_dropout, key) : of);
}

} // namespace eg::nn
