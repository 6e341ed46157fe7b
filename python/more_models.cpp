// Models beyond transformers of texts and images: DIFM for tables, Set Transformers, mixtures of experts.

#include "nn/difm.h"
#include "nn/moe.h"
#include "nn/set_transformer.h"

#include "config.h"
#include "modules.h"
#include "traces.h"

namespace eg::python {
namespace {

using MaybeTensor = std::optional<Tensor>;

std::string_view activation_name(nn::Activation activation) { return nn::name_of(activation); }

void bind_difm(nb::module_& m) {
  using C = nn::DifmConfig;
  Config<C>(m, "DifmConfig", "A DIFM's fields and widths.")
      .field("vocabularies", &C::vocabularies, "how many ids each categorical field has")
      .field("numeric", &C::numeric, "numeric fields, behind the categorical ones")
      .field("dim", &C::dim, "width of a field's embedding")
      .field("heads", &C::heads, "of the vector-wise part's attention")
      .field("head_dim", &C::head_dim, "width of a head")
      .field("hidden", &C::hidden, "widths of the bit-wise part's layers")
      .word("activation", &C::activation, nn::activation_named, activation_name, "of both parts")
      .field("dropout", &C::dropout, "behind each layer of the bit-wise part")
      .done();
  nb::class_<nn::Difm, nn::Module> difm(m, "Difm", "Dual input-aware factorization machine for rows of a table.");
  made_from_config<nn::Difm>(difm);
  difm.def(nb::init<const C&, DefaultKey>(), "config"_a, "key"_a = nb::none())
      .def(
          "__call__",
          [](const nn::Difm& self, const MaybeTensor& ids, const MaybeTensor& values, CallKey key) {
            return released([&, drawn = key.of(self)] { return self(or_undefined(ids), or_undefined(values), drawn); });
          },
          "ids"_a, "values"_a = nb::none(), "key"_a = nb::none(),
          "ids [B, categorical] i64, values [B, numeric] -> logits [B].")
      .def(
          "embed",
          [](const nn::Difm& self, const MaybeTensor& ids, const MaybeTensor& values) {
            return released([&] { return self.embed(or_undefined(ids), or_undefined(values)); });
          },
          "ids"_a, "values"_a = nb::none(), "E [B, F, dim].")
      .def(
          "trace",
          [](const nn::Difm& self, const MaybeTensor& ids, const MaybeTensor& values, CallKey key) {
            const RandomKey drawn = key.of(self);
            return traces_of([&] { self(or_undefined(ids), or_undefined(values), drawn); });
          },
          "ids"_a, "values"_a = nb::none(), "key"_a = nb::none(),
          "What the attention over the fields computed: attention [B, heads, F, F] and the rest.",
          nb::sig(
              "def trace(self, ids: equigrad._core.Tensor | None, values: equigrad._core.Tensor | None = None, key: "
              "equigrad._core.random.Key | int | None = None) -> list[dict[str, equigrad._core.Tensor]]"))
      .def(
          "vector_wise",
          [](const nn::Difm& self, const Tensor& e) { return released([&] { return self.vector_wise(e); }); }, "e"_a,
          "E [B, F, dim] -> O [B, F, heads head_dim]; permuted rows of E permute those of O.")
      .def_ro("config", &nn::Difm::config);
}

void bind_set_transformer(nb::module_& m) {
  using B = nn::SetBlockConfig;
  Config<B>(m, "SetBlockConfig", "A block of a Set Transformer.")
      .field("dim", &B::dim, "width of an element")
      .field("heads", &B::heads, "number of heads")
      .field("head_dim", &B::head_dim, "width of a head; 0: dim / heads")
      .field("hidden", &B::hidden, "of the feed-forward layers")
      .word("activation", &B::activation, nn::activation_named, activation_name, "of the feed-forward layers")
      .field("norm", &B::norm, "layer normalisation behind both sums")
      .field("norm_eps", &B::norm_eps, "eps of the norms")
      .done();
  using C = nn::SetTransformerConfig;
  Config<C>(m, "SetTransformerConfig", "A Set Transformer's sizes.")
      .field("inputs", &C::inputs, "features of an element")
      .field("outputs", &C::outputs, "numbers for each seed")
      .field("layers", &C::layers, "of the encoder")
      .field("inducing", &C::inducing, "points of its ISABs; 0: SABs")
      .field("seeds", &C::seeds, "pooled vectors")
      .field("decoder_layers", &C::decoder_layers, "SABs among the pooled vectors")
      .field("block", &C::block, "the blocks")
      .done();
  nb::class_<nn::SetTransformer, nn::Module> sets(m, "SetTransformer", "Invariant to the order of a set's elements.");
  made_from_config<nn::SetTransformer>(sets);
  sets.def(nb::init<const C&, DefaultKey>(), "config"_a, "key"_a = nb::none())
      .def(
          "__call__",
          [](const nn::SetTransformer& self, const Tensor& x, const MaybeTensor& valid) {
            return released([&] { return self(x, or_undefined(valid)); });
          },
          "x"_a, "valid"_a = nb::none(), "x [B, T, inputs], valid [B, T] bool -> [B, seeds, outputs].")
      .def(
          "trace",
          [](const nn::SetTransformer& self, const Tensor& x, const MaybeTensor& valid) {
            return traces_of([&] { self(x, or_undefined(valid)); });
          },
          "x"_a, "valid"_a = nb::none(),
          "What every attention computed, in the order of the calls: of an ISAB first the one of the inducing points.",
          nb::sig("def trace(self, x: equigrad._core.Tensor, valid: equigrad._core.Tensor | None = None) -> "
                  "list[dict[str, equigrad._core.Tensor]]"))
      .def(
          "encode",
          [](const nn::SetTransformer& self, const Tensor& x, const MaybeTensor& valid) {
            return released([&] { return self.encode(x, or_undefined(valid)); });
          },
          "x"_a, "valid"_a = nb::none(), "[B, T, inputs] -> [B, T, dim]; permuted elements permute the result.")
      .def_ro("config", &nn::SetTransformer::config);
  nb::class_<nn::Pma, nn::Module> pma(m, "Pma", "Pooling by learned seeds: [B, T, dim] -> [B, k, dim].");
  pma.def(nb::init<const B&, std::int64_t, DefaultKey>(), "config"_a, "k"_a, "key"_a = nb::none())
      .def(
          "__call__",
          [](const nn::Pma& self, const Tensor& z, const MaybeTensor& valid) {
            return released([&] { return self(z, or_undefined(valid)); });
          },
          "z"_a, "valid"_a = nb::none(), "Z [B, T, dim], valid [B, T] bool -> [B, k, dim].");
  tensor_attribute(pma, "seeds", &nn::Pma::seeds);
  made_from<nn::Pma>(
      pma, [](const nn::Pma& self) { return arguments("config", self.mab.config, "k", self.seeds.size(1), "key", 0); });
}

void bind_moe_output(nb::module_& m) {
  using R = nn::MoeRouting;
  nb::class_<R>(m, "MoeRouting", "What the router decided for N tokens.")
      .def_ro("logits", &R::logits, "[N, experts].")
      .def_ro("probabilities", &R::probabilities, "softmax of them.")
      .def_ro("experts", &R::experts, "[N, top_k] i64, the likeliest first.")
      .def_ro("weights", &R::weights, "[N, top_k]: what the experts' results are multiplied by.");
  using Output = nn::MixtureOfExperts::Output;
  nb::class_<Output>(m, "MoeOutput", "A mixture's result, and how its tokens were routed.")
      .def_ro("y", &Output::y)
      .def_ro("routing", &Output::routing)
      .def_ro("load", &Output::load, "Tokens that each expert computed.")
      .def_ro("dropped", &Output::dropped, "Choices that found no room.");
  const auto loss = [&m](const char* name, auto function, const char* doc) {
    m.def(
        name,
        [function](const R& routing, const MaybeTensor& valid) {
          return released([&] { return function(routing, or_undefined(valid)); });
        },
        "routing"_a, "valid"_a = nb::none(), doc);
  };
  loss("load_balancing_loss", &nn::load_balancing_loss,
       "experts sum_e f_e P_e: top_k when all is even. valid: bool [N], tokens that count.");
  loss("router_z_loss", &nn::router_z_loss, "Mean of (log sum exp logits)^2 over the tokens that count.");
}

void bind_moe(nb::module_& m) {
  using C = nn::MoeConfig;
  Config<C>(m, "MoeConfig", "A mixture of experts.")
      .field("dim", &C::dim, "width of a token")
      .field("hidden", &C::hidden, "of each expert")
      .field("experts", &C::experts, "how many")
      .field("top_k", &C::top_k, "experts of each token")
      .word("activation", &C::activation, nn::activation_named, activation_name, "of the experts")
      .field("gated", &C::gated, "w2(activation(w1 x) * w3 x)")
      .field("bias", &C::bias, "of the experts' linears")
      .field("renormalize", &C::renormalize, "weights of a token's experts add up to 1")
      .field("capacity_factor", &C::capacity_factor, "0: dropless")
      .field("jitter", &C::jitter, "of the router's input in training")
      .done();
  bind_moe_output(m);
  nb::class_<nn::MixtureOfExperts, nn::Module> experts(m, "MixtureOfExperts",
                                                       "Mixture of experts in the place of an MLP.");
  made_from_config<nn::MixtureOfExperts>(experts);
  experts.def(nb::init<const C&, DefaultKey>(), "config"_a, "key"_a = nb::none())
      .def(
          "__call__",
          [](const nn::MixtureOfExperts& self, const Tensor& x, const MaybeTensor& addend, CallKey key) {
            return released([&, drawn = key.of(self)] { return self(x, or_undefined(addend), drawn); });
          },
          "x"_a, nb::kw_only(), "addend"_a = nb::none(), "key"_a = nb::none(),
          "x [..., dim] -> [..., dim]; `key` feeds the jitter.")
      .def(
          "forward",
          [](const nn::MixtureOfExperts& self, const Tensor& x, const MaybeTensor& addend, CallKey key) {
            return released([&, drawn = key.of(self)] { return self.forward(x, or_undefined(addend), drawn); });
          },
          "x"_a, nb::kw_only(), "addend"_a = nb::none(), "key"_a = nb::none(),
          "y with the router's decisions; load_balancing_loss() and router_z_loss() of them keep the experts even.")
      .def_ro("config", &nn::MixtureOfExperts::config)
      .def_ro("gate", &nn::MixtureOfExperts::gate);
}

} // namespace

void bind_more_models(nb::module_& parent) {
  nb::module_ m = nb::borrow<nb::module_>(parent.attr("nn"));
  bind_difm(m);
  bind_set_transformer(m);
  bind_moe(m);
}

} // namespace eg::python
