// BERT and the causal decoders (GPT-2, Llama).

#include "nn/bert.h"
#include "nn/decoder.h"
#include "nn/generate.h"

#include "config.h"
#include "modules.h"
#include "traces.h"

namespace eg::python {
namespace {

using MaybeTensor = std::optional<Tensor>;

constexpr const char* trace_words =
    "What every block's attention computed: q, k, v; logits, scale Q K^T without masks; "
    "attention [B, heads, T, T], softmax of the masked logits; a, output.";

auto head_name() {
  return [](nn::Head head) { return nn::name_of(head); };
}

/// A member that maps hidden states to something, by the name that C++ gives it.
template <class Model, class Cls, class Result>
void map_hidden(Cls& cls, const char* name, Result (Model::*member)(const Tensor&) const, const char* doc) {
  cls.def(
      name,
      [member](const Model& self, const Tensor& hidden) { return released([&] { return (self.*member)(hidden); }); },
      "hidden"_a, doc);
}

void bind_bert_config(nb::module_& m) {
  using C = nn::BertConfig;
  Config<C>(m, "BertConfig", "BERT's sizes and head.")
      .field("vocabulary", &C::vocabulary, "ids")
      .field("positions", &C::positions, "longest text, tokens")
      .field("token_types", &C::token_types, "kinds of segments")
      .field("layers", &C::layers, "number of blocks")
      .field("encoder", &C::encoder, "the blocks")
      .field("pooler", &C::pooler, "tanh(W z_0 + b), what sequence heads read")
      .word("head", &C::head, nn::head_named, head_name(),
            "none, language_model, sequence_classification, token_classification, question_answering, next_sentence or "
            "pretraining")
      .field("head_dropout", &C::head_dropout, "on what the classifier reads")
      .field("labels", &C::labels, "classes of a classification head")
      .field("padding", &C::padding, "its word embedding gets no gradient as an input; -1: none")
      .field("tied", &C::tied, "the masked-LM decoder is the embedding matrix")
      .done();
}

nn::BertInput bert_input(const MaybeTensor& ids, const MaybeTensor& mask, const MaybeTensor& types,
                         const MaybeTensor& positions, const MaybeTensor& embeddings) {
  return {or_undefined(ids), or_undefined(mask), or_undefined(types), or_undefined(positions),
          or_undefined(embeddings)};
}

void bind_bert(nb::module_& m) {
  bind_bert_config(m);
  nb::class_<nn::Bert, nn::Module> cls(m, "Bert", "Embeddings, post-norm blocks, pooler, head.");
  made_from_config<nn::Bert>(cls);
  cls.def(nb::init<const nn::BertConfig&, DefaultKey>(), "config"_a, "key"_a = nb::none())
      .def(
          "__call__",
          [](const nn::Bert& self, const MaybeTensor& ids, const MaybeTensor& mask, const MaybeTensor& types,
             const MaybeTensor& positions, const MaybeTensor& embeddings, CallKey key) {
            return released(
                [&, drawn = key.of(self)] { return self(bert_input(ids, mask, types, positions, embeddings), drawn); });
          },
          "ids"_a = nb::none(), "attention_mask"_a = nb::none(), "token_types"_a = nb::none(),
          "positions"_a = nb::none(), "embeddings"_a = nb::none(), "key"_a = nb::none(),
          "ids i64 [B, T], attention_mask [B, T] (0: padding) -> hidden states [B, T, dim]. embeddings [B, T, dim] "
          "stand in place of ids; `key` feeds dropout.")
      .def(
          "trace",
          [](const nn::Bert& self, const MaybeTensor& ids, const MaybeTensor& mask, const MaybeTensor& types,
             const MaybeTensor& positions, const MaybeTensor& embeddings, CallKey key) {
            const RandomKey drawn = key.of(self);
            return traces_of([&] { self(bert_input(ids, mask, types, positions, embeddings), drawn); });
          },
          "ids"_a = nb::none(), "attention_mask"_a = nb::none(), "token_types"_a = nb::none(),
          "positions"_a = nb::none(), "embeddings"_a = nb::none(), "key"_a = nb::none(), trace_words,
          nb::sig("def trace(self, ids: equigrad._core.Tensor | None = None, attention_mask: equigrad._core.Tensor | "
                  "None = None, token_types: equigrad._core.Tensor | None = None, positions: equigrad._core.Tensor | "
                  "None = None, embeddings: equigrad._core.Tensor | None = None, key: equigrad._core.random.Key | int "
                  "| None = None) -> list[dict[str, equigrad._core.Tensor]]"))
      .def(
          "embed",
          [](const nn::Bert& self, const MaybeTensor& ids, const MaybeTensor& types, const MaybeTensor& positions,
             CallKey key) {
            return released(
                [&, drawn = key.of(self)] { return self.embed(bert_input(ids, {}, types, positions, {}), drawn); });
          },
          "ids"_a, "token_types"_a = nb::none(), "positions"_a = nb::none(), "key"_a = nb::none(),
          "norm(word + position + token type): Z [B, T, dim].")
      .def(
          "encode",
          [](const nn::Bert& self, const Tensor& z, const MaybeTensor& mask, CallKey key) {
            return released([&, drawn = key.of(self)] { return self.encode(z, or_undefined(mask), drawn); });
          },
          "z"_a, "attention_mask"_a = nb::none(), "key"_a = nb::none(), "Z -> [B, T, dim], all blocks.")
      .def(
          "classify",
          [](const nn::Bert& self, const Tensor& hidden, CallKey key) {
            return released([&, drawn = key.of(self)] { return self.classify(hidden, drawn); });
          },
          "hidden"_a, "key"_a = nb::none(), "Logits of the head's classifier from hidden states [B, T, dim].")
      .def_ro("config", &nn::Bert::config)
      .def_ro("word_embedding", &nn::Bert::word_embedding)
      .def_prop_ro(
          "blocks", [](nb::handle self) { return children(self, nb::cast<nn::Bert&>(self).blocks); },
          nb::sig("def blocks(self) -> tuple[Block, ...]"));
  map_hidden(cls, "pool", &nn::Bert::pool, "tanh(W h_0 + b): [B, T, dim] -> [B, dim].");
  map_hidden(cls, "masked_lm", &nn::Bert::masked_lm, "Logits of masked tokens: [..., dim] -> [..., vocabulary].");
}

void bind_decoder_config(nb::module_& m) {
  using C = nn::DecoderConfig;
  Config<C>(m, "DecoderConfig", "A causal language model's sizes and head; see gpt2_config and llama_config.")
      .field("vocabulary", &C::vocabulary, "ids")
      .field("positions", &C::positions, "longest text, tokens")
      .field("learned_positions", &C::learned_positions, "an embedding for each position; else rotary ones")
      .field("layers", &C::layers, "number of blocks")
      .field("block", &C::block, "the blocks")
      .field("embedding_dropout", &C::embedding_dropout, "on the embeddings")
      .field("scale_by_layer", &C::scale_by_layer, "attention of layer i is scaled by 1/(i + 1) besides")
      .word("head", &C::head, nn::head_named, head_name(),
            "none, language_model, sequence_classification, token_classification or question_answering")
      .field("tied", &C::tied, "the language-model head is the embedding matrix")
      .field("head_dropout", &C::head_dropout, "on what the classifier reads")
      .field("labels", &C::labels, "classes of a classification head")
      .field("padding", &C::padding, "id of padding; -1: there is none")
      .field("constant_padding", &C::constant_padding, "the padding id's embedding gets no gradient as an input")
      .done();
  m.def("gpt2_config", &nn::gpt2_config, "dim"_a = 768, "heads"_a = 12, "layers"_a = 12, "GPT-2's shape.");
  m.def("llama_config", &nn::llama_config, "dim"_a, "heads"_a, "kv_heads"_a, "mlp"_a, "layers"_a, "Llama's shape.");
}

/// Ids and sampling options to new ids; each is handed to on_token as it comes.
std::vector<std::int64_t> generate(const nn::Decoder& model, const std::vector<std::int64_t>& prompt,
                                   std::int64_t max_new_tokens, double temperature, std::int64_t top_k, double top_p,
                                   const std::vector<std::int64_t>& end_ids, RandomKey key, nb::handle on_token) {
  const nn::GenerateOptions options{max_new_tokens, {temperature, top_k, top_p}, end_ids, key};
  const auto tell = [&](std::int64_t token) {
    if (on_token.is_none()) return true;
    const nb::gil_scoped_acquire locked;
    const nb::object answer = on_token(token);
    return answer.is_none() || nb::cast<bool>(nb::bool_(answer));
  };
  return released([&] { return nn::generate(model, prompt, options, tell); });
}

void bind_decoder(nb::module_& m) {
  bind_decoder_config(m);
  nb::class_<nn::DecoderCache>(m, "DecoderCache", "Keys and values of all layers, for decoding token by token.")
      .def(
          "__init__",
          [](nn::DecoderCache* self, const nn::DecoderConfig& config, std::int64_t batch, std::int64_t capacity,
             nb::handle dtype) {
            new (self) nn::DecoderCache(config, batch, capacity, dtype_from(dtype).value_or(DType::f32));
          },
          "config"_a, "batch"_a, "capacity"_a, "dtype"_a = "f32",
          nb::sig("def __init__(self, config: DecoderConfig, batch: int, capacity: int, dtype: str = 'f32') -> None"))
      .def_prop_ro("length", &nn::DecoderCache::length, "Tokens stored.")
      .def_prop_ro("capacity", &nn::DecoderCache::capacity)
      .def("truncate", &nn::DecoderCache::truncate, "length"_a, "Forgets all but the first `length` tokens.");
  nb::class_<nn::Decoder, nn::Module> cls(m, "Decoder", "Embedding, causal blocks, final norm, head.");
  made_from_config<nn::Decoder>(cls);
  cls.def(nb::init<const nn::DecoderConfig&, DefaultKey>(), "config"_a, "key"_a = nb::none())
      .def(
          "__call__",
          [](const nn::Decoder& self, const MaybeTensor& ids, const MaybeTensor& mask, const MaybeTensor& positions,
             const MaybeTensor& types, const MaybeTensor& embeddings, nn::DecoderCache* cache, CallKey key) {
            const nn::DecoderInput input{or_undefined(ids), or_undefined(mask), or_undefined(positions),
                                         or_undefined(types), or_undefined(embeddings)};
            return released([&, drawn = key.of(self)] { return self(input, cache, drawn); });
          },
          "ids"_a = nb::none(), "attention_mask"_a = nb::none(), "positions"_a = nb::none(),
          "token_types"_a = nb::none(), "embeddings"_a = nb::none(), "cache"_a = nb::none(), "key"_a = nb::none(),
          "ids i64 [B, T] -> normed hidden states [B, T, dim], which see what the cache holds.")
      .def(
          "trace",
          [](const nn::Decoder& self, const MaybeTensor& ids, const MaybeTensor& mask, const MaybeTensor& positions,
             const MaybeTensor& types, const MaybeTensor& embeddings, CallKey key) {
            const nn::DecoderInput input{or_undefined(ids), or_undefined(mask), or_undefined(positions),
                                         or_undefined(types), or_undefined(embeddings)};
            const RandomKey drawn = key.of(self);
            return traces_of([&] { self(input, nullptr, drawn); });
          },
          "ids"_a = nb::none(), "attention_mask"_a = nb::none(), "positions"_a = nb::none(),
          "token_types"_a = nb::none(), "embeddings"_a = nb::none(), "key"_a = nb::none(), trace_words,
          nb::sig("def trace(self, ids: equigrad._core.Tensor | None = None, attention_mask: equigrad._core.Tensor | "
                  "None = None, positions: equigrad._core.Tensor | None = None, token_types: equigrad._core.Tensor | "
                  "None = None, embeddings: equigrad._core.Tensor | None = None, key: equigrad._core.random.Key | int "
                  "| None = None) -> list[dict[str, equigrad._core.Tensor]]"))
      .def(
          "classify",
          [](const nn::Decoder& self, const Tensor& hidden, const Tensor& ids, CallKey key) {
            return released([&, drawn = key.of(self)] { return self.classify(hidden, ids, drawn); });
          },
          "hidden"_a, "ids"_a, "key"_a = nb::none(), "Logits of the head's classifier; `key` feeds dropout.")
      .def_ro("config", &nn::Decoder::config)
      .def_ro("token_embedding", &nn::Decoder::token_embedding)
      .def_prop_ro(
          "blocks", [](nb::handle self) { return children(self, nb::cast<nn::Decoder&>(self).blocks); },
          nb::sig("def blocks(self) -> tuple[Block, ...]"))
      .def_ro("norm", &nn::Decoder::norm);
  cls.def("generate", &generate, "prompt"_a, "max_new_tokens"_a = 100, "temperature"_a = 0.0, "top_k"_a = 0,
          "top_p"_a = 1.0, "end_ids"_a = std::vector<std::int64_t>{}, "key"_a = RandomKey{}, "on_token"_a = nb::none(),
          "Continues a list of ids: the new ones. temperature 0 takes the likeliest. on_token(id) is called with each "
          "and ends the text by returning what is false, other than None.",
          nb::sig("def generate(self, prompt: collections.abc.Sequence[int], max_new_tokens: int = 100, temperature: "
                  "float = 0.0, top_k: int = 0, top_p: float = 1.0, end_ids: collections.abc.Sequence[int] = (), key: "
                  "equigrad._core.random.Key | int = ..., on_token: collections.abc.Callable[[int], typing.Any] | None "
                  "= None) -> list[int]"));
  map_hidden(cls, "language_model", &nn::Decoder::language_model,
             "Logits of the next token: [..., dim] -> [..., vocabulary].");
}

} // namespace

void bind_language_models(nb::module_& parent) {
  nb::module_ m = nb::borrow<nb::module_>(parent.attr("nn"));
  bind_bert(m);
  bind_decoder(m);
}

} // namespace eg::python
