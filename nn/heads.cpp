#include "nn/heads.h"

#include "core/base/named_values.h"
#include "core/device/device.h"
#include "nn/init.h"

#include <fmt/format.h>

#include <string>

namespace eg::nn {
namespace {

constexpr NamedValues<Head, 7> heads{{{"none", Head::none},
                                      {"language_model", Head::language_model},
                                      {"sequence_classification", Head::sequence_classification},
                                      {"token_classification", Head::token_classification},
                                      {"question_answering", Head::question_answering},
                                      {"next_sentence", Head::next_sentence},
                                      {"pretraining", Head::pretraining}}};

} // namespace

Head head_named(std::string_view name) { return value_named(heads, "head", name); }

std::string_view name_of(Head head) { return name_in(heads, head); }

Tensor key_mask(const Tensor& attention_mask, std::int64_t batch, std::int64_t tokens) {
  if (!attention_mask.defined()) return {};
  if (!(attention_mask.shape() == Shape{batch, tokens}))
    throw ShapeError(fmt::format("attention_mask must be [batch, tokens], here [{}, {}], not {}", batch, tokens,
                                 attention_mask.shape().str()));
  const PauseRecording pause;
  const Tensor& m = attention_mask;
  const DeviceScope there(m.device());
  const Tensor seen = m.dtype() == DType::boolean ? m : ne(m, Tensor::zeros({}, m.dtype()));
  return seen.reshape({batch, 1, 1, tokens});
}

const Tensor& ids_or_embeddings(std::string_view what, const Tensor& ids, const Tensor& embeddings) {
  if (ids.defined() == embeddings.defined())
    throw ValueError(fmt::format("{}: either ids or embeddings must be given", what));
  const bool by_ids = ids.defined();
  const Tensor& given = by_ids ? ids : embeddings;
  if (given.rank() != (by_ids ? 2 : 3))
    throw ShapeError(fmt::format("{}: {} must be {}, not {}", what, by_ids ? "ids" : "embeddings",
                                 by_ids ? "[batch, tokens]" : "[batch, tokens, dim]", given.shape().str()));
  return given;
}

void init::normal_model(Module& model, double stddev, RandomKey key) {
  std::uint64_t tag = 0;
  for (Parameter& p : model.named_parameters()) {
    const RandomKey own = key.fold(tag++);
    if (p.value.rank() >= 2)
      normal(p.value, stddev, own);
    else
      constant(p.value, p.name.ends_with("weight") ? 1.0 : 0.0);
  }
}

} // namespace eg::nn
