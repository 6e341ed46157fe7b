// Models for which an inference once claimed too much: each with its group, and every claimed group tried by drawing
// elements of it, moving leaves and asking the function whether it commutes.

#include "core/call.h"
#include "core/meta.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "permute/symmetries.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>

using namespace eg;
using namespace eg::permute;

namespace {

using Model = std::function<Tensor(const std::vector<Tensor>&)>;

Tensor general(const Shape& shape, std::uint64_t tag) { return random_normal(shape, {tag, 5}, 0.0, 1.0, DType::f64); }
Tensor numbers(const std::vector<std::int64_t>& list) {
  return Tensor::from(list, {static_cast<std::int64_t>(list.size())});
}
Tensor reals(const std::vector<double>& list, const Shape& shape) { return Tensor::from(list, shape); }

std::vector<Tensor> tensors_of(const nn::StateDict& list) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : list) tensors.push_back(tensor);
  return tensors;
}

ModelSymmetries inferred(const nn::StateDict& leaves, const Model& f, bool from_values) {
  const MetaCallScope shapes_alone;
  nn::StateDict seen = leaves;
  if (!from_values)
    for (auto& [name, tensor] : seen) tensor = Tensor::meta(tensor.shape(), tensor.dtype());
  return ModelSymmetries({.parameters = seen, .inputs = {}, .run = [&] {
                            return nn::StateDict{{"y", f(tensors_of(seen))}};
                          }});
}

/// Relative error of f(p x) = p f(x).
double error_of(const ModelSymmetries& s, const SymmetryElement& element, const nn::StateDict& leaves, const Model& f) {
  std::vector<Tensor> moved;
  for (const auto& [name, tensor] : leaves) moved.push_back(s.moved(element, name, tensor));
  const Tensor wanted = s.moved(element, "y", f(tensors_of(leaves)));
  return relative_error(f(moved).contiguous(), wanted.contiguous());
}

/// The largest one over generators of the group and elements drawn from it.
double error_of(const ModelSymmetries& s, const SymmetryGroup& group, const nn::StateDict& leaves, const Model& f) {
  constexpr std::uint64_t draws = 8;
  double worst = 0.0;
  for (const SymmetryElement& generator : s.generators(group.name))
    worst = std::max(worst, error_of(s, generator, leaves, f));
  for (std::uint64_t draw = 0; draw < draws && group.kind != GroupKind::automorphisms; ++draw)
    worst = std::max(worst, error_of(s, s.element({group.name}, public_source({draw, 1})), leaves, f));
  return worst;
}

/// log2 of the order of the whole group, each of whose parts commutes with f.
double sound_bits(const nn::StateDict& leaves, const Model& f, bool from_values = false) {
  const ModelSymmetries s = inferred(leaves, f, from_values);
  double bits = 0.0;
  for (const SymmetryGroup& g : s.groups()) {
    if (g.kind == GroupKind::trivial) continue;
    CAPTURE(g.name);
    CHECK(error_of(s, g, leaves, f) < 1e-9);
    bits += g.log2_count;
  }
  return bits;
}

const double bits_of_2 = 1.0, bits_of_3 = std::log2(6.0), bits_of_4 = std::log2(24.0), bits_of_6 = std::log2(720.0);

} // namespace

TEST_CASE("a pair of tokens is told from the pair the other way round") {
  const Model flat_bias = [](const auto& v) {
    return matmul(matmul(v[1], v[1], false, true) + reshape(v[0], {3, 3}), v[1]);
  };
  CHECK(sound_bits({{"b", general({9}, 1)}, {"x", general({3, 2}, 2)}}, flat_bias) ==
        doctest::Approx(bits_of_3 + bits_of_2));
  const Model synthesizer = [](const auto& v) { return v[1] + matmul(softmax(reshape(v[0], {3, 3}), -1), v[1]); };
  CHECK(sound_bits({{"r", general({9}, 1)}, {"x", general({3, 2}, 2)}}, synthesizer) ==
        doctest::Approx(bits_of_3 + bits_of_2));
  const Model hypernetwork = [](const auto& v) { return v[1] + matmul(v[1], reshape(linear(v[2], v[0]), {3, 3})); };
  CHECK(sound_bits({{"h", general({9, 4}, 1)}, {"x", general({2, 3}, 2)}, {"z", general({1, 4}, 3)}}, hypernetwork) ==
        doctest::Approx(bits_of_2 + bits_of_3 + bits_of_4));
  const Model both_axes = [](const auto& v) { return reshape(v[0] + sum(v[0], {1}), {8}); };
  CHECK(sound_bits({{"x", general({2, 2, 2}, 2)}}, both_axes) == doctest::Approx(2 * bits_of_2));
}

TEST_CASE("a table of relative positions moves with the tokens alone: both the other way round") {
  const Model f = [](const auto& v) {
    std::vector<std::int64_t> ids;
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) ids.push_back(i - j + 2);
    const Tensor bias = permute_axes(reshape(index_select(v[0], 0, numbers(ids)), {3, 3, 2}), {2, 0, 1});
    const Tensor h = transpose(reshape(v[1], {3, 2, 2}), 0, 1);
    return scaled_dot_product_attention(h, h, h, AttentionOptions{.mask = bias});
  };
  // Heads, and the features of each.
  CHECK(sound_bits({{"table", general({5, 2}, 1)}, {"x", general({3, 4}, 2)}}, f) ==
        doctest::Approx(bits_of_2 + bits_of_2 + 2 * bits_of_2));
}

TEST_CASE("constant ids of pairs of tokens are a mask") {
  const Tensor ids = Tensor::from<std::int64_t>({0, 1, 2, 1, 0, 1, 2, 1, 0}, {3, 3});
  const Model f = [&](const auto& v) {
    return matmul(matmul(v[1], v[1], false, true) + embedding(v[0], ids).squeeze(-1), v[1]);
  };
  CHECK(sound_bits({{"t", general({3, 1}, 1)}, {"x", general({3, 2}, 2)}}, f) ==
        doctest::Approx(bits_of_2 + bits_of_2));
}

TEST_CASE("a constant on an axis that holds a point twice acts on each place") {
  const Model f = [](const auto& v) { return concat({v[0], v[0]}, 0) * reals({1, -1, -1, 1}, {4}); };
  CHECK(sound_bits({{"x", general({2}, 2)}}, f) == doctest::Approx(bits_of_2)); // all the other way round
  const Model alike = [](const auto& v) { return concat({v[0], v[0]}, 0) * reals({1, 1, -1, -1}, {4}); };
  CHECK(sound_bits({{"x", general({2}, 2)}}, alike) == doctest::Approx(bits_of_2));
}

TEST_CASE("tied axes that are stacked and joined keep both places of each point") {
  const Model f = [](const auto& v) { return reshape(stack({v[1], v[0]}, 0), {6, 2}) + sum(v[0] * v[1]); };
  CHECK(sound_bits({{"a", general({3, 2}, 1)}, {"b", general({3, 2}, 2)}}, f) ==
        doctest::Approx(bits_of_3 + bits_of_2));
}

TEST_CASE("an axis and itself in another order, one below the other, keep it") {
  const Model f = [](const auto& v) {
    const Tensor turned = index_select(v[1], 1, numbers({1, 0, 2, 3}));
    return matmul(concat({v[1], turned}, 0), v[0]);
  };
  CHECK(sound_bits({{"w", general({4, 3}, 1)}, {"x", general({1, 4}, 2)}}, f) ==
        doctest::Approx(bits_of_2 + bits_of_3));
  const Model joined = [](const auto& v) {
    return reshape(stack({index_select(v[0], 1, numbers({1, 0, 2})), v[0]}, 2), {12, 2});
  };
  CHECK(sound_bits({{"x", general({2, 3, 2}, 1)}}, joined) == doctest::Approx(2 * bits_of_2));
}

TEST_CASE("parts of an axis that are added in another order keep it") {
  const Model f = [](const auto& v) { return v[0] + index_select(v[1], 0, numbers({0, 3})) + v[1].slice(0, 1, 3); };
  CHECK(sound_bits({{"x", general({2}, 1)}, {"l", general({4}, 2)}}, f) == doctest::Approx(bits_of_2));
  const Model flipped = [](const auto& v) { return concat({v[0] + flip(v[0], {0}), v[0]}, 0); };
  CHECK(sound_bits({{"x", general({3}, 1)}}, flipped) == doctest::Approx(bits_of_2)); // flipped once more
}

TEST_CASE("the diagonal ties both axes, whatever was read before it") {
  for (int before = 0; before < 12; ++before) {
    CAPTURE(before);
    nn::StateDict leaves{{"x", general({2, 2}, 2)}};
    for (int i = 0; i < before; ++i) leaves.emplace_back("d" + std::to_string(i), general({2}, 3));
    const Model f = [](const auto& v) {
      Tensor rest = einsum("ii->i", {v[0]});
      for (std::size_t i = 1; i < v.size(); ++i) rest = concat({rest, v[i]}, 0);
      return rest;
    };
    CHECK(sound_bits(leaves, f) == doctest::Approx((before + 1) * bits_of_2));
  }
}

TEST_CASE("what is computed while recording is paused ties its leaves") {
  const nn::StateDict leaves{{"w", general({4, 3}, 1)}, {"t", general({4, 3}, 2)}, {"x", general({2, 3}, 3)}};
  const Model teacher = [](const auto& v) {
    Tensor z;
    {
      const PauseRecording pause;
      z = linear(v[2], v[1]);
    }
    return sum(square(linear(v[2], v[0]) - z));
  };
  for (const bool from_values : {false, true})
    CHECK(sound_bits(leaves, teacher, from_values) == doctest::Approx(bits_of_2 + bits_of_3 + bits_of_4));
}

TEST_CASE("a tensor without values whose computation was not recorded fixes everything") {
  const Model f = [](const auto& v) { return v[0] + (v[0].has_storage() ? v[1] : Tensor::meta({4}, DType::f64)); };
  CHECK(sound_bits({{"x", general({4}, 1)}, {"other", general({4}, 2)}}, f) == 0.0);
}

TEST_CASE("a number that is added to ids stays, as an ignored class does") {
  const Model shifted = [](const auto& v) {
    return embedding(v[0], v[2]) + embedding(v[1], pad(v[2].slice(0, 0, 3), 0, 1, 0));
  };
  const nn::StateDict tables{{"e", general({5, 3}, 1)}, {"d", general({5, 3}, 2)}, {"ids", numbers({3, 1, 4, 2})}};
  CHECK(sound_bits(tables, shifted) == doctest::Approx(bits_of_3));
  for (const std::int64_t ignored : {0, -100}) {
    const Model loss = [=](const auto& v) { return cross_entropy(v[0], v[1], 0.0, ignored); };
    const nn::StateDict leaves{{"logits", general({6, 4}, 1)}, {"labels", numbers({0, 1, 2, 3, 0, 2})}};
    CHECK(sound_bits(leaves, loss, true) == doctest::Approx(bits_of_6 + (ignored == 0 ? 0.0 : bits_of_4)));
  }
}

TEST_CASE("places in the order of scores stay where scores may be equal") {
  const nn::StateDict leaves{{"x", general({6, 2}, 40)}, {"w", general({1, 2}, 41)}};
  const auto chosen = [](const Tensor& x, const Tensor& scores) {
    return index_select(x, 0, topk(reshape(scores, {6}), 3, 0).indices);
  };
  const Model ties = [&](const auto& v) { return chosen(v[0], relu(linear(v[0], v[1]) - 0.8)); };
  CHECK(sound_bits(leaves, ties) == doctest::Approx(bits_of_2));
  const Model none = [&](const auto& v) { return chosen(v[0], linear(v[0], v[1])); };
  CHECK(sound_bits(leaves, none) == doctest::Approx(bits_of_2 + bits_of_6));
}

TEST_CASE("scores that a slope or a factor of 0 makes equal") {
  const nn::StateDict leaves{{"x", general({6, 2}, 40)}};
  const auto sorted = [](const Tensor& x, const Tensor& scores) { return index_select(x, 0, argsort(scores, 0)); };
  const Model slope = [&](const auto& v) { return sorted(v[0], huber_slope(sum(v[0], {1}), 0.01)); };
  CHECK(sound_bits(leaves, slope) == doctest::Approx(bits_of_2));
  const Model nothing = [&](const auto& v) { return sorted(v[0], sum(v[0], {1}) * reals({0}, {1})); };
  CHECK(sound_bits(leaves, nothing) == doctest::Approx(bits_of_2));
  const Model copied = [&](const auto& v) { // x - x, by way of a copy
    const Tensor copy = index_select(v[0], 1, numbers({0, 1}));
    return sorted(v[0], sum(v[0] - copy, {1}));
  };
  CHECK(sound_bits(leaves, copied) == doctest::Approx(bits_of_2));
  const Model opposite = [&](const auto& v) { return sorted(v[0], sum(v[0] + -1.0 * v[0], {1})); };
  CHECK(sound_bits(leaves, opposite) == doctest::Approx(bits_of_2));
  const Model product = [&](const auto& v) { // by the identity matrix
    return sorted(v[0], sum(v[0] - matmul(v[0], reals({1, 0, 0, 1}, {2, 2})), {1}));
  };
  CHECK(sound_bits(leaves, product) == doctest::Approx(bits_of_2));
  const Model symmetric = [&](const auto& v) { // x x^T
    return argsort(reshape(matmul(v[0], v[0].transpose(0, 1)), {9}), 0);
  };
  CHECK(sound_bits({{"x", general({3, 2}, 40)}}, symmetric) == doctest::Approx(bits_of_2));
  const Model looked_up = [&](const auto& v) { // ids may name the rows in this order
    return argsort(sum(v[0] - embedding(v[0], v[1]), {1}), 0);
  };
  CHECK(sound_bits({{"x", general({2, 3}, 40)}, {"ids", numbers({0, 1})}}, looked_up) == doctest::Approx(bits_of_3));
  const Model largest = [&](const auto& v) { return argmax(v[0] - amax(v[0], {1}, true), 0); }; // zeros in each row
  CHECK(sound_bits({{"x", general({3, 2}, 40)}}, largest) == doctest::Approx(bits_of_2));
  const Model first = [&](const auto& v) { return argsort(v[0] - v[0].slice(0, 0, 1), 1); }; // a row of zeros
  CHECK(sound_bits({{"x", general({3, 2}, 40)}}, first) == doctest::Approx(bits_of_2));
  const Model masked = [&](const auto& v) { // zeros where the mask is closed
    return argsort(masked_softmax(v[0], reals({1, 1, 0, 0}, {1, 4}).to(DType::boolean)), 1);
  };
  CHECK(sound_bits({{"x", general({2, 4}, 40)}}, masked) == doctest::Approx(bits_of_2));
  const Model mixed = [&](const auto& v) {
    return argsort(sum(lerp(v[0], v[1], reals({0, 0, 1, 1}, {4, 1})), {1}), 0);
  };
  CHECK(sound_bits({{"x", general({4, 2}, 40)}, {"token", general({1, 2}, 41)}}, mixed) == doctest::Approx(bits_of_2));
  const Model grouped = [&](const auto& v) { return argsort(group_norm(v[0], 3), 0); };
  CHECK(sound_bits({{"x", general({4, 3}, 40)}}, grouped) == doctest::Approx(bits_of_3));
  const Model one_key = [&](const auto& v) { return argsort(scaled_dot_product_attention(v[0], v[1], v[1]), -2); };
  CHECK(sound_bits({{"q", general({1, 4, 2}, 40)}, {"kv", general({1, 1, 2}, 41)}}, one_key) ==
        doctest::Approx(bits_of_2));
  const Model factor = [&](const auto& v) { return topk(0.125 * v[0], 2, 1).indices; }; // no ties
  CHECK(sound_bits({{"x", general({2, 4}, 40)}}, factor) == doctest::Approx(bits_of_2 + bits_of_4));
  const Model ones = [&](const auto& v) { return argmax(sum(softmax(v[0], 1), {1}), 0); };
  const Model zeros = [&](const auto& v) { return argmax(mean(center(v[0], {1}), {1}), 0); };
  const Model lengths = [&](const auto& v) { return argmax(sum(square(rms_norm(v[0])), {1}), 0); };
  for (const Model& f : {ones, zeros, lengths})
    CHECK(sound_bits({{"x", general({3, 2}, 40)}}, f) <= 3 * bits_of_2); // columns of each row
  const Model one_sided = [&](const auto& v) { return sorted(v[0], sum(v[0] + relu(neg(v[0])), {1})); }; // relu(x)
  CHECK(sound_bits(leaves, one_sided) == doctest::Approx(bits_of_2));
  const Model alone = [&](const auto& v) { return sorted(v[0], sum(prod_of_others(v[0].slice(1, 0, 1), 1), {1})); };
  CHECK(sound_bits(leaves, alone) == 0.0);
  const Model shifted = [&](const auto& v) { // one number added to all
    const Tensor both = concat({v[0], v[0]}, 0);
    return sorted(both, sum(both, {1}) + sum(v[0]));
  };
  CHECK(sound_bits(leaves, shifted) == doctest::Approx(bits_of_2));
  const Model twice = [&](const auto& v) {
    return sorted(v[0], sum(index_select(v[0], 0, numbers({1, 0, 2, 3, 4, 5})) * v[0], {1})); // two rows, one product
  };
  CHECK(sound_bits(leaves, twice) == doctest::Approx(bits_of_2));
  const Model causal = [&](const auto& v) { // all heads see the one value
    return sorted(v[0], sum(scaled_dot_product_attention(v[0], v[1], v[1], AttentionOptions{.causal = true}), {1, 2}));
  };
  CHECK(sound_bits({{"q", general({3, 1, 2}, 1)}, {"kv", general({1, 1, 2}, 2)}}, causal) ==
        doctest::Approx(bits_of_2));
  const Model all = [&](const auto& v) { return sorted(v[0], sum(v[0], {1})); };
  CHECK(sound_bits(leaves, all) == doctest::Approx(bits_of_2 + bits_of_6));
}

TEST_CASE("sorted values that are equal, of which a pause cuts the gradients") {
  const Model f = [](const auto& v) {
    const Tensor other = [&] {
      const PauseRecording pause;
      return flip(v[0], {0});
    }();
    return sort(v[0] * other, 0).values;
  };
  CHECK(sound_bits({{"x", general({2}, 40)}}, f) == 0.0);
}

TEST_CASE("scores that cancel in a way that is not recognised: the certificate refuses the group") {
  const nn::StateDict leaves{{"a", general({3, 2}, 40)}, {"b", general({3, 2}, 41)}};
  const Model f = [](const auto& v) { return argsort(sum((v[0] + v[1]) - (v[1] + v[0]), {1}), 0); };
  const ModelSymmetries s = inferred(leaves, f, false);
  const auto run = [&](const nn::StateDict& list) -> nn::StateDict { return {{"y", f(tensors_of(list))}}; };
  CHECK_THROWS_AS(s.certify(run, leaves), Error);
}

TEST_CASE("tied axes that are stacked and cut otherwise, or joined with a third one, keep their places") {
  const Model cut = [](const auto& v) { return reshape(stack({v[2], linear(v[0], v[1], v[2])}, 0), {3, 2}); };
  CHECK(sound_bits({{"x", general({2}, 1)}, {"w", general({3, 2}, 2)}, {"b", general({3}, 3)}}, cut) ==
        doctest::Approx(bits_of_2));
  const Model joined = [](const auto& v) {
    const Tensor both = reshape(linear(stack({v[0], v[1]}, 0), v[2]), {16});
    return linear(both, v[3]) + sum(v[1] * v[0]);
  };
  // Rows, features, those of the first layer, outputs.
  CHECK(sound_bits({{"a", general({2, 2}, 1)},
                    {"b", general({2, 2}, 2)},
                    {"w", general({4, 2}, 3)},
                    {"out", general({2, 16}, 4)}},
                   joined) == doctest::Approx(3 * bits_of_2 + bits_of_4));
}

TEST_CASE("causal rows of one column: those that see nothing, and one that sees it") {
  const Model f = [](const auto& v) { return masked_softmax(v[0], {}, true); };
  CHECK(sound_bits({{"x", general({4, 1}, 1)}}, f) == doctest::Approx(bits_of_3));
}

TEST_CASE("cosine_similarity is read on shapes") {
  const Model f = [](const auto& v) { return cosine_similarity(v[0], v[1]); };
  CHECK(sound_bits({{"a", general({3, 4}, 1)}, {"b", general({3, 4}, 2)}}, f) ==
        doctest::Approx(bits_of_3 + 3 * bits_of_4));
}

namespace {

Tensor through(const OpDef& op, const Tensor& x) { return call1(op, {x}); }

std::string reason_of(const ModelSymmetries& s, const std::string& tensor, int axis) {
  for (const SymmetryGroup& g : s.groups())
    for (const AxisUse& use : g.axes)
      if (use.tensor == tensor && use.axis == axis) return g.because;
  return {};
}

} // namespace

TEST_CASE("a row that fails or lies of a call fixes the axes of that call and ends nothing") {
  OpDef silent = relu_op, foreign = relu_op, uneven = relu_op, beyond = relu_op;
  silent.symmetries = [](const Sample&) -> std::vector<Symmetry> { throw ValueError("values are needed"); };
  foreign.symmetries = [](const Sample&) -> std::vector<Symmetry> { throw std::out_of_range("a list is short"); };
  uneven.symmetries = [](const Sample&) -> std::vector<Symmetry> {
    return {{"both", {in_leg(0, 0), in_leg(0, 1), out_leg(0, 0)}}};
  };
  beyond.symmetries = [](const Sample&) -> std::vector<Symmetry> { return {{"none", {in_leg(3, 7), out_leg(0, 1)}}}; };
  const nn::StateDict leaves{{"u", general({4, 3}, 1)}, {"w", general({5, 4}, 2)}, {"x", general({2, 3}, 3)}};
  for (const OpDef* op : {&silent, &foreign, &uneven, &beyond}) {
    const Model f = [=](const auto& v) { return linear(relu(linear(v[2], v[0])), v[1]) + sum(through(*op, v[2])); };
    CHECK(sound_bits(leaves, f) >= bits_of_4 + std::log2(120.0) - 1e-9); // what the row says nothing of
    const std::string reason = reason_of(inferred(leaves, f, false), "x", 1);
    CHECK_MESSAGE(reason.find("relu") != std::string::npos, reason);
  }
  const Model f = [&](const auto& v) { return sum(through(silent, v[2])); };
  CHECK(reason_of(inferred(leaves, f, false), "x", 1).find("values are needed") != std::string::npos);
}

TEST_CASE("losses that look at labels are read on shapes") {
  const nn::StateDict leaves{{"logits", general({6, 4}, 1)}, {"labels", numbers({0, 1, 2, 3, 0, 2})}};
  const Model loss = [](const auto& v) { return nll_loss(log_softmax(v[0]), v[1]); };
  CHECK(sound_bits(leaves, loss) == doctest::Approx(bits_of_6 + bits_of_4));
  const nn::StateDict pairs{{"a", general({3, 4}, 1)}, {"b", general({3, 4}, 2)}, {"l", numbers({1, -1, 1})}};
  const Model similar = [](const auto& v) { return cosine_embedding_loss(v[0], v[1], v[2]); };
  CHECK(sound_bits(pairs, similar) == doctest::Approx(bits_of_3 + 3 * bits_of_4));
}

TEST_CASE("two components whose groups are searched: the second one leaves the first") {
  const Model f = [](const auto& v) {
    const Tensor rows = repeat_interleave(reshape(v[0], {2, 6}), 2, 0);
    return fft_low_pass(concat({rows, rows}, 0), 2);
  };
  CHECK(sound_bits({{"x", general({2, 3, 2}, 1)}}, f) == doctest::Approx(bits_of_2 + bits_of_3));
}
