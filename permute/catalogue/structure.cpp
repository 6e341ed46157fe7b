// Checks structure rules of modern blocks: rotary positions, shared key heads, the cache, positions.

#include "permute/catalogue/stack.h"

#include "nn/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace eg::permute {
namespace {

/// Scores of rotated queries and keys x [T, d].
Tensor rotary_scores(const Tensor& q, const Tensor& k, const Tensor& positions) {
  const std::int64_t n = q.size(0), d = q.size(1);
  const auto turned = [&](const Tensor& x) {
    return rotary(x.reshape({1, n, 1, d}), positions, {.heads_first = false}).reshape({n, d});
  };
  return matmul(turned(q), turned(k), false, true);
}

Claim rotary_inner(Case& c) {
  const std::int64_t n = c.options.tokens, d = 2 * (c.options.dim / 2);
  const Tensor q = c.normal({n, d}), k = c.normal({n, d}), positions = Tensor::arange(n);
  const Permutation r = c.permutation(n), p = c.permutation(d);
  const Tensor scores = rotary_scores(q, k, positions);
  Claim claim;
  claim.equal("tokens that take their positions along", rotary_scores(r.apply(q, 0), r.apply(k, 0), r.tensor()),
              r.apply(r.apply(scores, 0), 1));
  claim.differs("features of Q and K permuted alike", rotary_scores(p.apply(q, 1), p.apply(k, 1), positions), scores);
  return claim;
}

Claim rotary_scales(Case& c) {
  const std::int64_t n = c.options.tokens, half = c.options.dim / 2, d = 2 * half;
  const Tensor q = c.normal({n, d}), k = c.normal({n, d}), positions = Tensor::arange(n);
  const Tensor pair = exp(c.normal({half}, 0.5)), both_halves = concat({pair, pair}, 0);
  const Tensor each = exp(c.normal({d}, 0.5)), scores = rotary_scores(q, k, positions);
  Claim claim;
  claim.equal("a pair of Q scaled, of K scaled back", rotary_scores(q * both_halves, k / both_halves, positions),
              scores);
  claim.differs("the two features of a pair scaled differently", rotary_scores(q * each, k / each, positions), scores);
  return claim;
}

/// q [h, T, d], k and v [groups, T, d]; head h reads group h / (heads / groups). Returns [h, T, d].
Tensor grouped(const Tensor& q, const Tensor& k, const Tensor& v) {
  const std::int64_t share = q.size(0) / k.size(0);
  return scaled_dot_product_attention(q, repeat_interleave(k, share, 0), repeat_interleave(v, share, 0));
}

Claim grouped_query(Case& c) {
  const std::int64_t groups = c.options.heads, share = 2, heads = groups * share, n = c.options.tokens, d = 5;
  const Tensor q = c.normal({heads, n, d}), k = c.normal({groups, n, d}), v = c.normal({groups, n, d});
  const Permutation among_groups = c.permutation(groups), features = c.permutation(d);
  const Permutation swap({1, 0});
  const Tensor y = grouped(q, k, v);
  const auto with_groups = [&](const Tensor& t) { // query heads move with their group
    return among_groups.apply(t.reshape({groups, share, n, d}), 0).reshape({heads, n, d});
  };
  const auto inside = [&](const Tensor& t) {
    return swap.apply(t.reshape({groups, share, n, d}), 1).reshape({heads, n, d});
  };
  const Permutation any = c.permutation(heads);
  Claim claim;
  claim.equal("groups with their query heads",
              grouped(with_groups(q), among_groups.apply(k, 0), among_groups.apply(v, 0)), with_groups(y));
  claim.equal("query heads inside a group", grouped(inside(q), k, v), inside(y));
  claim.equal("features of V, the same for all heads of a group", grouped(q, k, features.apply(v, 2)),
              features.apply(y, 2));
  claim.differs("groups without their query heads", grouped(q, among_groups.apply(k, 0), among_groups.apply(v, 0)),
                with_groups(y));
  return claim;
}

Claim cache(Case& c) {
  const std::int64_t heads = c.options.heads, n = c.options.tokens, d = 4, before = n - 1;
  const Tensor q = c.normal({heads, n, d}), k = c.normal({heads, n, d}), v = c.normal({heads, n, d});
  const Tensor whole = scaled_dot_product_attention(q, k, v, {.causal = true});
  const auto last = [&](const Tensor& t) { return t.slice(1, before, n); };
  const auto decoded = [&](const Permutation& order, const Permutation& of_values) {
    nn::KvCache store({heads}, n, d, 0, c.dtype);
    store.append(order.apply(k.slice(1, 0, before), 1), of_values.apply(v.slice(1, 0, before), 1));
    store.append(last(k), last(v));
    return store.attend(last(q));
  };
  const Permutation none = Permutation::identity(before), order = c.permutation(before);
  Claim claim;
  claim.equal("decoding is the last row of the whole pass", decoded(none, none), last(whole));
  claim.equal("entries in any order", decoded(order, order), last(whole));
  claim.differs("values in another order than keys", decoded(none, order), last(whole));
  return claim;
}

/// Whole heads move, rotary or not: each head turns by the same angles.
Claim rotary_heads(Case& c) {
  const std::int64_t n = c.options.tokens, heads = c.options.heads, d = 4;
  const Tensor q = c.normal({n, heads, d}), k = c.normal({n, heads, d}), v = c.normal({heads, n, d}),
               positions = Tensor::arange(n);
  const Permutation mu = c.permutation(heads);
  const auto attend = [&](const Tensor& a, const Tensor& b, const Tensor& w) {
    const auto heads_first = [](const Tensor& x) { return transpose(x, 0, 1).contiguous(); };
    return scaled_dot_product_attention(heads_first(rotary(a, positions)), heads_first(rotary(b, positions)), w);
  };
  const Tensor y = mu.apply(attend(q, k, v), 0);
  Claim claim;
  claim.sizes = {{"head_dim", d}};
  claim.equal("heads of Q, K and V moved alike", attend(mu.apply(q, 1), mu.apply(k, 1), mu.apply(v, 0)), y);
  claim.differs("heads of K left in their places", attend(mu.apply(q, 1), k, mu.apply(v, 0)), y);
  return claim;
}

/// All 720 permutations of the six features of a head, on Q and K alike: rotary positions leave the identity alone.
Claim rotary_group(Case& c) {
  const std::int64_t n = 6, d = 6, draws = 50;
  const Tensor positions = Tensor::arange(n);
  std::vector<double> commuting, without_positions;
  double nearest = 1.0;
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    const Tensor q = c.normal({n, d}), k = c.normal({n, d});
    const Tensor rotated = rotary_scores(q, k, positions), plain = matmul(q, k, false, true);
    std::vector<std::int64_t> order(static_cast<std::size_t>(d));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    double pass = 0, pass_without = 0;
    do {
      const Permutation p(order);
      const Tensor q_p = p.apply(q, 1), k_p = p.apply(k, 1);
      const double error = relative_error(rotary_scores(q_p, k_p, positions), rotated);
      pass += error < 1e-4 ? 1 : 0;
      pass_without += relative_error(matmul(q_p, k_p, false, true), plain) < 1e-4 ? 1 : 0;
      if (!p.is_identity()) nearest = std::min(nearest, error);
    } while (std::next_permutation(order.begin(), order.end()));
    commuting.push_back(pass);
    without_positions.push_back(pass_without);
  }
  const auto each = [&](double x) { return Tensor::full({draws}, x, DType::f64); };
  const auto number = [&](double x) { return Tensor::full({1}, x, DType::f64); };
  Claim claim;
  claim.compare_f64 = false;
  claim.sizes = {{"head_dim", d}, {"permutations", 720}};
  claim.candidates = draws * 720;
  claim.equal_bits("permutations of Q's and K's features that pass: the identity",
                   Tensor::from<double>(commuting, {draws}), each(1.0));
  claim.equal_bits("without positions all 720 pass", Tensor::from<double>(without_positions, {draws}), each(720.0));
  claim.control = "smallest error of any other permutation";
  claim.fails.push_back({claim.control, number(nearest), number(0.0), 1.0, false});
  return claim;
}

/// Query heads of different groups exchanged: each then reads other keys.
Claim grouped_across(Case& c) {
  const std::int64_t groups = c.options.heads, share = 2, heads = groups * share, n = c.options.tokens, d = 5;
  const Tensor q = c.normal({heads, n, d}), k = c.normal({groups, n, d}), v = c.normal({groups, n, d});
  std::vector<std::int64_t> order(static_cast<std::size_t>(heads));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::swap(order[0], order[1]);
  const Permutation inside(order);
  std::swap(order[0], order[1]);
  std::swap(order[1], order[2]); // the last of one group, the first of the next
  const Permutation across(order);
  const Tensor y = grouped(q, k, v);
  Claim claim;
  claim.equal("two query heads of one group exchanged", grouped(inside.apply(q, 0), k, v), inside.apply(y, 0));
  claim.differs("two query heads of different groups exchanged", grouped(across.apply(q, 0), k, v), across.apply(y, 0));
  return claim;
}

/// Rotated keys keep their positions wherever they are in the cache.
Claim rotated_cache(Case& c) {
  const std::int64_t heads = c.options.heads, n = c.options.tokens, d = 4;
  const Tensor positions = Tensor::arange(n), v = c.normal({heads, n, d});
  const auto turned = [&](const Tensor& x, const Tensor& at) {
    return transpose(rotary(transpose(x, 0, 1).contiguous(), at), 0, 1).contiguous();
  };
  const Tensor q = turned(c.normal({heads, n, d}), positions).slice(1, n - 1, n), plain_k = c.normal({heads, n, d});
  const Permutation order = c.permutation(n);
  const auto read = [&](const Tensor& k, const Tensor& values) { return scaled_dot_product_attention(q, k, values); };
  const Tensor y = read(turned(plain_k, positions), v);
  Claim claim;
  claim.sizes = {{"head_dim", d}};
  claim.equal("rotated, then stored in any order", read(order.apply(turned(plain_k, positions), 1), order.apply(v, 1)),
              y);
  claim.differs("stored in any order, then rotated by their place",
                read(turned(order.apply(plain_k, 1), positions), order.apply(v, 1)), y);
  return claim;
}

Claim position_order(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor x = c.normal({n, d}), e = c.normal({n, d}, 0.5), wq = c.normal({d, d}, 0.3), wk = c.normal({d, d}, 0.3);
  const Permutation r = c.permutation(n);
  const auto f = [&](const Tensor& z) { return scaled_dot_product_attention(linear(z, wq), linear(z, wk), z); };
  Claim claim;
  claim.equal("positions added before the shuffle", f(r.apply(x + e, 0)), r.apply(f(x + e), 0));
  claim.differs("positions added after the shuffle", f(r.apply(x, 0) + e), r.apply(f(x + e), 0));
  return claim;
}

} // namespace

std::vector<Identity> structure_identities() {
  using enum ClaimKind;
  return {
      {"rope", "rotary positions", "", "", law, Gate::one_pass,
       "Tokens may move with their positions; a permutation of a head's features does not pass (`rope-group`).",
       R"(s(P_R Q, P_R K; P_R p) = P_R\, s(Q, K; p)\, P_R^\top,\quad s_{ij} = q_i^\top R_{p_j - p_i} k_j)",
       rotary_inner},
      {"rope-scale", "rotary positions and scales", "", "", law, Gate::one_pass,
       "A pair of Q may be scaled when K's is scaled back, both features alike.",
       R"(\langle R_m s q, R_n s^{-1} k\rangle = \langle R_m q, R_n k\rangle)", rotary_scales},
      {"gqa", "grouped queries", "", "", law, Gate::one_pass,
       "Key heads move with the query heads that read them; those move freely inside their group; V's features move "
       "alike "
       "for all heads of a group.",
       R"(\nu(g(h)) = g(\mu(h)) \Rightarrow \mathrm{Att}(q_{\mu(h)}, k_{\nu(g(h))}, v_{\nu(g(h))}) = y_{\mu(h)},)"
       R"(\quad y_h = \mathrm{Att}(q_h, k_{g(h)}, v_{g(h)}))",
       grouped_query},
      {"kv-cache", "the key-value cache", "", "", law, Gate::one_pass,
       "Decoding with a cache is the last row of the causal pass over all tokens, and entries may lie in another "
       "order.",
       R"(\mathrm{Att}(q, \sigma K, \sigma V) = \mathrm{Att}(q, K, V))", cache},
      {"rope-heads", "rotary positions and heads", "", "", law, Gate::one_pass,
       "Heads may move under rotary positions, Q, K and V alike.",
       R"(y_h = \mathrm{Att}(R q_{\mu(h)}, R k_{\mu(h)}, v_{\mu(h)}))", rotary_heads},
      {.id = "rope-group",
       .title = "rotary positions and S_6",
       .kind = law,
       .statement = "Of the 720 permutations of a head's six features, on Q and K alike, only the identity passes "
                    "rotary positions.",
       .tex = R"(\{P \in S_6 : P R_m = R_m P \text{ for all } m\} = \{I\})",
       .run = rotary_group,
       .sharp = true},
      {"gqa-across", "grouped queries across groups", "", "", law, Gate::one_pass,
       "Query heads may be exchanged within a group, not across groups.", R"(g(\mu(h)) = g(h))", grouped_across},
      {"kv-cache-rope", "the cache with rotary positions", "", "", law, Gate::one_pass,
       "Rotated keys may be stored in another order; keys rotated by their place in the cache may not.",
       R"(\mathrm{Att}(R_t q, \sigma(RK), \sigma V) = \mathrm{Att}(R_t q, RK, V))", rotated_cache},
      {"pe-order", "position embeddings and the shuffle", "", "", law, Gate::one_pass,
       "Positions are added before tokens are shuffled; added after it they belong to other tokens.",
       R"(f(P_R(X + E)) = P_R f(X + E))", position_order},
  };
}

} // namespace eg::permute
