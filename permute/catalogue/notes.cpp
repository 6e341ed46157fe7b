// Papers 002 and 003: attention's invariances and positions.

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
