// STIP (paper 004, arXiv 2312.00025v1): theorem 1 and its proof, norms, SwiGLU, rows and masks, and its scope.

#include "permute/catalogue/stack.h"

#include <cmath>

namespace eg::permute {
namespace {

constexpr const char* stip = "004";

/// f_theta'(x pi) = f_theta(x) pi for one kind of block.
void compare_residual(Claim& claim, Case& c, const char* what, const nn::BlockConfig& config) {
  const auto plain = draw_stack(c, config);
  const Permutation p = c.permutation(config.dim);
  const auto permuted = residual_copy(*plain, p);
  const Tensor z = c.normal({c.options.batch, c.options.tokens, config.dim});
  const Tensor expected = p.apply((*plain)(z), -1);
  claim.equal(what, (*permuted)(p.apply(z, -1)), expected);
  if (claim.fails.empty()) claim.differs("the plain weights on permuted features", (*plain)(p.apply(z, -1)), expected);
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
  const std::int64_t d = c.options.dim, n = c.options.tokens == d ? d + 1 : c.options.tokens; // or 1/n is 1/d
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

/// Attention of rows in the paper's order, with a mask.
struct MaskedRows {
  Tensor q, k, v, mask, none;
  Permutation r;

  explicit MaskedRows(Case& c)
      : q(c.normal({c.options.tokens, c.options.dim})), k(c.normal(q.shape())), v(c.normal(q.shape())),
        none(Tensor::zeros({c.options.tokens, c.options.tokens}, c.dtype)), r(c.permutation(c.options.tokens)) {
    std::vector<double> entries;
    for (std::int64_t i = 0; i < c.options.tokens; ++i)
      for (std::int64_t j = 0; j < c.options.tokens; ++j) entries.push_back(j <= i ? 0.0 : -1e9);
    mask = Tensor::from<double>(entries, none.shape()).to(c.dtype);
  }
  static Tensor attend(const Tensor& a, const Tensor& b, const Tensor& w, const Tensor& m) {
    return matmul(softmax(matmul(a, b, false, true) / std::sqrt(static_cast<double>(a.size(1))) + m), w);
  }
  Tensor plain(const Tensor& m) const { return r.apply(attend(q, k, v, m), 0); }
  Tensor moved(const Tensor& m) const { return attend(r.apply(q, 0), r.apply(k, 0), r.apply(v, 0), m); }
  Tensor moved_mask() const { return r.apply(r.apply(mask, 0), 1); }
};

Claim stip_encoder_rows(Case& c) {
  const MaskedRows rows(c);
  Claim claim;
  claim.equal("encoder", rows.moved(rows.none), rows.plain(rows.none));
  claim.differs("the output in the order before", rows.moved(rows.none),
                rows.r.inverse().apply(rows.plain(rows.none), 0));
  return claim;
}

Claim stip_decoder_rows(Case& c) {
  const MaskedRows rows(c);
  Claim claim;
  claim.equal("decoder whose mask is P_R M P_R^T", rows.moved(rows.moved_mask()), rows.plain(rows.mask));
  claim.differs("decoder with the mask as it was", rows.moved(rows.mask), rows.plain(rows.mask));
  return claim;
}

/// Row i of a causal mask sees i + 1 tokens: counting them in the permuted mask gives the permutation.
Claim stip_mask(Case& c) {
  const MaskedRows rows(c);
  const auto seen = [](const Tensor& m) { return sum(exp(m), {1}) - 1.0; };
  Claim claim;
  claim.equal_bits("tokens that the rows of the mask see, less one: P_R itself", seen(rows.moved_mask()),
                   rows.r.tensor().to(c.dtype));
  claim.differs("the mask before, which tells nothing of P_R", seen(rows.mask), rows.r.tensor().to(c.dtype));
  return claim;
}

Claim stip_layer_norm(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor x = c.normal({n, d}), gamma = c.normal({d}, 0.3, 1.0), beta = c.normal({d}, 0.5);
  const Permutation p = c.permutation(d);
  const Tensor expected = p.apply(layer_norm(x, gamma, beta), 1);
  Claim claim;
  claim.equal("LayerNorm(x pi; gamma pi, beta pi)", layer_norm(p.apply(x, 1), p.apply(gamma, 0), p.apply(beta, 0)),
              expected);
  claim.differs("gamma and beta left plain", layer_norm(p.apply(x, 1), gamma, beta), expected);
  return claim;
}

/// The proof's last steps: z' = ReLU(v' W_1') W_2 pi and v' = LayerNorm(u' + x pi; gamma_1', beta_1').
struct ProofStep {
  Tensor x, u, v, w1, w2, gamma, beta;
  Permutation p;

  explicit ProofStep(Case& c)
      : x(c.normal({c.options.tokens, c.options.dim})), u(c.normal(x.shape())),
        w1(c.normal({c.options.hidden, c.options.dim}, 0.4)), w2(c.normal({c.options.dim, c.options.hidden}, 0.4)),
        gamma(c.normal({c.options.dim}, 0.3, 1.0)), beta(c.normal({c.options.dim}, 0.5)),
        p(c.directed_permutation(c.options.dim)) {
    v = layer_norm(u + x, gamma, beta);
  }
};

Claim stip_relu(Case& c) {
  const ProofStep s(c);
  const Tensor v_p = s.p.apply(s.v, 1), w1_p = s.p.apply(s.w1, 1), w2_p = s.p.apply(s.w2, 0);
  const Tensor z_p = s.p.apply(linear(relu(linear(s.v, s.w1)), s.w2), 1);
  Claim claim;
  claim.equal("ReLU(v' W_1') W_2 pi = z pi", linear(relu(linear(v_p, w1_p)), w2_p), z_p);
  claim.differs("ReLU(v' pi W_1) W_2 pi", linear(relu(linear(s.p.apply(v_p, 1), s.w1)), w2_p), z_p);
  return claim;
}

Claim stip_primes(Case& c) {
  const ProofStep s(c);
  const Tensor sum_p = s.p.apply(s.u, 1) + s.p.apply(s.x, 1), v_p = s.p.apply(s.v, 1);
  Claim claim;
  claim.equal("gamma_1' and beta_1'", layer_norm(sum_p, s.p.apply(s.gamma, 0), s.p.apply(s.beta, 0)), v_p);
  claim.differs("gamma_1 and beta_1, as printed", layer_norm(sum_p, s.gamma, s.beta), v_p);
  return claim;
}

/// The printed SwiGLU has no sign between the gate and x W_3: a matrix product, where tokens equal hidden elements.
Claim stip_swiglu_sign(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor x = c.normal({n, d}), gate = c.normal({n, d}, 0.4), up = c.normal({n, d}, 0.4),
               down = c.normal({d, n}, 0.4);
  const Permutation p = c.permutation(d);
  const Tensor x_p = p.apply(x, 1), gate_p = p.apply(gate, 1), up_p = p.apply(up, 1), down_p = p.apply(down, 0);
  const Tensor y = swiglu(x, gate, up, down);
  Claim claim;
  claim.sizes = {{"hidden", n}};
  claim.equal("elementwise", swiglu(x_p, gate_p, up_p, down_p), p.apply(y, 1));
  claim.differs("a matrix product", linear(matmul(silu(linear(x, gate)), linear(x, up)), down), y);
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

} // namespace

std::vector<Identity> stip_identities() {
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
       R"(\mathrm{RMS}(P_R x P_C; \gamma P_C) = P_R\, \mathrm{RMS}(x; \gamma)\, P_C,)"
       R"(\quad \mathrm{RMS}(x; \gamma) = x / \sqrt{\tfrac1d \sum_j x_j^2 + \epsilon} * \gamma)",
       stip_rms},
      {"stip-swiglu", "SwiGLU", stip, "", identity, Gate::one_pass,
       "Gate and up projection share one hidden permutation.",
       R"(W_2(\mathrm{silu}(W_1 x) \odot W_3 x),\quad W_{1,3}' = \pi_h^\top W \pi,\ W_2' = \pi^\top W_2 \pi_h)",
       stip_swiglu},
      {"swiglu-scale", "SwiGLU and scales", "", "", law, Gate::one_pass,
       "A scale of the up projection is undone by the down projection; one of the gate is not.",
       R"(W_3' = \mathrm{diag}(s) W_3,\ W_2' = W_2\, \mathrm{diag}(s)^{-1})", swiglu_scales},
      {"stip-ln", "LayerNorm", stip, "", identity, Gate::one_pass,
       "LayerNorm passes a permutation of features that its weights share.",
       R"(\mathrm{LN}(x\pi; \gamma\pi, \beta\pi) = \mathrm{LN}(x; \gamma, \beta)\pi)", stip_layer_norm},
      {"stip-enc-row", "row permutations of an encoder", stip, "", identity, Gate::one_pass,
       "Attention without a mask passes permutations of tokens.",
       R"(\mathrm{EncAttn}(\pi x) = \pi\, \mathrm{EncAttn}(x))", stip_encoder_rows},
      {"stip-dec-row", "row permutations of a masked decoder", stip, "", identity, Gate::one_pass,
       "Causal attention does not pass permutations of tokens; with a permuted mask it does.", R"(M' = P_R M P_R^\top)",
       stip_decoder_rows},
      {"stip-dec-mask", "what the permuted mask gives away", stip, "", identity, Gate::bits,
       "Each row of the permuted mask is known by the number of tokens it sees: the permutation is read off.",
       R"(\sum_j [M'_{ij} = 0] - 1 = r_i)", stip_mask},
      {"stip-relu", "the MLP in the proof of theorem 1", stip, "Theorem 1", erratum, Gate::one_pass,
       "v' is already v pi, and W_1' takes it; the proof writes ReLU(v' pi W_1).",
       R"(z' = \mathrm{ReLU}(v' W_1') W_2 \pi)", stip_relu},
      {"stip-primes", "LayerNorm in the proof of theorem 1", stip, "Theorem 1", erratum, Gate::one_pass,
       "The norms of the permuted block have permuted weights; the proof writes gamma_1 and beta_1 without primes.",
       R"(v' = \mathrm{LN}(u' + x\pi; \gamma_1', \beta_1') = v\pi)", stip_primes},
      {"stip-swiglu-sign", "SwiGLU's product", stip, "", erratum, Gate::one_pass,
       "Gate and up projection are multiplied element by element; the formula leaves the sign out.",
       R"(((xW_1)\, \mathrm{sigmoid}(xW_1) \odot xW_3)\, W_2)", stip_swiglu_sign},
      {"stip-scope", "convolution", stip, "", counterexample, Gate::one_pass,
       "Convolution passes permutations of channels, though the paper excludes it; those of pixels it does not pass.",
       R"(\mathrm{conv}(P_{in}^\top x;\ P_{out}^\top W P_{in}) = P_{out}^\top\, \mathrm{conv}(x; W)\ \text{on channels})",
       convolution},
  };
}

} // namespace eg::permute
