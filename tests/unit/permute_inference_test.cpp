// What the inference reads off a tape against what the black-box finder gets by calling: on every operation of the
// registry and on whole models, for every axis, the same group.

#include "core/meta.h"
#include "core/ops/list.h"
#include "core/registry.h"
#include "nn/bert.h"
#include "nn/decoder.h"
#include "nn/difm.h"
#include "nn/moe.h"
#include "nn/set_transformer.h"
#include "nn/vit.h"
#include "unit/permute_inferred.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

using namespace eg;
using namespace eg::permute;
using namespace eg::inferring;

namespace {

/// Samples may repeat values along an axis, which the finder would take for a symmetry.
Tensor general(const Tensor& x, std::uint64_t tag) {
  return is_floating(x.dtype()) ? x * random_uniform(x.shape(), {tag, 31}, 0.97, 1.03, x.dtype()) : x;
}

bool reads_values(const Subject& s) {
  try {
    const ModelSymmetries from_shapes = inferred(s);
    return false;
  } catch (const Error&) {
    return true;
  }
}

/// The row's outputs. Inputs that it refuses, because the finder has moved one axis of a definite matrix and not the
/// other, are no symmetry: then numbers that it does not give.
std::vector<Tensor> called(const OpDef& op, const Sample& sample, const std::vector<Tensor>& in) {
  if (&op != &cholesky_op) return call(op, in, sample.attrs);
  try {
    return call(op, in, sample.attrs);
  } catch (const ValueError&) {
    return {Tensor::full(in[0].shape(), -7.0, in[0].dtype())};
  }
}

/// Made of other operations after a look at the labels, which no tape sees: as shapes alone they are refused.
bool looks_at_labels(const OpDef& op) { return &op == &nll_loss_op || &op == &cosine_embedding_loss_op; }

/// Where the finder may know more (permute/README.md): rows of pixels that stand in the same windows may be exchanged,
/// and the inference sees that only where windows tile the plane; lengths of vectors are compared with eps off the
/// tape; what a row does with places that it was given or finds (scatter_reduce, searchsorted, nonzero) is not read.
bool knows_less(const OpDef& op) {
  constexpr std::array rows = {&max_pool2d_op,          &adaptive_max_pool2d_op,  &avg_pool2d_op,
                               &avg_pool2d_backward_op, &adaptive_avg_pool2d_op,  &adaptive_avg_pool2d_backward_op,
                               &interpolate_op,         &interpolate_backward_op, &cosine_similarity_op,
                               &scatter_reduce_op,      &searchsorted_op,         &nonzero_op};
  return std::find(rows.begin(), rows.end(), &op) != rows.end();
}

/// One token and one feature a head: the score q k is the same with q and k exchanged.
bool exchanges_queries_and_keys(const OpDef& op, const Sample& sample) {
  return &op == &attention_qkv_op && sample.in[0].size(-1) == 3;
}

/// Rows that order numbers take the first of equals, which moves when equals change places: what is inferred holds
/// where no two are equal. Whole numbers stay what the sample has, equal ones among them.
bool orders_equals(const OpDef& op, const Sample& sample) {
  constexpr std::array rows = {&argmax_op,  &argmin_op, &max_with_index_op, &min_with_index_op, &sort_op,
                               &argsort_op, &topk_op};
  return std::find(rows.begin(), rows.end(), &op) != rows.end() && !is_floating(sample.in[0].dtype());
}

} // namespace

TEST_CASE("inference and finder agree on every operation") {
  int compared = 0;
  for (const OpDef* op : registry()) {
    int number = 0;
    for (const Sample& sample : op->samples(DType::f64)) {
      Subject s;
      bool small = true;
      for (std::size_t i = 0; i < sample.in.size(); ++i) {
        if (!sample.in[i].defined()) continue;
        small = small && sample.in[i].numel() <= 400 && sample.in[i].numel() > 0;
        s.inputs.emplace_back(fmt::format("x{}", i), general(sample.in[i].contiguous().clone(), i));
      }
      if (!small) continue;
      s.f = [&](const nn::StateDict& leaves) {
        std::vector<Tensor> in(sample.in.size());
        std::size_t next = 0;
        for (std::size_t i = 0; i < in.size(); ++i)
          if (sample.in[i].defined()) in[i] = leaves[next++].second;
        nn::StateDict outputs;
        for (const Tensor& y : called(*op, sample, in))
          if (y.defined()) outputs.emplace_back(fmt::format("y{}", outputs.size()), y);
        return outputs;
      };
      s.needs_values = reads_values(s);
      if (looks_at_labels(*op) || orders_equals(*op, sample)) continue;
      compared += compare(fmt::format("{} #{} [{}]", op->name, number++, sample.note), s, 9, false,
                          knows_less(*op) || exchanges_queries_and_keys(*op, sample));
    }
  }
  CHECK(compared > 500);
  MESSAGE(compared, " axes compared");
}

namespace {

nn::BlockConfig small_block() { return {.dim = 6, .heads = 2, .mlp = 5}; }
Tensor normal(const Shape& shape, std::uint64_t tag) { return random_normal(shape, {tag, 5}, 0.0, 1.0, DType::f64); }
Tensor ids(const Shape& shape, std::int64_t count) { return random_integers(shape, {8, 5}, 0, count); }

Subject vit(bool distilled) {
  static std::vector<std::unique_ptr<nn::Vit>> kept;
  nn::VitConfig c{.image = 4, .channels = 1, .patch = 2, .classes = 3, .layers = 2, .encoder = small_block()};
  c.distillation = distilled;
  nn::Vit& model = *kept.emplace_back(std::make_unique<nn::Vit>(c, RandomKey{1, 0}));
  return of_module(model, {{"images", normal({2, 1, 4, 4}, 1)}}, [&](const nn::StateDict& in) -> nn::StateDict {
    return {{"logits", model(in[0].second)}};
  });
}

Subject decoder(nn::DecoderConfig c) {
  static std::vector<std::unique_ptr<nn::Decoder>> kept;
  c.vocabulary = 7;
  c.positions = 5;
  nn::Decoder& model = *kept.emplace_back(std::make_unique<nn::Decoder>(c, RandomKey{2, 0}));
  return of_module(model, {{"ids", ids({2, 5}, 7)}}, [&](const nn::StateDict& in) -> nn::StateDict {
    return {{"logits", model.language_model(model({.ids = in[0].second}))}};
  });
}

} // namespace

TEST_CASE("inference and finder agree on a ViT") { CHECK(compare("ViT", vit(false)) > 30); }
TEST_CASE("inference and finder agree on a DeiT") { CHECK(compare("DeiT", vit(true)) > 30); }

TEST_CASE("inference and finder agree on GPT-2") {
  nn::DecoderConfig c = nn::gpt2_config(6, 2, 2);
  c.block.mlp = 5;
  CHECK(compare("GPT-2", decoder(c)) > 20);
}

TEST_CASE("inference and finder agree on Llama: rotary positions, shared keys and values, a gated MLP") {
  CHECK(compare("Llama", decoder(nn::llama_config(8, 4, 2, 5, 2))) > 20);
}

TEST_CASE("inference and finder agree on rotary positions of a part of each head") {
  nn::DecoderConfig c = nn::llama_config(8, 2, 1, 3, 1);
  c.block.rotary.dims = 2;
  CHECK(compare("partial rotary", decoder(c)) > 8);
}

TEST_CASE("inference and finder agree on BERT") {
  nn::BertConfig c{.vocabulary = 7, .positions = 5, .layers = 2, .encoder = small_block()};
  c.encoder.pre_norm = false;
  c.padding = -1; // the finder looks at outputs, which do not say that a row gets no gradient
  c.head = nn::Head::sequence_classification;
  c.labels = 3;
  nn::Bert model(c, {3, 0});
  const Subject s = of_module(model, {{"ids", ids({2, 5}, 7)}}, [&](const nn::StateDict& in) -> nn::StateDict {
    return {{"logits", model.classify(model({.ids = in[0].second}))}};
  });
  CHECK(compare("BERT", s) > 25);
}

TEST_CASE("inference and finder agree on a DIFM") {
  nn::Difm model({.vocabularies = {3, 4}, .numeric = 2, .dim = 3, .heads = 2, .head_dim = 2, .hidden = {4, 3}}, {4, 0});
  const Tensor fields = Tensor::from<std::int64_t>({0, 1, 2, 3, 1, 1}, {3, 2});
  const Subject s = of_module(model, {{"values", normal({3, 2}, 2)}}, [&](const nn::StateDict& in) -> nn::StateDict {
    return {{"logits", model(fields, in[0].second)}};
  });
  CHECK(compare("DIFM", s) > 10);
}

TEST_CASE("inference and finder agree on a mixture of experts") {
  nn::MixtureOfExperts model({.dim = 4, .hidden = 3, .experts = 3, .top_k = 2}, {5, 0});
  const Subject s = of_module(model, {{"x", normal({5, 4}, 3)}}, [&](const nn::StateDict& in) -> nn::StateDict {
    return {{"y", model(in[0].second)}};
  });
  CHECK(compare("MoE", s) > 10);
}

TEST_CASE("inference and finder agree on Set Transformers, with and without inducing points") {
  for (const std::int64_t inducing : {0, 3}) {
    nn::SetTransformerConfig c{.inputs = 2, .outputs = 2, .layers = 1, .inducing = inducing, .seeds = 2, .block = {}};
    c.block.dim = 4;
    c.block.heads = 2;
    c.block.hidden = 3;
    nn::SetTransformer model(c, {6, 0});
    const Subject s = of_module(model, {{"x", normal({2, 4, 2}, 4)}}, [&](const nn::StateDict& in) -> nn::StateDict {
      return {{"y", model(in[0].second)}};
    });
    CHECK(compare("Set Transformer", s) > 20);
  }
}

TEST_CASE(
    "what moves with itself in another order, or is constant in a way that only bits tell, is not taken for free") {
  const auto check = [](const char* what, const Shape& x, const Shape& w,
                        const std::function<Tensor(const Tensor&, const Tensor&)>& f) {
    Subject s{{{"w", normal(w, 11)}}, {{"x", normal(x, 12)}}, {}, false};
    s.f = [f](const nn::StateDict& leaves) -> nn::StateDict { return {{"y", f(leaves[1].second, leaves[0].second)}}; };
    const ModelSymmetries symmetries = inferred(s);
    check_elements(what, s, symmetries, s.f(s.leaves()));
    const nn::StateDict outputs = s.f(s.leaves());
    for (const auto& one : s.leaves())
      for (int axis = 0; axis < one.second.rank(); ++axis) {
        if (one.second.size(axis) < 2 || one.second.size(axis) > 6) continue;
        const std::string& name = one.first;
        const SymmetryProbe probe(symmetries, name, axis);
        const FoundGroup found =
            find_group(probe.degree(), [&](const Permutation& p) { return commutes(s, probe, outputs, p); });
        CHECK_MESSAGE(probe.log2_count() <= found.group.log2_count() + 1e-9, what, ": ", name, " axis ", axis);
      }
  };
  check("two cycles", {6, 2}, {1}, [](const Tensor& x, const Tensor& w) {
    return (x + index_select(x, 0, Tensor::from<std::int64_t>({1, 2, 0, 5, 3, 4}, {6}))) * w;
  });
  check("joined with itself", {4, 3}, {16},
        [](const Tensor& x, const Tensor& w) { return matmul(x, gelu(x).transpose(0, 1)).reshape({16}) * w; });
  check("joined with its transpose", {4, 4}, {16},
        [](const Tensor& x, const Tensor& w) { return (x.transpose(0, 1).reshape({16}) + x.reshape({16}) * 2.0) * w; });
  check("zeros of two signs", {2, 3}, {1}, [](const Tensor& x, const Tensor& w) {
    return maximum(minimum(x / Tensor::from<double>({0.0, -0.0}, {2, 1}), w * 0.0 + 3.0), w * 0.0 - 3.0);
  });
  check("a cycle in a mask beside another", {9, 2}, {1}, [](const Tensor& x, const Tensor& w) {
    std::vector<double> mask, marks{1, 2, 3, 4, 0, 0, 0, 0, 0};
    for (int i = 0; i < 9; ++i)
      for (int j = 0; j < 9; ++j) {
        const int first = i < 4 ? 0 : 4, n = i < 4 ? 4 : 5;
        const bool near = (j < 4) == (i < 4) && ((j - first + 1) % n == i - first || (i - first + 1) % n == j - first);
        mask.push_back(near || i == j ? 0.0 : -1e9);
      }
    const Tensor y = x + Tensor::from(marks, {9, 1}) * w;
    return scaled_dot_product_attention(y, y, y, {.mask = Tensor::from(mask, {9, 9})});
  });
  check("numbers as truths", {5, 2}, {3, 2}, [](const Tensor& x, const Tensor& w) {
    const Tensor places = argmax(x, -1);
    return embedding(w, places) * places.to(DType::boolean).to(DType::f64).unsqueeze(-1);
  });
}
