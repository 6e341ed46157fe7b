// Papers 002 and 003: attention's invariances and positions.

#include "permute/catalogue/case.h"

#include "core/exact/elementary.h"
#include "nn/vit.h"

#include <cmath>

namespace eg::permute {
namespace {

/// One head between n_q queries and n_k keys, with weights and biases.
struct Head {
  Tensor wq, bq, wk, bk, wv, bv;

  Head(Case& c, std::int64_t dim, std::int64_t inner, std::int64_t values)
      : wq(c.normal({inner, dim}, 0.4)), bq(c.normal({inner})), wk(c.normal({inner, dim}, 0.4)), bk(c.normal({inner})),
        wv(c.normal({values, dim}, 0.4)), bv(c.normal({values})) {}

  Tensor operator()(const Tensor& queries, const Tensor& keys, const Tensor& values) const {
    return scaled_dot_product_attention(linear(queries, wq, bq), linear(keys, wk, bk), linear(values, wv, bv));
  }
};

Claim keys_and_values(Case& c) {
  const std::int64_t n = c.options.tokens, m = n + 2, d = c.options.dim;
  const Tensor x = c.normal({n, d}), y = c.normal({m, d});
  const Head head(c, d, d + 1, d + 3);
  const Permutation sigma = c.permutation(m);
  const Tensor y_s = sigma.apply(y, 0);
  Claim claim;
  claim.equal("keys and values in one other order", head(x, y_s, y_s), head(x, y, y));
  claim.differs("values in an order of their own", head(x, y_s, c.another(sigma).apply(y, 0)), head(x, y, y));
  return claim;
}

Claim with_weights(Case& c) {
  const std::int64_t n = c.options.tokens, m = n + 2, d = c.options.dim;
  const Tensor x = c.normal({n, d}), y = c.normal({m, d});
  const Head head(c, d, d + 1, d + 3);
  const Permutation pi = c.permutation(n), sigma = c.permutation(m);
  const Tensor y_s = sigma.apply(y, 0), plain = head(x, y, y);
  Claim claim;
  claim.equal("pi on queries, sigma on keys and values, every bias there", head(pi.apply(x, 0), y_s, y_s),
              pi.apply(plain, 0));
  claim.differs("the output in the order before", head(pi.apply(x, 0), y_s, y_s), plain);
  return claim;
}

Claim with_weights_and_biases(Case& c) {
  const std::int64_t n = c.options.tokens, m = n + 2, d = c.options.dim;
  const Tensor x = c.normal({n, d}), y = c.normal({m, d}), places = c.normal({m, d + 1});
  const Head head(c, d, d + 1, d + 3);
  const Permutation pi = c.permutation(n), sigma = c.permutation(m);
  const Tensor y_s = sigma.apply(y, 0), expected = pi.apply(head(x, y, y), 0);
  const auto with_places = [&](const Tensor& queries, const Tensor& text) { // a bias of each place on the keys
    return scaled_dot_product_attention(linear(queries, head.wq, head.bq), linear(text, head.wk) + places,
                                        linear(text, head.wv, head.bv));
  };
  Claim claim;
  claim.equal("b_q, b_k, b_v, one for all tokens", head(pi.apply(x, 0), y_s, y_s), expected);
  claim.differs("a bias for each place", with_places(pi.apply(x, 0), y_s), pi.apply(with_places(x, y), 0));
  return claim;
}

/// Attention itself, n_q != n_k and d_k != d_v: sigma on K and V (and pi on Q).
Claim without_weights(Case& c, bool queries_too) {
  const std::int64_t n = c.options.tokens, m = n + 2, d = c.options.dim;
  const Tensor q = c.normal({n, d}), k = c.normal({m, d}), v = c.normal({m, d + 3});
  const Permutation pi = queries_too ? c.permutation(n) : Permutation::identity(n), sigma = c.permutation(m);
  const auto read = [&](const Tensor& values) {
    return scaled_dot_product_attention(pi.apply(q, 0), sigma.apply(k, 0), values);
  };
  const Tensor expected = pi.apply(scaled_dot_product_attention(q, k, v), 0);
  Claim claim;
  claim.equal("keys and values in one order", read(sigma.apply(v, 0)), expected);
  claim.differs("values in another order than keys", read(c.another(sigma).apply(v, 0)), expected);
  return claim;
}

Claim self_attention(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor x = c.normal({n, d});
  const Head head(c, d, d + 1, d + 3);
  const Permutation pi = c.permutation(n);
  const Tensor x_p = pi.apply(x, 0);
  Claim claim;
  claim.equal("one head on one text", head(x_p, x_p, x_p), pi.apply(head(x, x, x), 0));
  claim.differs("the output in the order before", head(x_p, x_p, x_p), head(x, x, x));
  return claim;
}

Claim many_heads(Case& c) {
  const std::int64_t n = c.options.tokens, m = n + 2, d = c.options.dim, heads = c.options.heads;
  const Tensor x = c.normal({n, d}), y = c.normal({m, d}), w = c.normal({d, heads * (d + 3)}, 0.3), b = c.normal({d});
  std::vector<Head> all;
  for (std::int64_t h = 0; h < heads; ++h) all.emplace_back(c, d, d + 1, d + 3);
  const auto f = [&](const Tensor& queries, const Tensor& text) {
    std::vector<Tensor> parts;
    parts.reserve(all.size());
    for (const Head& head : all) parts.push_back(head(queries, text, text));
    return linear(concat(parts, 1), w, b);
  };
  const Permutation pi = c.permutation(n), sigma = c.permutation(m);
  Claim claim;
  claim.equal("queries of their own", f(pi.apply(x, 0), sigma.apply(y, 0)), pi.apply(f(x, y), 0));
  claim.equal("self-attention", f(pi.apply(x, 0), pi.apply(x, 0)), pi.apply(f(x, x), 0));
  claim.differs("the output in the order before", f(pi.apply(x, 0), sigma.apply(y, 0)), f(x, y));
  return claim;
}

/// The list form: o = sum_j e^h(q, k_j) / (sum_i e^h(q, k_i)) v_j for any score h, term by term.
Claim list_form(Case& c) {
  const std::int64_t d = c.options.dim, count = 3;
  const Tensor q = c.normal({d}), k = c.normal({count, d}), v = c.normal({count, d});
  const Permutation turn({1, 2, 0}); // k_2, k_3, k_1 as in the note
  using Score = std::function<Tensor(const Tensor&)>;
  const std::vector<std::pair<const char*, Score>> scores = {
      {"h = q . k", [&](const Tensor& keys) { return sum(keys * q, {1}) / std::sqrt(static_cast<double>(d)); }},
      {"h = -|q - k|^2", [&](const Tensor& keys) { return sum(square(keys - q), {1}) * -0.2; }}};
  const auto read = [](const Tensor& h, const Tensor& values) {
    const Tensor e = exp(h);
    return sum((e / sum(e)).reshape({count, 1}) * values, {0});
  };
  Claim claim;
  claim.sizes = {{"keys", count}};
  for (const auto& [name, h] : scores) {
    claim.equal(name, read(h(turn.apply(k, 0)), turn.apply(v, 0)), read(h(k), v));
    claim.differs("keys turned, values not", read(h(turn.apply(k, 0)), v), read(h(k), v));
  }
  claim.equal("softmax and products", scaled_dot_product_attention(q.reshape({1, d}), k, v).reshape({d}),
              read(scores[0].second(k), v));
  return claim;
}

Claim same_bag(Case& c) {
  const std::int64_t n = c.options.tokens, d = 2 * (c.options.dim / 2);
  const Tensor words = c.normal({n, d}), query = c.normal({1, d});
  const Permutation order = c.permutation(n);
  const Tensor e = nn::sinusoidal_positions(n, d, c.dtype), other = order.apply(words, 0);
  const auto read = [&](const Tensor& text) { return scaled_dot_product_attention(query, text, text); };
  Claim claim;
  claim.equal("without positions two orders read alike", read(other), read(words));
  claim.differs("with sinusoidal positions they do not", read(other + e), read(words + e));
  return claim;
}

/// PE(n + k) = PE(n) M_k, M_k a rotation of each pair (sine, cosine).
Claim sinusoids_turn(Case& c) {
  const std::int64_t n = 3 * c.options.tokens, d = 2 * (c.options.dim / 2), k = c.options.tokens;
  const Tensor e = nn::sinusoidal_positions(n, d, c.dtype);
  const auto turn = [&](std::int64_t by) {
    std::vector<double> m(static_cast<std::size_t>(d * d));
    for (std::int64_t i = 0; i < d / 2; ++i) {
      const double angle =
          static_cast<double>(by) * elementary::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(d));
      const auto at = [&](std::int64_t row, std::int64_t column) -> double& {
        return m[static_cast<std::size_t>((2 * i + row) * d + 2 * i + column)];
      };
      at(0, 0) = at(1, 1) = elementary::cos(angle);
      at(1, 0) = elementary::sin(angle); // sin(a + b) = sin a cos b + cos a sin b
      at(0, 1) = -elementary::sin(angle);
    }
    return Tensor::from<double>(m, {d, d}).to(c.dtype);
  };
  Claim claim;
  claim.sizes = {{"positions", n}, {"dim", d}, {"k", k}};
  claim.equal("PE(n + k) = PE(n) M_k", matmul(e.slice(0, 0, n - k), turn(k)), e.slice(0, k, n));
  claim.differs("M_(k+1)", matmul(e.slice(0, 0, n - k), turn(k + 1)), e.slice(0, k, n));
  return claim;
}

} // namespace

std::vector<Identity> note_identities() {
  using enum ClaimKind;
  return {
      {"s2-list", "attention term by term", "002", "", identity, Gate::one_pass,
       "With keys and values in one other order the sum has the same terms, whatever the score.",
       R"(o = \sum_j \frac{e^{h(q, k_j)}}{\sum_i e^{h(q, k_i)}} v_j)", list_form},
      {"s2-matrix", "keys and values in another order", "002", "", erratum, Gate::one_pass,
       "Attention does not see an order that keys and values share; the note says keys \"or\" values.",
       R"(\mathrm{Att}(Q, \sigma K, \sigma V) = \mathrm{Att}(Q, K, V))", keys_and_values},
      {"s2-order", "texts of the same words", "002", "", identity, Gate::one_pass,
       "Without positions two orders of the same words give one output; with them they differ.",
       R"(\mathrm{Att}(q, \sigma X, \sigma X) = \mathrm{Att}(q, X, X))", same_bag},
      {"s2-pe", "sinusoidal positions turn", "002", "", identity, Gate::one_pass,
       "Moving on by k positions is one rotation of every pair of features, whatever the position.",
       R"(PE(n + k) = PE(n)\, M_k)", sinusoids_turn},
      {"s3-w", "attention with weights", "003", "", identity, Gate::one_pass,
       "The invariances hold with weights and with every bias there, and for different numbers of queries and keys.",
       R"(\mathrm{Att}(\pi X, \sigma Y, \sigma Y) = \pi\, \mathrm{Att}(X, Y, Y))", with_weights},
      {"s3-kv", "keys and values, without weights", "003", "", identity, Gate::one_pass,
       "Attention does not see an order that keys and values share, whatever the numbers of queries and keys.",
       R"(\mathrm{Att}(Q, \pi K, \pi V) = \mathrm{Att}(Q, K, V))", [](Case& c) { return without_weights(c, false); }},
      {"s3-eq", "queries, keys and values", "003", "", identity, Gate::one_pass,
       "The output follows the queries; keys and values may have another order.",
       R"(\mathrm{Att}(\pi Q, \sigma K, \sigma V) = \pi\, \mathrm{Att}(Q, K, V))",
       [](Case& c) { return without_weights(c, true); }},
      {"s3-self", "self-attention of one head", "003", "", identity, Gate::one_pass,
       "Self-attention with weights and biases is equivariant.",
       R"(\mathrm{SelfAtt}(\pi X) = \pi\, \mathrm{SelfAtt}(X))", self_attention},
      {"s3-mha", "attention of many heads", "003", "", identity, Gate::one_pass,
       "Many heads and their projection are equivariant too.",
       R"(\mathrm{MHA}(\pi Q, \sigma K, \sigma V) = \pi\, \mathrm{MHA}(Q, K, V))", many_heads},
      {"s3-bias", "biases need not be zero", "003", "", identity, Gate::one_pass,
       "The note assumes zero biases and need not: biases that all tokens share do not matter, those of each place "
       "would.",
       R"(b_q, b_k, b_v \ne 0)", with_weights_and_biases},
  };
}

} // namespace eg::permute
