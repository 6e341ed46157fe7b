// Attention and the transformer block.

#include "nn/block.h"

#include "config.h"
#include "modules.h"
#include "traces.h"

namespace eg::python {

nb::dict dict_of(const nn::MultiHeadAttention::Trace& trace, double scale) {
  nb::dict dict;
  dict["q"] = trace.q;
  dict["k"] = trace.k;
  dict["v"] = trace.v;
  dict["logits"] = nn::attention_logits(trace.q, trace.k, scale);
  dict["attention"] = trace.scores;
  dict["scores"] = trace.scores;
  dict["a"] = trace.a;
  dict["output"] = trace.output;
  return dict;
}

nn::NormKind norm_kind_named(std::string_view name);

nn::NormKind norm_kind_named(std::string_view name) {
  if (name == "layer") return nn::NormKind::layer;
  if (name == "rms") return nn::NormKind::rms;
  throw ValueError(fmt::format("norm: '{}' is neither 'layer' nor 'rms'", name));
}

namespace {

using MaybeTensor = std::optional<Tensor>;

nn::AttentionContext context(const MaybeTensor& mask, const MaybeTensor& positions) {
  return {.mask = or_undefined(mask), .positions = or_undefined(positions)};
}

void bind_configs(nb::module_& m) {
  using R = nn::RotaryConfig;
  Config<R>(m, "RotaryConfig", "How queries and keys turn with their token's position.")
      .field("on", &R::on, "turn at all")
      .field("base", &R::base, "theta: pair i turns by position base^(-2 i / dims)")
      .field("interleaved", &R::interleaved, "pairs (2i, 2i + 1) instead of halves")
      .field("dims", &R::dims, "leading features of a head that turn; 0: all")
      .field("frequencies", &R::frequencies, "radians a position for each pair, in place of the powers of base")
      .field("amplitude", &R::amplitude, "factor of the turned features")
      .field("dynamic_factor", &R::dynamic_factor, "dynamic NTK scaling beyond trained_positions; 0: off")
      .field("trained_positions", &R::trained_positions, "tokens that the model was trained with")
      .done();
  using C = nn::BlockConfig;
  Config<C>(m, "BlockConfig", "A transformer block's sizes and kind.")
      .field("dim", &C::dim, "width of the residual")
      .field("heads", &C::heads, "number of heads")
      .field("head_dim", &C::head_dim, "width of a head; 0: dim / heads")
      .field("kv_heads", &C::kv_heads, "heads of keys and values; 0: heads")
      .field("mlp", &C::mlp, "hidden width of the MLP")
      .word(
          "activation", &C::activation, nn::activation_named, [](nn::Activation a) { return nn::name_of(a); },
          "gelu, gelu_tanh, quick_gelu, relu, relu2, silu, mish, sigmoid or tanh")
      .field("gated", &C::gated, "MLP: activation(gate) up")
      .word(
          "norm", &C::norm, norm_kind_named,
          [](nn::NormKind kind) { return kind == nn::NormKind::rms ? "rms" : "layer"; }, "layer or rms")
      .field("pre_norm", &C::pre_norm, "x + f(norm x), else norm(x + f(x))")
      .field("norm_eps", &C::norm_eps, "eps of the norms")
      .field("qkv_bias", &C::qkv_bias, "bias of the fused projection")
      .field("proj_bias", &C::proj_bias, "bias of the output projection")
      .field("mlp_bias", &C::mlp_bias, "biases of the MLP")
      .field("causal", &C::causal, "a token sees itself and those before it")
      .field("attention_scale", &C::attention_scale, "factor of Q K^T; 0: 1/sqrt(head_dim)")
      .field("rotary", &C::rotary, "rotary positions")
      .field("dropout", &C::dropout, "on both residual branches")
      .field("attention_dropout", &C::attention_dropout, "on the attention weights")
      .field("checkpoint", &C::checkpoint, "keep a block's input alone and compute the rest again")
      .done();
}

void bind_attention(nb::module_& m) {
  nb::class_<nn::MultiHeadAttention, nn::Module> cls(
      m, "MultiHeadAttention",
      "Self-attention; qkv.weight [(heads + 2 kv_heads) head_dim, dim], proj.weight [dim, heads head_dim].");
  cls.def(
         "__init__",
         [](nn::MultiHeadAttention* self, std::int64_t dim, std::int64_t heads, std::int64_t head_dim, DefaultKey key,
            std::int64_t kv_heads, bool bias, bool causal, double scale, double dropout, const nn::RotaryConfig& rotary,
            std::optional<bool> proj_bias) {
           if (head_dim == 0 && (heads < 1 || dim % heads != 0))
             throw ValueError(
                 fmt::format("MultiHeadAttention: {} features do not divide into {} heads; give head_dim", dim, heads));
           new (self) nn::MultiHeadAttention({.dim = dim,
                                              .heads = heads,
                                              .head_dim = head_dim == 0 ? dim / heads : head_dim,
                                              .kv_heads = kv_heads,
                                              .qkv_bias = bias,
                                              .proj_bias = proj_bias.value_or(bias),
                                              .causal = causal,
                                              .scale = scale,
                                              .dropout = dropout,
                                              .rotary = rotary},
                                             key);
         },
         "dim"_a, "heads"_a, "head_dim"_a = 0, "key"_a = nb::none(), "kv_heads"_a = 0, "bias"_a = true,
         "causal"_a = false, "scale"_a = 0.0, "dropout"_a = 0.0, "rotary"_a = nn::RotaryConfig{},
         "proj_bias"_a = nb::none(), "head_dim 0: dim / heads. proj_bias: of the output projection; None: as `bias`.")
      .def(
          "__call__",
          [](const nn::MultiHeadAttention& self, const Tensor& x, const MaybeTensor& addend, const MaybeTensor& mask,
             const MaybeTensor& positions, CallKey key) {
            return released(
                [&, drawn = key.of(self)] { return self(x, or_undefined(addend), context(mask, positions), drawn); });
          },
          "x"_a, nb::kw_only(), "addend"_a = nb::none(), "mask"_a = nb::none(), "positions"_a = nb::none(),
          "key"_a = nb::none(),
          "x [B, T, dim], which gives queries, keys and values -> [B, T, dim]; mask against the scores [B, heads, T, "
          "T]: bool (seen) or floating (added).")
      .def(
          "trace",
          [](const nn::MultiHeadAttention& self, const Tensor& x, const MaybeTensor& mask) {
            return dict_of(released([&] { return self.trace(x, context(mask, {})); }), self.scale());
          },
          "x"_a, nb::kw_only(), "mask"_a = nb::none(),
          "What the explicit path computes: q, k, v; logits, scale Q K^T without masks; attention, softmax of the "
          "masked "
          "logits (scores is its other name); a, attention times V; output.",
          nb::sig(
              "def trace(self, x: equigrad._core.Tensor, *, mask: equigrad._core.Tensor | None = None) -> dict[str, "
              "equigrad._core.Tensor]"))
      .def_ro("dim", &nn::MultiHeadAttention::dim)
      .def_ro("heads", &nn::MultiHeadAttention::heads)
      .def_ro("head_dim", &nn::MultiHeadAttention::head_dim)
      .def_ro("qkv", &nn::MultiHeadAttention::qkv)
      .def_ro("proj", &nn::MultiHeadAttention::proj);
  made_from<nn::MultiHeadAttention>(cls, [](const nn::MultiHeadAttention& self) {
    const nn::AttentionConfig& c = self.config;
    return arguments("dim", c.dim, "heads", c.heads, "head_dim", c.head_dim, "key", 0, "kv_heads", c.kv_heads, "bias",
                     c.qkv_bias, "causal", c.causal, "scale", c.scale, "dropout", c.dropout, "rotary", c.rotary,
                     "proj_bias", c.proj_bias);
  });
}

void bind_block(nb::module_& m) {
  nb::class_<nn::Block, nn::Module> cls(m, "Block", "norm1, attention, norm2, mlp on [B, T, dim].");
  made_from_config<nn::Block>(cls);
  cls.def(nb::init<const nn::BlockConfig&, DefaultKey>(), "config"_a, "key"_a = nb::none())
      .def(
          "__call__",
          [](const nn::Block& self, const Tensor& x, CallKey key, const MaybeTensor& mask,
             const MaybeTensor& positions) {
            return released([&, drawn = key.of(self)] { return self(x, context(mask, positions), drawn); });
          },
          "x"_a, nb::kw_only(), "key"_a = nb::none(), "mask"_a = nb::none(), "positions"_a = nb::none(),
          "x [B, T, dim] -> [B, T, dim]; `key` feeds dropout.")
      .def_ro("config", &nn::Block::config)
      .def_ro("norm1", &nn::Block::norm1)
      .def_ro("attention", &nn::Block::attention)
      .def_ro("norm2", &nn::Block::norm2)
      .def_ro("mlp", &nn::Block::mlp);
}

} // namespace

void bind_blocks(nb::module_& parent) {
  nb::module_ m = nb::borrow<nb::module_>(parent.attr("nn"));
  bind_configs(m);
  bind_attention(m);
  bind_block(m);
}

} // namespace eg::python
