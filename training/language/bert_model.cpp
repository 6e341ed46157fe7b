#include "training/language/bert_model.h"

#include "core/base/error.h"
#include "nn/bert.h"
#include "training/model_task.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eg::training {

const char* const bert_tokenizer_config = R"({
  "tokenizer_class": "PreTrainedTokenizerFast",
  "pad_token": "[PAD]",
  "unk_token": "[UNK]",
  "cls_token": "[CLS]",
  "sep_token": "[SEP]",
  "mask_token": "[MASK]"
}
)";

std::int64_t special_id(const data::Tokenizer& tokenizer, const char* role, const char* usual) {
  if (const auto id = tokenizer.role(role)) return *id;
  if (const auto id = tokenizer.find(usual)) return *id;
  throw ValueError(fmt::format("train: the tokenizer has no token {}", usual));
}

KeptTokenizer start_tokenizer(const ClassifyOptions& o) {
  require_family(o.start, "bert"); // first: another family's tokenizer lacks what BERT needs
  return KeptTokenizer::of_model(start_folder(o.start));
}

std::unique_ptr<hub::Model> make_bert(ClassifyOptions& o, const data::Tokenizer& tokenizer, std::int64_t padding,
                                      const std::function<void(nlohmann::json&)>& set_head) {
  const RandomKey key = ModelTask::key_of(o, ModelTask::draw_weights);
  const auto adapt = [&](nlohmann::json& config) {
    for (const char* other : {"num_labels", "id2label", "label2id", "problem_type"}) config.erase(other);
    set_head(config);
    config.update({{"hidden_dropout_prob", o.dropout},
                   {"attention_probs_dropout_prob", o.attention_dropout},
                   {"classifier_dropout", o.dropout}});
  };
  if (!o.start.begins()) {
    nlohmann::json config = {{"model_type", "bert"},           {"vocab_size", tokenizer.id_end()},
                             {"hidden_size", o.dim},           {"num_hidden_layers", o.layers},
                             {"num_attention_heads", o.heads}, {"intermediate_size", o.mlp > 0 ? o.mlp : 4 * o.dim},
                             {"hidden_act", "gelu"},           {"max_position_embeddings", o.context},
                             {"type_vocab_size", 2},           {"layer_norm_eps", 1e-12},
                             {"pad_token_id", padding}};
    adapt(config);
    return hub::make_model(config, key, "train");
  }
  std::unique_ptr<hub::Model> model = open_start(o.start, "bert", {.dtype = o.dtype, .key = key, .adapt = adapt});
  const nn::BertConfig& c = dynamic_cast<const nn::Bert&>(model->module()).config;
  require_room(o.start, tokenizer, o.context, c.vocabulary, c.positions);
  o.dim = c.encoder.dim;
  o.layers = c.layers;
  o.heads = c.encoder.heads;
  o.mlp = c.encoder.mlp;
  return model;
}

} // namespace eg::training
