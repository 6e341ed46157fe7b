// Structure rules of modern blocks, and STIP (paper 004): which permutations a decoder's parts leave.

#include "permute/catalogue/stack.h"

#include "nn/attention.h"
#include "nn/kv_cache.h"
#include "nn/moe.h"

#include <cmath>
#include <numeric>

namespace eg::permute {
namespace {

constexpr const char* stip = "004";

/// The plain stack and its copy for a permuted residual stream.
struct ResidualTwins {
  std::unique_ptr<BlockStack> plain, permuted;
  Permutation p;
};

ResidualTwins residual_twins(Case& c, const nn::BlockConfig& config) {
  ResidualTwins t{draw_stack(c, config), std::make_unique<BlockStack>(config, c.options.layers, c.dtype),
                  c.permutation(config.dim)};
  PermutationSet set;
  set.emplace("residual", t.p);
  t.permuted->load_state_dict(transform(t.plain->state_dict(), residual_axes(*t.plain), set));
  return t;
}

/// f_theta'(x pi) = f_theta(x) pi for one kind of block.
void compare_residual(Claim& claim, Case& c, const char* what, const nn::BlockConfig& config) {
  const ResidualTwins t = residual_twins(c, config);
  const Tensor z = c.normal({c.options.batch, c.options.tokens, config.dim});
  claim.equal(what, (*t.permuted)(t.p.apply(z, -1)), t.p.apply((*t.plain)(z), -1));
  if (claim.fails.empty())
    claim.differs("the plain weights on permuted features", (*t.plain)(t.p.apply(z, -1)), t.p.apply((*t.plain)(z), -1));
}

Claim stip_decoder(Case& c) {
  Claim claim;
  nn::BlockConfig config = encoder_config(c);
  config.causal = true;
  compare_residual(claim, c, "pre-norm, causal", config);
  config.pre_norm = false;
  compare_residual(claim, c, "post-norm, causal", config);
  config.causal = false;
  compare_residual(claim, c, "post-norm, unmasked", config);
  return claim;
}

/// Llama's block: RMSNorm, SwiGLU, rotary positions, shared key heads; none of them minds a permuted residual stream.
Claim stip_llama(Case& c) {
  nn::BlockConfig config = encoder_config(c, 4);
  config.kv_heads = 1;
  config.causal = config.gated = true;
  config.norm = nn::NormKind::rms;
  config.activation = nn::Activation::silu;
  config.qkv_bias = config.proj_bias = config.mlp_bias = false;
  config.rotary.on = true;
  Claim claim;
  compare_residual(claim, c, "RMSNorm, SwiGLU, rotary, one key head for all", config);
  return claim;
}

Claim stip_rms(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor x = c.normal({n, d}), gamma = c.normal({d}, 0.3, 1.0);
  const Permutation r = c.permutation(n), p = c.permutation(d);
  const Tensor y = rms_norm(x, gamma, 1e-6), moved = p.apply(r.apply(x, 0), 1);
  const Tensor by_tokens = x * rsqrt(sum(x * x, {-1}, true) / static_cast<double>(n) + 1e-6) * gamma;
  Claim claim;
  claim.equal("RMSNorm", rms_norm(moved, p.apply(gamma, 0), 1e-6), p.apply(r.apply(y, 0), 1));
  claim.differs("1/n with n the number of tokens, as printed", by_tokens, y);
  return claim;
}

/// W2 (silu(W1 x) * (W3 x))
Tensor swiglu(const Tensor& x, const Tensor& gate, const Tensor& up, const Tensor& down) {
  return linear(silu(linear(x, gate)) * linear(x, up), down);
}

Claim stip_swiglu(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim, t = c.options.hidden;
  const Tensor x = c.normal({n, d}), gate = c.normal({t, d}, 0.4), up = c.normal({t, d}, 0.4),
               down = c.normal({d, t}, 0.4);
  const Permutation p = c.permutation(d), hidden = c.permutation(t);
  const Tensor x_p = p.apply(x, 1), y_p = p.apply(swiglu(x, gate, up, down), 1);
  const Tensor gate_p = hidden.apply(p.apply(gate, 1), 0), up_p = hidden.apply(p.apply(up, 1), 0);
  const Tensor down_p = hidden.apply(p.apply(down, 0), 1);
  Claim claim;
  claim.equal("gate and up share the hidden permutation", swiglu(x_p, gate_p, up_p, down_p), y_p);
  claim.differs("the hidden permutation on one of the two", swiglu(x_p, gate_p, p.apply(up, 1), down_p), y_p);
  return claim;
}

Claim swiglu_scales(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim, t = c.options.hidden;
  const Tensor x = c.normal({n, d}), gate = c.normal({t, d}, 0.4), up = c.normal({t, d}, 0.4),
               down = c.normal({d, t}, 0.4);
  const Tensor scales = exp(c.normal({t}, 0.5)), column = scales.reshape({t, 1}), y = swiglu(x, gate, up, down);
  Claim claim;
  claim.equal("scales of up are undone in down", swiglu(x, gate, up * column, down / scales), y);
  claim.differs("scales of the gate", swiglu(x, gate * column, up, down / scales), y);
  return claim;
}

Claim stip_rows(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor q = c.normal({n, d}), k = c.normal({n, d}), v = c.normal({n, d});
  std::vector<double> entries;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) entries.push_back(j <= i ? 0.0 : -1e9);
  const Tensor mask = Tensor::from<double>(entries, {n, n}).to(c.dtype), none = Tensor::zeros({n, n}, c.dtype);
  const Permutation r = c.permutation(n);
  const auto f = [&](const Tensor& a, const Tensor& b, const Tensor& w, const Tensor& m) {
    return matmul(softmax(matmul(a, b, false, true) / std::sqrt(static_cast<double>(d)) + m), w);
  };
  const auto moved = [&](const Tensor& m) { return f(r.apply(q, 0), r.apply(k, 0), r.apply(v, 0), m); };
  Claim claim;
  claim.equal("encoder", moved(none), r.apply(f(q, k, v, none), 0));
  claim.equal("decoder whose mask is P_R M P_R^T", moved(r.apply(r.apply(mask, 0), 1)), r.apply(f(q, k, v, mask), 0));
  // Row i of a causal mask sees i + 1 tokens: the permuted mask tells the permutation to whoever counts.
  const Tensor open = sum(exp(r.apply(r.apply(mask, 0), 1)), {1}) - 1.0;
  claim.equal_bits("tokens that the rows of that mask see give P_R away", open, r.tensor().to(c.dtype));
  claim.differs("decoder with the mask as it was", moved(mask), r.apply(f(q, k, v, mask), 0));
  return claim;
}

Claim convolution(Case& c) {
  const std::int64_t in = c.options.dim, out = c.options.hidden, side = c.options.tokens;
  const Tensor x = c.normal({c.options.batch, in, side, side}), w = c.normal({out, in, 3, 3}, 0.2), b = c.normal({out});
  const Permutation p_in = c.permutation(in), p_out = c.permutation(out), columns = c.permutation(side);
  const auto f = [](const Tensor& z, const Tensor& u, const Tensor& v) { return conv2d(z, u, v, {.padding = {1, 1}}); };
  Claim claim;
  claim.equal("channels", f(p_in.apply(x, 1), p_out.apply(p_in.apply(w, 1), 0), p_out.apply(b, 0)),
              p_out.apply(f(x, w, b), 1));
  claim.differs("columns of pixels", f(columns.apply(x, 3), w, b), columns.apply(f(x, w, b), 3));
  return claim;
}

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

/// Columns of `x` made orthonormal, one after the other (Gram and Schmidt, twice).
Tensor orthonormal(const Tensor& x) {
  const std::int64_t d = x.size(1);
  std::vector<Tensor> columns;
  for (std::int64_t j = 0; j < d; ++j) {
    Tensor column = x.to(DType::f64).select(1, j);
    for (int pass = 0; pass < 2; ++pass)
      for (const Tensor& other : columns) column = column - other * sum(column * other);
    columns.push_back(column / sqrt(sum(column * column)));
  }
  return stack(columns, 1);
}

Claim rms_orthogonal(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor x = c.normal({n, d}), q = orthonormal(c.normal({d, d})).to(c.dtype);
  Claim claim;
  claim.equal("any orthogonal map, the gain folded away", rms_norm(matmul(x, q), {}, 1e-6),
              matmul(rms_norm(x, {}, 1e-6), q));
  claim.differs("the same under LayerNorm", layer_norm(matmul(x, q), {}, {}), matmul(layer_norm(x, {}, {}), q));
  return claim;
}

Claim layer_norm_orthogonal(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor x = c.normal({n, d});
  // A map that keeps the mean: orthonormal columns with (1, ..., 1) first, turned among the others.
  Tensor basis = c.normal({d, d}).to(DType::f64);
  basis = orthonormal(concat({Tensor::ones({d, 1}, DType::f64), basis.slice(1, 1, d)}, 1));
  const Tensor inner = orthonormal(c.normal({d - 1, d - 1}));
  const Tensor rest = basis.slice(1, 1, d);
  const Tensor map =
      (matmul(matmul(rest, inner), rest, false, true) + Tensor::full({d, d}, 1.0 / static_cast<double>(d), DType::f64))
          .to(c.dtype);
  std::vector<double> signs(static_cast<std::size_t>(d), 1.0);
  signs[0] = -1.0;
  const Tensor flipped = Tensor::from<double>(signs, {d}).to(c.dtype);
  Claim claim;
  claim.equal("an orthogonal map that keeps (1, ..., 1)", layer_norm(matmul(x, map), {}, {}),
              matmul(layer_norm(x, {}, {}), map));
  claim.differs("the sign of a feature", layer_norm(x * flipped, {}, {}), layer_norm(x, {}, {}) * flipped);
  return claim;
}

Claim experts(Case& c) {
  const std::int64_t n = 4 * c.options.tokens, d = c.options.dim;
  nn::MoeConfig config{.dim = d, .hidden = c.options.hidden, .experts = 4, .top_k = 2};
  nn::MixtureOfExperts dropless(config, RandomKey{});
  config.capacity_factor = 0.5;
  nn::MixtureOfExperts limited(config, RandomKey{});
  dropless.to(c.dtype);
  limited.to(c.dtype);
  draw_parameters(dropless, c);
  limited.load_state_dict(dropless.state_dict());
  const Tensor x = c.normal({n, d});
  const Permutation r = c.permutation(n);
  Claim claim;
  claim.equal("dropless routing", dropless(r.apply(x, 0)), r.apply(dropless(x), 0));
  claim.differs("experts with a capacity", limited(r.apply(x, 0)), r.apply(limited(x), 0));
  return claim;
}

Claim dropout_masks(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor x = c.normal({n, d});
  const RandomKey key = c.key();
  const Permutation r = c.permutation(n), p = c.permutation(d);
  const auto moved = [&](const Tensor& t) { return p.apply(r.apply(t, 0), 1); };
  const Tensor mask = dropout(Tensor::ones({n, d}, c.dtype), 0.5, key); // 0 or 2: exact
  Claim claim;
  claim.equal_bits("the mask of a draw is a factor", dropout(x, 0.5, key), x * mask + 0.0); // -0 is 0
  claim.equal_bits("a mask that moves along", moved(x) * moved(mask) + 0.0, moved(dropout(x, 0.5, key)));
  claim.differs("the same draw for permuted features", dropout(moved(x), 0.5, key), moved(dropout(x, 0.5, key)));
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
      {"stip-thm1", "blocks of decoders and encoders, columns", stip, "Theorem 1", identity, Gate::one_pass,
       "A permuted residual stream passes causal and unmasked blocks of either norm order.",
       R"(f_{\theta'}(x\pi) = f_\theta(x)\pi,\quad W_{q,k,v,1}' = W\pi,\ W_{o,2}' = \pi^\top W,\ \gamma' = \gamma\pi)",
       stip_decoder},
      {"stip-llama", "Llama's block, columns", stip, "", identity, Gate::one_pass,
       "So it does with RMSNorm, SwiGLU, rotary positions and shared key heads.",
       R"(f_{\theta'}(x\pi) = f_\theta(x)\pi)", stip_llama},
      {"stip-rms", "RMSNorm", stip, "", erratum, Gate::one_pass,
       "RMSNorm is equivariant; the mean is over the features, not 1/n with n the length of the text as printed.",
       R"(\mathrm{RMS}(x) = x / \sqrt{\tfrac1d \sum_j x_j^2 + \epsilon} * \gamma)", stip_rms},
      {"stip-swiglu", "SwiGLU", stip, "", identity, Gate::one_pass,
       "Gate and up projection share one hidden permutation.",
       R"(W_2(\mathrm{silu}(W_1 x) \odot W_3 x),\quad W_{1,3}' = \pi_h^\top W \pi,\ W_2' = \pi^\top W_2 \pi_h)",
       stip_swiglu},
      {"swiglu-scale", "SwiGLU and scales", "", "", law, Gate::one_pass,
       "A scale of the up projection is undone by the down projection; one of the gate is not.",
       R"(W_3' = \mathrm{diag}(s) W_3,\ W_2' = W_2\, \mathrm{diag}(s)^{-1})", swiglu_scales},
      {"stip-dec-row", "row permutations of a masked decoder", stip, "", erratum, Gate::one_pass,
       "Rows pass an encoder, not a causal decoder; a permuted mask mends that and gives the permutation away.",
       R"(M' = P_R M P_R^\top)", stip_rows},
      {"stip-scope", "convolution", stip, "", counterexample, Gate::one_pass,
       "Convolution passes permutations of channels, which the paper excludes; those of pixels it does not pass.",
       R"(W' = P_{out}^\top W P_{in}\ \text{on channels})", convolution},
      {"rope", "rotary positions", "", "", law, Gate::one_pass,
       "Tokens may move with their positions; no permutation of a head's features passes.",
       R"(\langle R_m q, R_n k\rangle = q^\top R_{n-m} k)", rotary_inner},
      {"rope-scale", "rotary positions and scales", "", "", law, Gate::one_pass,
       "A pair of Q may be scaled when K's is scaled back, both features alike.",
       R"(\langle R_m s q, R_n s^{-1} k\rangle = \langle R_m q, R_n k\rangle)", rotary_scales},
      {"gqa", "grouped queries", "", "", law, Gate::one_pass,
       "Key heads move with the query heads that read them; those move freely inside their group; V's features move "
       "alike "
       "for all heads of a group.",
       R"(y_h = \mathrm{Att}(q_h, k_{g(h)}, v_{g(h)}))", grouped_query},
      {"kv-cache", "the key-value cache", "", "", law, Gate::one_pass,
       "Decoding with a cache is the last row of the whole causal pass, and entries may lie in any order.",
       R"(\mathrm{Att}(q, \sigma K, \sigma V) = \mathrm{Att}(q, K, V))", cache},
      {"rms-orth", "RMSNorm and orthogonal maps", "", "", law, Gate::one_pass,
       "Without its gain RMSNorm commutes with every orthogonal map; LayerNorm does not.",
       R"(\mathrm{RMS}(xQ) = \mathrm{RMS}(x)Q,\ Q^\top Q = I)", rms_orthogonal},
      {"ln-orth", "LayerNorm and orthogonal maps", "", "", law, Gate::one_pass,
       "Without gain and bias LayerNorm commutes with the orthogonal maps that keep (1, ..., 1); a flipped sign does "
       "not pass.",
       R"(\mathrm{LN}(xQ) = \mathrm{LN}(x)Q,\ Q^\top Q = I,\ \mathbf 1 Q = \mathbf 1)", layer_norm_orthogonal},
      {"moe", "mixtures of experts", "", "", law, Gate::one_pass,
       "Dropless routing passes permutations of tokens; experts with a capacity drop by place and do not.",
       R"(\mathrm{MoE}(P_R X) = P_R\, \mathrm{MoE}(X))", experts},
      {"dropout", "dropout", "", "", law, Gate::bits,
       "Dropout passes a permutation when its mask moves along; the same draw again does not.",
       R"((P_R X P_C) \odot (P_R M P_C) = P_R (X \odot M) P_C)", dropout_masks},
      {"pe-order", "position embeddings and the shuffle", "", "", law, Gate::one_pass,
       "Positions are added before tokens are shuffled; added after it they belong to other tokens.",
       R"(f(P_R(X + E)) = P_R f(X + E))", position_order},
  };
}

} // namespace eg::permute
