// Papers 001 (the other convention, and keys that change), 002 and 003 (attention's invariances).

#include "permute/catalogue/case.h"

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

Claim convention(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Permutation p = c.directed_permutation(d), ours = from_paper001(p);
  const Tensor z = c.normal({n, d}), w = c.normal({d, d}), b = c.normal({d});
  std::vector<double> entries(static_cast<std::size_t>(d * d));
  for (std::int64_t j = 0; j < d; ++j)
    entries[static_cast<std::size_t>(p[j] * d + j)] = 1.0; // (X P)[:, j] = X[:, p[j]]
  const Tensor matrix = Tensor::from<double>(entries, {d, d}).to(c.dtype);
  const Tensor z_p = matmul(z, matrix, false, true), b_p = matmul(b.reshape({1, d}), matrix, false, true).reshape({d});
  const Tensor w_p = matmul(matmul(matrix, w), matrix, false, true);
  Claim claim;
  claim.equal_bits("Z P^-1 is our Z P_C", ours.apply(z, 1), z_p);
  claim.equal_bits("P W P^-1 is our P_C^T W P_C", ours.apply(ours.apply(w, 0), 1), w_p);
  claim.equal("a linear layer in that convention", linear(z_p, w_p, b_p), ours.apply(linear(z, w, b), 1));
  claim.differs("P itself for P_C", p.apply(z, 1), z_p);
  return claim;
}

Claim reencryption(Case& c) {
  const std::int64_t d = c.options.dim;
  const Tensor w = c.normal({d, d});
  const AxisMap axes{{"w", {"residual", "residual"}}};
  PermutationSet first, second;
  first.emplace("residual", c.directed_permutation(d));
  second.emplace("residual", c.another(first.at("residual")));
  const auto moved = [&](const Tensor& x, const PermutationSet& key) {
    return transform({{"w", x}}, axes, key)[0].second;
  };
  const Tensor once = moved(w, first), other = moved(w, second);
  Claim claim;
  claim.equal_bits("from one key to another, without the plain weights", moved(once, between(first, second)), other);
  claim.equal_bits("and back to the plain weights", moved(other, inverse(second)), w);
  claim.differs("the second key on top of the first", moved(once, second), other);
  return claim;
}

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

Claim self_attention(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim, heads = c.options.heads;
  const Tensor x = c.normal({n, d}), w = c.normal({d, heads * (d + 3)}, 0.3), b = c.normal({d});
  std::vector<Head> all;
  for (std::int64_t h = 0; h < heads; ++h) all.emplace_back(c, d, d + 1, d + 3);
  const auto f = [&](const Tensor& z) {
    std::vector<Tensor> parts;
    parts.reserve(all.size());
    for (const Head& head : all) parts.push_back(head(z, z, z));
    return linear(concat(parts, 1), w, b);
  };
  const Permutation pi = c.permutation(n);
  Claim claim;
  claim.equal("one head", all[0](pi.apply(x, 0), pi.apply(x, 0), pi.apply(x, 0)), pi.apply(all[0](x, x, x), 0));
  claim.equal("many heads and their projection", f(pi.apply(x, 0)), pi.apply(f(x), 0));
  claim.differs("the output in the order before", f(pi.apply(x, 0)), f(x));
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
          static_cast<double>(by) * std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(d));
      const auto at = [&](std::int64_t row, std::int64_t column) -> double& {
        return m[static_cast<std::size_t>((2 * i + row) * d + 2 * i + column)];
      };
      at(0, 0) = at(1, 1) = std::cos(angle);
      at(1, 0) = std::sin(angle); // sin(a + b) = sin a cos b + cos a sin b
      at(0, 1) = -std::sin(angle);
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
      {"s1-conv", "paper 001's convention", "001", "4-7", identity, Gate::one_pass,
       "Paper 001 writes its column permutation on the other side: its P is the inverse of ours.",
       R"(Z P^{-1},\ W_{(P)} = P W P^{-1},\ b_{(P)} = b P^{-1},\quad P = P_C^{-1})", convention},
      {"s1-reenc", "from one key to another", "001", "", identity, Gate::bits,
       "Weights go from one key to another without passing through the plain ones, and back to them bit for bit.",
       R"(W_{(P')} = (P' P^{-1}) W_{(P)} (P' P^{-1})^{-1})", reencryption},
      {"s2-matrix", "keys and values in another order", "002", "", identity, Gate::one_pass,
       "Attention does not see the order of its keys and values, as long as both have the same.",
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
      {"s3-mha", "self-attention of one and of many heads", "003", "", identity, Gate::one_pass,
       "Self-attention is equivariant, with many heads and their projection too.",
       R"(\mathrm{MHA}(\pi X) = \pi\, \mathrm{MHA}(X))", self_attention},
  };
}

} // namespace eg::permute
