// BERT: names, settings, outputs.

#include "nn/bert.h"
#include "nn/hub/family.h"

#include <fmt/format.h>

#include <array>

namespace eg::hub {
namespace {

using nn::Head;

constexpr std::array<Architecture, 7> architectures{
    {{"BertModel", Head::none, "", nullptr},
     {"BertForMaskedLM", Head::language_model, "bert.", nullptr},
     {"BertForPreTraining", Head::pretraining, "bert.", "cls.seq_relationship"},
     {"BertForNextSentencePrediction", Head::next_sentence, "bert.", "cls.seq_relationship"},
     {"BertForSequenceClassification", Head::sequence_classification, "bert.", "classifier"},
     {"BertForTokenClassification", Head::token_classification, "bert.", "classifier"},
     {"BertForQuestionAnswering", Head::question_answering, "bert.", "qa_outputs"}}};

constexpr std::array<NameRule, 13> bert_base_names{{
    {"embeddings.word_embeddings", "word_embedding"},
    {"embeddings.position_embeddings", "position_embedding"},
    {"embeddings.token_type_embeddings", "token_type_embedding"},
    {"embeddings.LayerNorm", "embedding_norm"},
    {"encoder.layer.{}.attention.self.query", "blocks.{}.attention.qkv", Part::q},
    {"encoder.layer.{}.attention.self.key", "blocks.{}.attention.qkv", Part::k},
    {"encoder.layer.{}.attention.self.value", "blocks.{}.attention.qkv", Part::v},
    {"encoder.layer.{}.attention.output.dense", "blocks.{}.attention.proj"},
    {"encoder.layer.{}.attention.output.LayerNorm", "blocks.{}.norm1"},
    {"encoder.layer.{}.intermediate.dense", "blocks.{}.mlp.fc1"},
    {"encoder.layer.{}.output.dense", "blocks.{}.mlp.fc2"},
    {"encoder.layer.{}.output.LayerNorm", "blocks.{}.norm2"},
    {"pooler.dense", "pooler"},
}};

constexpr std::array<NameRule, 4> bert_head_names{{
    {"cls.predictions.bias", "lm_head.bias"},
    {"cls.predictions.transform.dense", "lm_head.dense"},
    {"cls.predictions.transform.LayerNorm", "lm_head.norm"},
    {"cls.predictions.decoder.weight", "lm_head.decoder"},
}};

nn::BertConfig config_of(const Request& r, const Architecture& a) {
  const Fields& f = r.fields;
  nn::BertConfig c;
  c.vocabulary = f.integer("vocab_size", 30522);
  c.positions = f.integer("max_position_embeddings", 512);
  c.token_types = f.integer("type_vocab_size", 2);
  c.layers = f.integer("num_hidden_layers", 12);
  c.encoder.dim = f.integer("hidden_size", 768);
  c.encoder.heads = f.integer("num_attention_heads", 12);
  c.encoder.mlp = f.integer("intermediate_size", 3072);
  c.encoder.activation = activation_of(f, "hidden_act", "gelu");
  c.encoder.norm_eps = f.real("layer_norm_eps", 1e-12);
  c.encoder.dropout = f.real("hidden_dropout_prob", 0.1);
  c.encoder.attention_dropout = f.real("attention_probs_dropout_prob", 0.1);
  c.head = a.head;
  c.labels = labels_of(f, a);
  c.padding = padding_row(f, c.vocabulary, 0);
  c.tied = f.flag("tie_word_embeddings", true);
  const bool of_texts =
      a.head == Head::sequence_classification || a.head == Head::next_sentence || a.head == Head::pretraining;
  const bool drops = a.head == Head::sequence_classification || a.head == Head::token_classification;
  c.head_dropout = drops ? f.real("classifier_dropout", c.encoder.dropout) : 0.0;
  r.need_room(c.encoder, c.layers, sum_of({c.vocabulary, c.positions, c.token_types, c.labels}));
  c.pooler = of_texts || (a.head == Head::none && r.has("pooler.dense.weight"));
  return c;
}

class BertModel : public ModelOf<nn::Bert> {
public:
  BertModel(const Request& request, const Architecture& a) : ModelOf(request, bert_family, a, config_of(request, a)) {
    const nn::BlockConfig& e = model_.config.encoder;
    name_tensors(bert_base_names, bert_head_names, a.classifier, {e.heads, e.heads, e.width_of_head()});
    extras_ = {"*embeddings.position_ids", "*embeddings.token_type_ids", "*cls.seq_relationship.weight",
               "*cls.seq_relationship.bias"};
    if (model_.lm_head)
      name_decoder(request);
    else
      for (const char* part : {"bias", "decoder.weight", "decoder.bias", "transform.dense.weight",
                               "transform.dense.bias", "transform.LayerNorm.weight", "transform.LayerNorm.bias"})
        extras_.push_back(fmt::format("*cls.predictions.{}", part));
    if (!model_.pooler) extras_.insert(extras_.end(), {"*pooler.dense.weight", "*pooler.dense.bias"});
  }

  Tensors input_shapes(std::int64_t batch) const override {
    return {{"input_ids", Tensor::meta({batch, model_.config.positions}, DType::i64)}};
  }

  std::vector<std::string> input_names() const override {
    return {"input_ids", "attention_mask", "token_type_ids", "position_ids", "inputs_embeds"};
  }

  std::int64_t positions() const override { return model_.config.positions; }

private:
  /// The decoder's bias has two names. Transformers 4 always ties them. Transformers 5 ties them when it ties the
  /// embeddings; else it adds cls.predictions.decoder.bias, and nothing reads the other. So both are written then.
  void name_decoder(const Request& request) {
    constexpr const char *older = "cls.predictions.bias", *newer = "cls.predictions.decoder.bias";
    for (Binding& b : bindings_) {
      if (model_.config.tied && b.parameter == "word_embedding.weight") b.tied = {"cls.predictions.decoder.weight"};
      if (b.parameter != "lm_head.bias") continue;
      if (model_.config.tied) {
        b.tied = {newer};
        continue;
      }
      const bool has_newer = request.weights != nullptr && request.has(newer);
      b.file = has_newer ? newer : older;
      b.twin = has_newer ? older : newer;
      extras_.push_back(fmt::format("*{}", b.twin));
    }
  }

protected:
  Tensors run(const Tensors& in, RandomKey key, const Elsewhere& elsewhere) const override {
    const nn::BertInput input{.ids = integers(in, "input_ids"),
                              .attention_mask = find(in, "attention_mask"),
                              .token_types = integers(in, "token_type_ids"),
                              .positions = integers(in, "position_ids"),
                              .embeddings = find(in, "inputs_embeds")};
    if (!input.ids.defined() && !input.embeddings.defined()) required(in, "input_ids");
    const Tensor hidden = elsewhere ? elsewhere(model_.embed(input), input.attention_mask) : model_(input, key.fold(0));
    const RandomKey of_head = key.fold(1);
    switch (model_.config.head) {
    case Head::none:
      if (!model_.pooler) return {{"last_hidden_state", hidden}};
      return {{"last_hidden_state", hidden}, {"pooler_output", model_.pool(hidden)}};
    case Head::language_model:
      return {{"logits", model_.masked_lm(hidden)}};
    case Head::pretraining:
      return {{"prediction_logits", model_.masked_lm(hidden)},
              {"seq_relationship_logits", model_.classify(hidden, of_head)}};
    case Head::question_answering: {
      const Tensor logits = model_.classify(hidden, of_head);
      return {{"start_logits", logits.select(-1, 0)}, {"end_logits", logits.select(-1, 1)}};
    }
    default:
      return {{"logits", model_.classify(hidden, of_head)}};
    }
  }
};

std::unique_ptr<Model> make(const Request& request, const Architecture& a) {
  return std::make_unique<BertModel>(request, a);
}

} // namespace

const Family bert_family{"bert", architectures, make};

} // namespace eg::hub
