// Models written by hand, as people write them: each with the group that theory gives, which the black-box finder
// confirms on every axis, and whose elements commute with the model.

#include "core/meta.h"
#include "core/ops.h"
#include "unit/permute_inferred.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace eg;
using namespace eg::permute;
using namespace eg::inferring;

namespace {

double bits_of(std::int64_t n) { return std::lgamma(static_cast<double>(n) + 1.0) / std::log(2.0); }

Tensor drawn(const Shape& shape, std::uint64_t tag) { return random_normal(shape, {tag, 91}, 0.3, 0.6, DType::f64); }

/// Tensors by name.
class Leaves {
public:
  explicit Leaves(const nn::StateDict& list) : list_(list) {}
  Tensor operator[](const std::string& name) const {
    for (const auto& [key, tensor] : list_)
      if (key == name) return tensor;
    throw ValueError("no tensor " + name);
  }

private:
  const nn::StateDict& list_;
};

using Shapes = std::vector<std::pair<std::string, Shape>>;

Subject model(const Shapes& inputs, const Shapes& parameters, const std::function<Tensor(const Leaves&)>& f) {
  Subject s;
  std::uint64_t tag = 1;
  for (const auto& [name, shape] : inputs) s.inputs.emplace_back(name, drawn(shape, tag++));
  for (const auto& [name, shape] : parameters) s.parameters.emplace_back(name, drawn(shape, tag++));
  s.f = [f](const nn::StateDict& leaves) -> nn::StateDict { return {{"y", f(Leaves(leaves))}}; };
  return s;
}

double bits_in(const ModelSymmetries& symmetries) {
  double bits = 0.0;
  for (const SymmetryGroup& g : symmetries.groups())
    if (g.kind != GroupKind::trivial) bits += g.log2_count;
  return bits;
}

/// The group has the given size, the finder finds no larger one on any axis, and elements commute.
void check_group(const Subject& s, double bits) {
  CHECK(bits_in(inferred(s)) == doctest::Approx(bits));
  CHECK(compare("model", s) > 0);
}

/// [.., T, D] as [.., heads, T, D / heads], and back.
Tensor split_heads(const Tensor& x, std::int64_t heads) {
  Shape shape = x.shape();
  shape[-1] = heads;
  shape.insert(x.rank(), x.size(-1) / heads);
  return transpose(reshape(x, shape), x.rank() - 2, x.rank() - 1);
}
Tensor joined_heads(const Tensor& x) {
  const Tensor y = transpose(x, x.rank() - 3, x.rank() - 2);
  Shape shape = y.shape();
  shape.erase(y.rank() - 1);
  shape[-1] = y.size(-1) * y.size(-2);
  return reshape(y, shape);
}
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias = {}) {
  Tensor scores = matmul(q, k, false, true) * (1.0 / std::sqrt(static_cast<double>(q.size(-1))));
  if (bias.defined()) scores = scores + bias;
  return matmul(softmax(scores, -1), v);
}
Tensor self_attention(const Leaves& v, const Tensor& x, std::int64_t heads, const Tensor& bias = {}) {
  return joined_heads(attention(split_heads(linear(x, v["q"]), heads), split_heads(linear(x, v["k"]), heads),
                                split_heads(linear(x, v["v"]), heads), bias));
}

Subject attention_by_hand(std::int64_t tokens, std::int64_t heads, std::int64_t width) {
  const std::int64_t d = heads * width;
  return model({{"x", {2, tokens, d}}}, {{"q", {d, d}}, {"k", {d, d}}, {"v", {d, d}}, {"o", {d, d}}},
               [=](const Leaves& v) { return v["x"] + linear(self_attention(v, v["x"], heads), v["o"]); });
}

double attention_bits(std::int64_t tokens, std::int64_t heads, std::int64_t width) {
  return bits_of(2) + bits_of(tokens) + bits_of(heads * width) + bits_of(heads) +
         2.0 * static_cast<double>(heads) * bits_of(width);
}

} // namespace

TEST_CASE("attention by hand moves the features of each head on their own") {
  check_group(attention_by_hand(3, 2, 2), attention_bits(3, 2, 2));
  check_group(attention_by_hand(2, 2, 3), attention_bits(2, 2, 3));
}

TEST_CASE("attention by hand has the group of the fused one, at the sizes of a ViT-Base") {
  const Subject by_hand = attention_by_hand(5, 12, 64);
  Subject fused = by_hand;
  fused.f = [](const nn::StateDict& leaves) -> nn::StateDict {
    const Leaves v(leaves);
    const auto heads = [&](const char* name) { return split_heads(linear(v["x"], v[name]), 12); };
    const Tensor y = joined_heads(scaled_dot_product_attention(heads("q"), heads("k"), heads("v")));
    return {{"y", v["x"] + linear(y, v["o"])}};
  };
  const ModelSymmetries hand = inferred(by_hand), one = inferred(fused);
  CHECK(bits_in(hand) == doctest::Approx(attention_bits(5, 12, 64)));
  CHECK(bits_in(one) == doctest::Approx(bits_in(hand)));
  int of_each_head = 0;
  for (const SymmetryGroup& g : hand.groups())
    if (g.size == 64 && g.copies == 12) {
      ++of_each_head;
      CHECK(12 * bits_of(64) == doctest::Approx(3551.9).epsilon(1e-4)); // queries and keys, and values
    }
  CHECK(of_each_head == 2);
}

TEST_CASE("weights stored by head move within each head") {
  const Shapes parameters{{"q", {2, 4, 3}}, {"k", {2, 4, 3}}, {"v", {2, 4, 2}}, {"o", {2, 2, 4}}, {"b", {2, 1, 3}}};
  const double bits = bits_of(3) + bits_of(4) + bits_of(2) + 2 * bits_of(3) + 2 * bits_of(2);
  check_group(
      model({{"x", {3, 4}}}, parameters,
            [](const Leaves& v) {
              const Tensor x = v["x"];
              const Tensor q = einsum("td,hde->hte", {x, v["q"]}) + v["b"];
              const Tensor scores = softmax(einsum("hte,hse->hts", {q, einsum("td,hde->hte", {x, v["k"]})}), -1);
              return x + einsum("hts,hse,hed->td", {scores, einsum("td,hde->hte", {x, v["v"]}), v["o"]});
            }),
      bits);
  check_group(model({{"x", {3, 4}}}, parameters,
                    [](const Leaves& v) {
                      const Tensor x = v["x"];
                      const Tensor y = attention(matmul(x, v["q"]) + v["b"], matmul(x, v["k"]), matmul(x, v["v"]));
                      return x + sum(matmul(y, v["o"]), {0});
                    }),
              bits);
}

TEST_CASE("a mixture of experts by einsum moves the hidden features of each expert") {
  const Shapes parameters{{"g", {2, 3}}, {"w", {2, 5, 3}}, {"b", {2, 5}}, {"o", {2, 3, 5}}};
  check_group(model({{"x", {4, 3}}}, parameters,
                    [](const Leaves& v) {
                      const Tensor x = v["x"];
                      const Tensor h = relu(einsum("td,ehd->teh", {x, v["w"]}) + v["b"]);
                      const Tensor y = einsum("teh,edh->ted", {h, v["o"]});
                      return x + einsum("te,ted->td", {softmax(linear(x, v["g"]), -1), y});
                    }),
              bits_of(4) + bits_of(3) + bits_of(2) + 2 * bits_of(5));
  check_group(model({{"x", {4, 3}}}, parameters,
                    [](const Leaves& v) { // the best expert alone
                      const Tensor x = v["x"];
                      const Tensor p = softmax(linear(x, v["g"]), -1);
                      const Tensor best = one_hot(argmax(p, -1), 2, DType::f64) * p;
                      const Tensor h = relu(einsum("td,ehd->teh", {x, v["w"]}) + v["b"]);
                      return x + einsum("te,teh,edh->td", {best, h, v["o"]});
                    }),
              bits_of(4) + bits_of(3) + bits_of(2) + 2 * bits_of(5));
}

TEST_CASE("stacked layers move the hidden features of each layer") {
  check_group(model({{"x", {2, 3}}}, {{"w", {2, 4, 3}}, {"o", {2, 3, 4}}},
                    [](const Leaves& v) {
                      Tensor x = v["x"];
                      for (std::int64_t l = 0; l < 2; ++l)
                        x = x + linear(gelu(linear(x, squeeze(v["w"].slice(0, l, l + 1), 0))),
                                       squeeze(v["o"].slice(0, l, l + 1), 0));
                      return x;
                    }),
              bits_of(2) + bits_of(3) + 2 * bits_of(4));
}

TEST_CASE("layers that share their weights share their permutations") {
  check_group(
      model({{"x", {2, 3, 4}}},
            {{"g", {4}}, {"q", {4, 4}}, {"k", {4, 4}}, {"v", {4, 4}}, {"o", {4, 4}}, {"w", {5, 4}}, {"u", {4, 5}}},
            [](const Leaves& v) {
              Tensor x = v["x"];
              for (int layer = 0; layer < 2; ++layer) {
                x = x + linear(self_attention(v, layer_norm(x, v["g"], {}), 2), v["o"]);
                x = x + linear(gelu(linear(x, v["w"])), v["u"]);
              }
              return x;
            }),
      attention_bits(3, 2, 2) + bits_of(5));
}

TEST_CASE("talking heads: three sets of heads") {
  check_group(model({{"x", {3, 4}}},
                    {{"q", {4, 4}}, {"k", {4, 4}}, {"v", {6, 4}}, {"o", {4, 6}}, {"pl", {2, 3}}, {"pw", {3, 3}}},
                    [](const Leaves& v) {
                      const auto heads = [&](const char* name, std::int64_t n) {
                        return split_heads(linear(v["x"], v[name]), n);
                      };
                      Tensor s = einsum("hij,hg->gij", {matmul(heads("q", 2), heads("k", 2), false, true), v["pl"]});
                      s = einsum("gij,gk->kij", {softmax(s, -1), v["pw"]});
                      return linear(joined_heads(matmul(s, heads("v", 3))), v["o"]);
                    }),
              bits_of(3) + 2 * bits_of(4) + (bits_of(2) + 2 * bits_of(2)) + bits_of(3) + (bits_of(3) + 3 * bits_of(2)));
}

TEST_CASE("a mixer moves tokens, features and both hidden layers") {
  check_group(model({{"x", {2, 3, 4}}}, {{"t", {5, 3}}, {"s", {3, 5}}, {"c", {6, 4}}, {"d", {4, 6}}},
                    [](const Leaves& v) {
                      Tensor x = v["x"];
                      x = x + transpose(linear(gelu(linear(transpose(x, 1, 2), v["t"])), v["s"]), 1, 2);
                      return x + linear(gelu(linear(x, v["c"])), v["d"]);
                    }),
              bits_of(2) + bits_of(3) + bits_of(4) + bits_of(5) + bits_of(6));
}

TEST_CASE("axial attention moves rows and columns") {
  check_group(model({{"x", {2, 3, 4}}}, {{"w", {4, 4}}},
                    [](const Leaves& v) {
                      Tensor x = v["x"];
                      x = x + attention(x, x, x);
                      Tensor t = transpose(x, 0, 1);
                      t = t + attention(t, t, t);
                      return linear(t, v["w"]);
                    }),
              bits_of(2) + bits_of(3) + 2 * bits_of(4));
}

TEST_CASE("a hypernetwork moves rows and columns of the weight that it makes") {
  check_group(model({{"x", {2, 3}}, {"z", {1, 4}}}, {{"h", {9, 4}}},
                    [](const Leaves& v) {
                      return matmul(v["x"], reshape(linear(v["z"], v["h"]), {3, 3}));
                    }),
              bits_of(2) + bits_of(4) + 2 * bits_of(3));
}

TEST_CASE("a graph network by index moves nodes, edges and features") {
  Subject s = model({{"x", {4, 3}}}, {{"w", {3, 3}}}, [](const Leaves& v) {
    const Tensor messages = linear(index_select(v["x"], 0, v["from"]), v["w"]);
    return scatter_add(v["x"], 0, expand(v["to"].unsqueeze(1), {5, 3}), messages);
  });
  s.inputs.emplace_back("from", Tensor::from<std::int64_t>({0, 1, 2, 3, 1}, {5}));
  s.inputs.emplace_back("to", Tensor::from<std::int64_t>({1, 2, 3, 0, 3}, {5}));
  check_group(s, bits_of(4) + bits_of(5) + bits_of(3));
}

TEST_CASE("an LSTM, time first") {
  check_group(model({{"x", {3, 2, 2}}}, {{"w", {8, 2}}, {"u", {8, 2}}},
                    [](const Leaves& v) {
                      Tensor h = Tensor::zeros({2, 2}, DType::f64), c = h;
                      for (std::int64_t t = 0; t < 3; ++t) {
                        const auto g =
                            chunk(linear(squeeze(v["x"].slice(0, t, t + 1), 0), v["w"]) + linear(h, v["u"]), 4, -1);
                        c = sigmoid(g[0]) * c + sigmoid(g[1]) * tanh(g[2]);
                        h = sigmoid(g[3]) * tanh(c);
                      }
                      return h;
                    }),
              3 * bits_of(2));
}

namespace {

/// Numbers [T, T] of how far tokens lie apart, in units of -slope, one matrix for each slope.
Tensor alibi(std::int64_t tokens, const std::vector<double>& slopes) {
  std::vector<double> bias;
  for (const double slope : slopes)
    for (std::int64_t i = 0; i < tokens; ++i)
      for (std::int64_t j = 0; j < tokens; ++j) bias.push_back(-slope * std::abs(static_cast<double>(i - j)));
  return Tensor::from(bias, {static_cast<std::int64_t>(slopes.size()), tokens, tokens});
}

const Shapes attention_weights{{"q", {4, 4}}, {"k", {4, 4}}, {"v", {4, 4}}};

} // namespace

TEST_CASE("ALiBi both ways: tokens in reverse order") {
  const auto f = [](const std::vector<double>& slopes) {
    return [=](const Leaves& v) { return self_attention(v, v["x"], 2, alibi(4, slopes)); };
  };
  const double of_heads = bits_of(4) + 4 * bits_of(2);
  check_group(model({{"x", {4, 4}}}, attention_weights, f({0.5, 0.25})), 1.0 + of_heads);
  check_group(model({{"x", {4, 4}}}, attention_weights, f({0.5, 0.5})), 1.0 + of_heads + bits_of(2));
}

TEST_CASE("several masks of one axis: their common group") {
  // A ring of six tokens and a band, each with its own tensor: the reflection that keeps both.
  const auto f = [](bool marked) {
    return [=](const Leaves& v) {
      std::vector<double> ring, band;
      for (int i = 0; i < 6; ++i)
        for (int j = 0; j < 6; ++j) {
          ring.push_back((i - j + 6) % 6 == 1 || (j - i + 6) % 6 == 1 ? 1.0 : 0.0);
          band.push_back(std::abs(i - j) < 3 ? 1.0 : 0.0);
        }
      Tensor x = v["x"];
      x = x + matmul(Tensor::from(ring, {6, 6}), x);
      x = gelu(x) + matmul(Tensor::from(band, {6, 6}), x);
      return marked ? x * Tensor::from<double>({1, 2, 2, 2, 2, 1}, {6, 1}) : x;
    };
  };
  check_group(model({{"x", {6, 2}}}, {}, f(false)), 1.0 + bits_of(2));
  check_group(model({{"x", {6, 2}}}, {}, f(true)), 1.0 + bits_of(2));
  const auto torn = [&](const Leaves& v) { return f(false)(v) * Tensor::from<double>({1, 2, 1, 1, 1, 1}, {6, 1}); };
  check_group(model({{"x", {6, 2}}}, {}, torn), bits_of(2));
}

TEST_CASE("a cosine transform over tokens: frequencies of one sign or the other") {
  check_group(model({{"x", {5, 2}}}, {},
                    [](const Leaves& v) {
                      std::vector<double> cosines;
                      for (int i = 0; i < 5; ++i)
                        for (int j = 0; j < 5; ++j) {
                          const int turn = i * j % 5;
                          cosines.push_back(std::cos(2.0 * std::acos(-1.0) * std::min(turn, 5 - turn) / 5.0));
                        }
                      return v["x"] + gelu(matmul(Tensor::from(cosines, {5, 5}), v["x"]));
                    }),
              3.0 + bits_of(2)); // 1 and 4 are equal, 2 and 3 are, and doubling exchanges these pairs
}

TEST_CASE("relative positions by buckets of a table") {
  check_group(model({{"x", {4, 4}}}, {{"q", {4, 4}}, {"k", {4, 4}}, {"v", {4, 4}}, {"t", {4, 2}}},
                    [](const Leaves& v) {
                      std::vector<std::int64_t> ids;
                      for (int i = 0; i < 4; ++i)
                        for (int j = 0; j < 4; ++j) ids.push_back(std::abs(i - j));
                      const Tensor bias = permute_axes(embedding(v["t"], Tensor::from(ids, {4, 4})), {2, 0, 1});
                      return self_attention(v, v["x"], 2, bias);
                    }),
              1.0 + bits_of(4) + bits_of(2) + 4 * bits_of(2));
}

TEST_CASE("group norm, windows and pixels") {
  check_group(model({{"x", {2, 6, 3}}}, {{"g", {6}}, {"b", {6}}},
                    [](const Leaves& v) { return group_norm(v["x"], 2, v["g"], v["b"]); }),
              bits_of(2) + bits_of(2) + 3 * bits_of(3)); // places of inputs move alike in all samples and groups
  check_group(model({{"x", {1, 3, 3, 3}}}, {{"w", {2, 12}}},
                    [](const Leaves& v) { return linear(transpose(unfold(v["x"], 2), 1, 2), v["w"]); }),
              bits_of(3) + bits_of(2));
  check_group(
      model({{"x", {1, 3, 2, 3}}}, {{"w", {2, 3, 1, 1}}}, [](const Leaves& v) { return conv2d(v["x"], v["w"]); }),
      bits_of(3) + bits_of(2) + bits_of(2) + bits_of(3));
  check_group(model({{"x", {1, 4, 2, 3}}}, {{"w", {4, 1, 1, 1}}},
                    [](const Leaves& v) { return conv2d(v["x"], v["w"], {}, {.groups = 4}); }),
              bits_of(4) + bits_of(2) + bits_of(3));
}

TEST_CASE("pixels that are shown several times") {
  check_group(model({{"x", {1, 2, 2, 3}}}, {},
                    [](const Leaves& v) {
                      return interpolate(v["x"], {4, 6}, "nearest");
                    }),
              2 * bits_of(2) + bits_of(3) + 5 * bits_of(2)); // both images of a row or column are equal
  check_group(model({{"x", {3}}}, {{"w", {6}}}, [](const Leaves& v) { return repeat(v["x"], {2}) * v["w"]; }),
              bits_of(3) + 3 * bits_of(2));
}
