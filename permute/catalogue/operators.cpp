// The example of section 8, permutation matrices, and the operators of section 9.

#include "permute/catalogue/case.h"

#include <cmath>

namespace eg::permute {
namespace {

constexpr const char* cvpr = "CVPR";
constexpr const char* other_rows = "another permutation of the rows on one side";

/// P with (X P)[:, j] = X[:, p[j]].
Tensor column_matrix(const Permutation& p, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(p.size() * p.size()), 0.0);
  for (std::int64_t j = 0; j < p.size(); ++j) values[static_cast<std::size_t>(p[j] * p.size() + j)] = 1.0;
  return Tensor::from<double>(values, {p.size(), p.size()}).to(dtype);
}

Claim toy(Case& c) {
  const Tensor z = Tensor::from<double>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {3, 4}).to(c.dtype);
  const Tensor matrix = Tensor::from<double>({0, 1, 0, 0, 0, 1, 1, 0, 0}, {3, 3}).to(c.dtype);
  const Tensor printed = Tensor::from<double>({5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4}, {3, 4}).to(c.dtype);
  const Permutation r({1, 2, 0});
  Claim claim;
  claim.equal_bits("P_R Z by a gather", r.apply(z, 0), printed);
  claim.equal_bits("P_R Z by a product", matmul(matrix, z), printed);
  claim.differs("the inverse of P_R", r.inverse().apply(z, 0), printed);
  return claim;
}

Claim perm_orth(Case& c) {
  const Permutation p = c.directed_permutation(c.options.dim);
  const Tensor matrix = column_matrix(p, c.dtype);
  const Tensor x = c.normal({c.options.tokens, c.options.dim});
  const Tensor identity = column_matrix(Permutation::identity(p.size()), c.dtype);
  Claim claim;
  claim.equal_bits("P P^T = I", matmul(matrix, matrix, false, true), identity);
  claim.equal_bits("P^T P = I", matmul(matrix, matrix, true, false), identity);
  claim.equal_bits("the inverse gather is P^T", column_matrix(p.inverse(), c.dtype), matrix.transpose().contiguous());
  claim.equal_bits("the gather is the product X P", p.apply(x, -1), matmul(x, matrix));
  claim.equal_bits("the gather is undone", p.inverse().apply(p.apply(x, -1), -1), x);
  claim.differs("P for P^-1", matmul(matrix, matrix), identity);
  return claim;
}

Claim elementwise_binary(Case& c) {
  const Shape shape{c.options.tokens, c.options.dim};
  const Tensor a = c.normal(shape), b = c.normal(shape, 1.0, 3.0);
  const Permutation r = c.permutation(shape[0]), p = c.permutation(shape[1]);
  const auto larger = [](const Tensor& x, const Tensor& y) { return y + relu(x - y); };
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&, const Tensor&)>>> operations = {
      {"a * b", mul}, {"a + b", add}, {"a - b", sub}, {"a / b", div}, {"max(a, b)", larger}};
  Claim claim;
  for (const auto& [name, f] : operations) claim.equal_bits(name, f(both(a, r, p), both(b, r, p)), both(f(a, b), r, p));
  claim.differs(other_rows, mul(both(a, r, p), both(b, c.another(r), p)), both(a * b, r, p));
  return claim;
}

Claim activations(Case& c) {
  const Shape shape{c.options.tokens, c.options.dim};
  const Tensor a = c.normal(shape, 2.0);
  const Permutation r = c.permutation(shape[0]), p = c.permutation(shape[1]);
  const std::vector<std::pair<const char*, Tensor (*)(const Tensor&)>> functions = {
      {"relu", relu}, {"tanh", tanh},       {"gelu", gelu}, {"gelu_tanh", gelu_tanh},
      {"silu", silu}, {"sigmoid", sigmoid}, {"exp", exp}};
  Claim claim;
  for (const auto& [name, f] : functions) claim.equal_bits(name, f(both(a, r, p)), both(f(a), r, p));
  claim.differs("another permutation of the columns on one side", gelu(both(a, r, p)), both(gelu(a), r, c.another(p)));
  return claim;
}

Claim softmax_rows(Case& c) {
  const std::int64_t n = c.options.tokens, m = c.options.tokens + 3;
  const Tensor a = c.normal({n, m}, 2.0);
  const Permutation r = c.permutation(n), p = c.permutation(m);
  const Tensor s = softmax(a);
  Claim claim;
  claim.equal("rows and columns", softmax(both(a, r, p)), both(s, r, p));
  claim.equal_bits("rows alone, to the bit", softmax(r.apply(a, 0)), r.apply(s, 0));
  claim.differs(other_rows, softmax(both(a, r, p)), both(s, c.another(r), p));
  return claim;
}

Claim linear_layer(Case& c) {
  const std::int64_t n = c.options.tokens, in = c.options.dim, out = c.options.hidden;
  const Tensor x = c.normal({n, in}), w = c.normal({out, in}), b = c.normal({out});
  const Permutation r = c.permutation(n), p_in = c.permutation(in), p_out = c.permutation(out);
  const Tensor w_p = p_in.apply(p_out.apply(w, 0), 1), b_p = p_out.apply(b, 0);
  const Tensor expected = both(linear(x, w, b), r, p_out);
  const Permutation square = c.permutation(in);
  const Tensor v = c.normal({in, in}), v_p = both(v, square, square), a = c.normal({in});
  Claim claim;
  claim.equal("rectangular: W' = P_out^T W P_in, b' = b P_out", linear(both(x, r, p_in), w_p, b_p), expected);
  claim.equal("square: W' = P_C^T W P_C, b' = b P_C", linear(both(x, r, square), v_p, square.apply(a, 0)),
              both(linear(x, v, a), r, square));
  claim.differs("b not permuted", linear(both(x, r, p_in), w_p, b), expected);
  return claim;
}

/// More outputs than inputs, each axis with a permutation of its own.
Claim rectangular_layer(Case& c) {
  const std::int64_t n = c.options.tokens, in = c.options.dim, out = c.options.dim + 5;
  const Tensor x = c.normal({n, in}), w = c.normal({out, in}), b = c.normal({out});
  const Permutation r = c.permutation(n), p_in = c.permutation(in), p_out = c.permutation(out);
  const Tensor expected = both(linear(x, w, b), r, p_out), w_in = p_in.apply(w, 1);
  Claim claim;
  claim.sizes = {{"outputs", out}};
  claim.equal("f_(P)(P_R X P_in) = P_R f(X) P_out", linear(both(x, r, p_in), p_out.apply(w_in, 0), p_out.apply(b, 0)),
              expected);
  claim.differs("inputs alone, as if outputs could not be permuted", linear(both(x, r, p_in), w_in, b), expected);
  return claim;
}

Claim mlp(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim, t = c.options.hidden;
  const Tensor x = c.normal({n, d});
  const Tensor w1 = c.normal({t, d}, 0.4), b1 = c.normal({t}), w2 = c.normal({d, t}, 0.4), b2 = c.normal({d});
  const Permutation r = c.permutation(n), p = c.permutation(d), hidden = c.permutation(t);
  const auto f = [](const Tensor& z, const Tensor& u1, const Tensor& c1, const Tensor& u2, const Tensor& c2) {
    return linear(gelu(linear(z, u1, c1)), u2, c2);
  };
  const Tensor x_p = both(x, r, p), expected = both(f(x, w1, b1, w2, b2), r, p);
  const Tensor w1_p = p.apply(w1, 1), w2_p = p.apply(w2, 0), b2_p = p.apply(b2, 0);
  const Tensor w1_t = hidden.apply(w1_p, 0), b1_t = hidden.apply(b1, 0);
  Claim claim;
  claim.equal("as printed, hidden axis unpermuted", f(x_p, w1_p, b1, w2_p, b2_p), expected);
  claim.equal("any P_t on the hidden axis", f(x_p, w1_t, b1_t, hidden.apply(w2_p, 1), b2_p), expected);
  claim.differs("P_t missing on W_2", f(x_p, w1_t, b1_t, w2_p, b2_p), expected);
  return claim;
}

Claim layer_norm_corrected(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor x = c.normal({n, d}), gamma = c.normal({d}, 0.3, 1.0), beta = c.normal({d}, 0.5);
  const Permutation r = c.permutation(n), p = c.permutation(d);
  const Tensor value = layer_norm(both(x, r, p), p.apply(gamma, 0), p.apply(beta, 0));
  const Tensor y = layer_norm(x, gamma, beta);
  Claim claim;
  claim.equal("LN_(P)(P_R X P_C) = P_R LN(X) P_C", value, both(y, r, p));
  claim.differs("the printed right side, LN(X)", value, y);
  return claim;
}

/// With Var - eps under the root a row whose variance is below eps has no real value.
Claim layer_norm_epsilon(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const double eps = 1e-5;
  const Tensor x = c.normal({n, d}, 1e-3);
  const Tensor centred = x - mean(x, {-1}, true);
  const Tensor variance = mean(centred * centred, {-1}, true);
  const Tensor printed = centred / sqrt(variance - eps);
  std::int64_t undefined = 0;
  for (const double v : printed.to(DType::f64).contiguous().to_vector<double>()) undefined += std::isfinite(v) ? 0 : 1;
  const Tensor share = Tensor::full({1}, static_cast<double>(undefined) / static_cast<double>(n * d), c.dtype);
  Claim claim;
  claim.equal("Var + eps is layer_norm", centred / sqrt(variance + eps), layer_norm(x, {}, {}, eps));
  claim.control = "Var - eps: share of entries that are not numbers";
  claim.fails.push_back({claim.control, share, Tensor::zeros({1}, c.dtype), 1.0, false});
  return claim;
}

Claim attention(Case& c) {
  const std::int64_t queries = c.options.tokens, keys = c.options.tokens + 2, d = c.options.dim, dv = c.options.hidden;
  const Tensor q = c.normal({queries, d}), k = c.normal({keys, d}), v = c.normal({keys, dv});
  const Permutation pi = c.permutation(queries), sigma = c.permutation(keys), p_qk = c.permutation(d),
                    p_v = c.permutation(dv);
  const Tensor expected = both(scaled_dot_product_attention(q, k, v), pi, p_v);
  const Tensor q_p = both(q, pi, p_qk), k_p = both(k, sigma, p_qk);
  Claim claim;
  claim.equal("pi on queries, sigma on keys and values", scaled_dot_product_attention(q_p, k_p, both(v, sigma, p_v)),
              expected);
  claim.equal("through S in memory", attention_explicit(q_p, k_p, both(v, sigma, p_v)).output, expected);
  claim.differs("values in another order than keys",
                scaled_dot_product_attention(q_p, k_p, both(v, c.another(sigma), p_v)), expected);
  return claim;
}

} // namespace

std::vector<Identity> operator_identities() {
  using enum ClaimKind;
  return {
      {"toy", "the 3 x 4 example", cvpr, "", identity, Gate::bits, "The row permutation of section 8's example.",
       R"(P_R Z = \begin{pmatrix}5&6&7&8\\9&10&11&12\\1&2&3&4\end{pmatrix})", toy},
      {"perm-orth", "permutation matrices are orthogonal", cvpr, "", identity, Gate::bits,
       "The inverse of a permutation matrix is its transpose, and a gather is the product with it.",
       R"(P^{-1} = P^\top)", perm_orth},
      {"lem9.1", "elementwise operations of two tensors", cvpr, "35", identity, Gate::bits,
       "Elementwise operations commute with row and column permutations, bit for bit.",
       R"((P_R A P_C) \odot (P_R B P_C) = P_R (A \odot B) P_C)", elementwise_binary},
      {"eq36", "activations", cvpr, "36", identity, Gate::bits, "So do activation functions, bit for bit.",
       R"(a(P_R A P_C) = P_R\, a(A)\, P_C)", activations},
      {"lem9.2", "softmax over rows", cvpr, "37", identity, Gate::one_pass,
       "Softmax commutes with independent permutations of rows and columns; with those of rows bit for bit.",
       R"(\mathrm{Softmax}(P_R A P_C) = P_R\, \mathrm{Softmax}(A)\, P_C)", softmax_rows},
      {"lem9.3", "linear layer", cvpr, "38", identity, Gate::one_pass,
       "A linear layer carries a permutation of its input to a permutation of its output, chosen apart; it need not be "
       "square.",
       R"(f_{(P)}(P_R X P_{in}) = P_R f(X) P_{out},\quad W_{(P)} = P_{out}^\top W P_{in},\ b_{(P)} = b P_{out})",
       linear_layer},
      {"lem9.3-shape", "linear layers that are not square", cvpr, "38", law, Gate::one_pass,
       "The lemma has one permutation on both sides, so square weights; with a permutation for each axis it holds for "
       "every shape.",
       R"(W_{(P)} = P_{out}^\top W P_{in},\quad W \in \mathbb{R}^{m \times n},\ m \ne n)", rectangular_layer},
      {"lem9.4", "MLP", cvpr, "39", identity, Gate::one_pass,
       "The MLP commutes with P_C outside and with a P_t of its own on its hidden axis.",
       R"(W_{1(P)} = P_t^\top W_1 P_C,\ b_{1(P)} = b_1 P_t,\ W_{2(P)} = P_C^\top W_2 P_t,\ b_{2(P)} = b_2 P_C)", mlp},
      {"lem9.5", "layer normalisation", cvpr, "40", erratum, Gate::one_pass,
       "Layer norm is equivariant; the printed equation leaves P_R and P_C out of its right side.",
       R"(\mathrm{LN}_{(P)}(P_R X P_C) = P_R\, \mathrm{LN}(X)\, P_C,\quad \gamma_{(P)} = \gamma P_C,\ b_{(P)} = b P_C)",
       layer_norm_corrected},
      {"lem9.5-eps", "the sign of epsilon", cvpr, "40", erratum, Gate::one_pass,
       "Epsilon is added to the variance; subtracted, as printed, it makes rows of small variance undefined.",
       R"(\mathrm{LN}(X) = \frac{X - \mathbb{E}(X)}{\sqrt{\mathrm{Var}(X) + \epsilon}} * \gamma + b)",
       layer_norm_epsilon},
      {"lem9.6", "attention of one head", cvpr, "41", identity, Gate::one_pass,
       "Queries may have one row permutation, keys and values another; Q and K share a column permutation, V has its "
       "own.",
       R"(\mathrm{Att}(\pi Q P_{qk}, \sigma K P_{qk}, \sigma V P_v) = \pi\, \mathrm{Att}(Q, K, V)\, P_v)", attention},
  };
}

} // namespace eg::permute
