// GPT-2 and Llama: names, settings, outputs.

#include "nn/decoder.h"
#include "nn/hub/family.h"
#include "nn/hub/rope.h"

#include <fmt/format.h>

#include <array>

namespace eg::hub {
namespace {

using nn::Head;

constexpr std::array<Architecture, 5> gpt2_architectures{
    {{"GPT2LMHeadModel", Head::language_model, "transformer.", nullptr},
     {"GPT2Model", Head::none, "", nullptr},
     {"GPT2ForSequenceClassification", Head::sequence_classification, "transformer.", "score"},
     {"GPT2ForTokenClassification", Head::token_classification, "transformer.", "classifier"},
     {"GPT2ForQuestionAnswering", Head::question_answering, "transformer.", "qa_outputs"}}};

constexpr std::array<Architecture, 5> llama_architectures{
    {{"LlamaForCausalLM", Head::language_model, "model.", nullptr},
     {"LlamaModel", Head::none, "", nullptr},
     {"LlamaForSequenceClassification", Head::sequence_classification, "model.", "score"},
     {"LlamaForTokenClassification", Head::token_classification, "model.", "score"},
     {"LlamaForQuestionAnswering", Head::question_answering, "transformer.", "qa_outputs"}}};

constexpr std::array<NameRule, 9> gpt2_names{{
    {"wte", "token_embedding"},
    {"wpe", "position_embedding"},
    {"h.{}.ln_1", "blocks.{}.norm1"},
    {"h.{}.attn.c_attn", "blocks.{}.attention.qkv", Part::all, true},
    {"h.{}.attn.c_proj", "blocks.{}.attention.proj", Part::all, true},
    {"h.{}.ln_2", "blocks.{}.norm2"},
    {"h.{}.mlp.c_fc", "blocks.{}.mlp.fc1", Part::all, true},
    {"h.{}.mlp.c_proj", "blocks.{}.mlp.fc2", Part::all, true},
    {"ln_f", "norm"},
}};

constexpr std::array<NameRule, 11> llama_names{{
    {"embed_tokens", "token_embedding"},
    {"layers.{}.self_attn.q_proj", "blocks.{}.attention.qkv", Part::q},
    {"layers.{}.self_attn.k_proj", "blocks.{}.attention.qkv", Part::k},
    {"layers.{}.self_attn.v_proj", "blocks.{}.attention.qkv", Part::v},
    {"layers.{}.self_attn.o_proj", "blocks.{}.attention.proj"},
    {"layers.{}.mlp.gate_proj", "blocks.{}.mlp.fc1", Part::gate},
    {"layers.{}.mlp.up_proj", "blocks.{}.mlp.fc1", Part::up},
    {"layers.{}.mlp.down_proj", "blocks.{}.mlp.fc2"},
    {"layers.{}.input_layernorm", "blocks.{}.norm1"},
    {"layers.{}.post_attention_layernorm", "blocks.{}.norm2"},
    {"norm", "norm"},
}};

constexpr std::array<NameRule, 1> decoder_head_names{{{"lm_head", "lm_head"}}};

/// A size that has two names in GPT-2's configs. Throws FileError where they differ.
std::int64_t either(const Fields& f, const char* name, const char* general, std::int64_t otherwise) {
  if (!f.has(general)) return f.integer(name, otherwise);
  const std::int64_t value = f.integer(general);
  if (f.has(name) && f.integer(name) != value)
    f.refuse(general, fmt::format("is {}, and '{}', which means the same, is {}", value, name, f.integer(name)));
  return value;
}

/// The id that ends texts for sequence classification, -1 for none. One that is not an id of the vocabulary (-1 too) is
/// that of no token.
std::int64_t padding_of_texts(const Fields& f, std::int64_t vocabulary) {
  if (!f.has("pad_token_id")) return -1;
  const std::int64_t id = f.integer("pad_token_id");
  return id < 0 || id > vocabulary ? vocabulary : id;
}

nn::DecoderConfig gpt2_config_of(const Request& r, const Architecture& a) {
  const Fields& f = r.fields;
  nn::DecoderConfig c =
      nn::gpt2_config(either(f, "n_embd", "hidden_size", 768), either(f, "n_head", "num_attention_heads", 12),
                      either(f, "n_layer", "num_hidden_layers", 12));
  c.vocabulary = f.integer("vocab_size", 50257);
  c.positions = either(f, "n_positions", "max_position_embeddings", f.integer("n_ctx", 1024));
  c.block.mlp = f.integer("n_inner", 4 * c.block.dim);
  c.block.activation = activation_of(f, "activation_function", "gelu_new");
  c.block.norm_eps = f.real("layer_norm_epsilon", 1e-5);
  c.block.dropout = f.real("resid_pdrop", 0.1);
  c.block.attention_dropout = f.real("attn_pdrop", 0.1);
  c.embedding_dropout = f.real("embd_pdrop", 0.1);
  if (!f.flag("scale_attn_weights", true)) c.block.attention_scale = 1.0;
  c.scale_by_layer = f.flag("scale_attn_by_inverse_layer_idx", false);
  c.tied = f.flag("tie_word_embeddings", true);
  if (a.head == Head::token_classification)
    c.head_dropout = f.real("classifier_dropout", f.real("hidden_dropout", 0.1));
  c.head = a.head;
  c.labels = labels_of(f, a);
  c.padding = padding_of_texts(f, c.vocabulary);
  r.need_room(c.block, c.layers, sum_of({c.vocabulary, c.positions, c.labels}));
  return c;
}

nn::DecoderConfig llama_config_of(const Request& r, const Architecture& a) {
  const Fields& f = r.fields;
  const std::int64_t heads = f.integer("num_attention_heads", 32), dim = f.integer("hidden_size", 4096);
  nn::DecoderConfig c = nn::llama_config(dim, heads, f.integer("num_key_value_heads", heads),
                                         f.integer("intermediate_size", 11008), f.integer("num_hidden_layers", 32));
  c.vocabulary = f.integer("vocab_size", 32000);
  c.positions = f.integer("max_position_embeddings", 2048);
  c.block.head_dim = f.integer("head_dim", 0);
  c.block.activation = activation_of(f, "hidden_act", "silu");
  c.block.norm_eps = f.real("rms_norm_eps", 1e-6);
  c.block.qkv_bias = c.block.proj_bias = f.flag("attention_bias", false);
  c.block.mlp_bias = f.flag("mlp_bias", false);
  c.block.attention_dropout = f.real("attention_dropout", 0.0);
  c.tied = f.flag("tie_word_embeddings", false);
  if (a.head == Head::token_classification)
    c.head_dropout = f.real("classifier_dropout", f.real("hidden_dropout", 0.1));
  c.head = a.head;
  c.labels = labels_of(f, a);
  c.padding = padding_of_texts(f, c.vocabulary);
  c.constant_padding = c.padding >= 0 && c.padding < c.vocabulary;
  r.need_room(c.block, c.layers, sum_of({c.vocabulary, c.labels}));
  check(c.block);
  read_rotary(f, c.block.rotary, c.block.width_of_head(), c.positions);
  return c;
}

/// Throws ValueError for positions [.., T] that do not count on from token to token. Transformers takes such a text for
/// several packed ones when there is no attention_mask, and for one when it keeps a cache.
void refuse_restarts(const Tensor& positions) {
  if (!positions.defined() || !positions.has_storage() || positions.rank() == 0) return;
  const std::vector<std::int64_t> all = positions.to_vector<std::int64_t>();
  const auto tokens = static_cast<std::size_t>(positions.size(-1));
  for (std::size_t i = 1; i < all.size(); ++i)
    if (i % tokens != 0 && all[i] != all[i - 1] + 1)
      throw ValueError(fmt::format("position_ids: {} is followed by {} and there is no attention_mask: it is not said "
                                   "whether these are several packed texts, which are not supported; an attention_mask "
                                   "of ones makes them one text",
                                   all[i - 1], all[i]));
}

class DecoderModel : public ModelOf<nn::Decoder> {
public:
  DecoderModel(const Request& request, const Family& family, const Architecture& a, const nn::DecoderConfig& config,
               std::span<const NameRule> names)
      : ModelOf(request, family, a, config) {
    const nn::AttentionConfig c = model_.config.block.attention();
    name_tensors(names, decoder_head_names, a.classifier, {c.heads, c.key_heads(), c.head_dim});
    extras_ = {"*.attn.bias", "*.attn.masked_bias", "*.rotary_emb.inv_freq"};
    if (model_.config.head != Head::language_model) extras_.emplace_back("*lm_head.weight");
    if (model_.config.head == Head::language_model && model_.config.tied)
      for (Binding& b : bindings_)
        if (b.parameter == "token_embedding.weight") b.tied = {"lm_head.weight"};
  }

  /// No gradient flows to that row of the embedding as an input; -1: to all.
  void keep_constant(std::int64_t row) { model_.token_embedding.padding = row; }

  nn::Decoder* decoder() override { return model_.config.head == Head::language_model ? &model_ : nullptr; }

  Tensors input_shapes(std::int64_t batch) const override {
    constexpr std::int64_t some = 16; // any number does where positions have no table
    const std::int64_t tokens = model_.config.learned_positions ? model_.config.positions : some;
    return {{"input_ids", Tensor::meta({batch, tokens}, DType::i64)}};
  }

  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = {"input_ids", "attention_mask", "position_ids", "inputs_embeds"};
    if (model_.config.learned_positions) names.emplace_back("token_type_ids");
    return names;
  }

  std::int64_t positions() const override { return model_.config.positions; }

protected:
  /// Of a decoder whose blocks are elsewhere.
  Tensor around(const nn::DecoderInput& input, const Elsewhere& elsewhere) const {
    if (input.positions.defined() && model_.config.block.rotary.on)
      throw ValueError("position_ids: rotary positions are counted by who has the blocks");
    return model_.norm(elsewhere(model_.embed(input), input.attention_mask));
  }

  Tensors run(const Tensors& in, RandomKey key, const Elsewhere& elsewhere) const override {
    const nn::DecoderInput input{.ids = integers(in, "input_ids"),
                                 .attention_mask = find(in, "attention_mask"),
                                 .positions = integers(in, "position_ids"),
                                 .token_types = integers(in, "token_type_ids"),
                                 .embeddings = find(in, "inputs_embeds")};
    if (!input.ids.defined() && !input.embeddings.defined()) required(in, "input_ids");
    if (!input.attention_mask.defined()) refuse_restarts(input.positions);
    const Tensor hidden = elsewhere ? around(input, elsewhere) : model_(input, nullptr, key.fold(0));
    const RandomKey of_head = key.fold(1);
    switch (model_.config.head) {
    case Head::none:
      return {{"last_hidden_state", hidden}};
    case Head::language_model:
      return {{"logits", model_.language_model(hidden)}};
    case Head::question_answering: {
      const Tensor logits = model_.classify(hidden, input.ids, of_head);
      return {{"start_logits", logits.select(-1, 0)}, {"end_logits", logits.select(-1, 1)}};
    }
    default:
      return {{"logits", model_.classify(hidden, input.ids, of_head)}};
    }
  }
};

std::unique_ptr<Model> make_gpt2(const Request& request, const Architecture& a) {
  return std::make_unique<DecoderModel>(request, gpt2_family, a, gpt2_config_of(request, a), gpt2_names);
}

std::unique_ptr<Model> make_llama(const Request& request, const Architecture& a) {
  const nn::DecoderConfig c = llama_config_of(request, a);
  auto model = std::make_unique<DecoderModel>(request, llama_family, a, c, llama_names);
  model->keep_constant(padding_row(request.fields, c.vocabulary, -1));
  return model;
}

} // namespace

const Family gpt2_family{"gpt2", gpt2_architectures, make_gpt2};
const Family llama_family{"llama", llama_architectures, make_llama};

} // namespace eg::hub
