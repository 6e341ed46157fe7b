#pragma once
// Implements a mixture of experts that replaces an encoder block's MLP. Shazeer et al., "Outrageously Large Neural
// Networks", ICLR 2017; Fedus, Zoph and Shazeer, "Switch Transformers", JMLR 2022; Jiang et al., "Mixtral of Experts",
// 2024.

#include "nn/layers.h"

namespace eg::nn {

struct MoeConfig {
  std::int64_t dim = 64;
  std::int64_t hidden = 128; ///< of each expert
  std::int64_t experts = 8;
  std::int64_t top_k = 2;                   ///< experts of each token
  Activation activation = Activation::silu; ///< of the experts
  bool gated = true; ///< w2(activation(w1 x) * w3 x) (SwiGLU for silu), else w2(activation(w1 x))
  bool bias = false; ///< of the experts' linears
  bool renormalize =
      true; ///< weights of a token's experts add up to 1 (Mixtral), else probabilities as they are (Switch)
  /// 0: dropless, an expert takes every token that wants it. Else an expert takes at most
  /// ceil(capacity_factor tokens top_k / experts) and what exceeds its capacity is dropped.
  double capacity_factor = 0.0;
  double jitter = 0.0; ///< in training the router's input is multiplied by uniform numbers in [1 - jitter, 1 + jitter)
};

/// Throws ValueError that names the field when a config makes no layer.
void check(const MoeConfig& config);

/// What the router decided for N tokens.
struct MoeRouting {
  Tensor logits;        ///< [N, experts]
  Tensor probabilities; ///< softmax of them
  Tensor experts;       ///< [N, top_k] i64, the likeliest first; of equals the first
  Tensor weights;       ///< [N, top_k]: what the experts' results are multiplied by
};

/// experts sum_e f_e P_e with f_e the choices of expert e over the number of tokens and P_e its mean probability: top_k
/// when all is even. Gradients flow through P. Fedus et al., equation 4, for top_k = 1; Mixtral's for any. valid: bool
/// [N] or of N elements, tokens that count (default: all). Throws ShapeError, DTypeError; ValueError without a token.
Tensor load_balancing_loss(const MoeRouting& routing, const Tensor& valid = {});
/// Mean of (log sum exp logits)^2 over the tokens that count: keeps logits small. Zoph et al., "ST-MoE", 2022, equation
/// 5. Throws as the other one.
Tensor router_z_loss(const MoeRouting& routing, const Tensor& valid = {});

/// One expert; names as in Mixtral: w1 (gate) [hidden, dim], w2 (down) [dim, hidden], w3 (up) [hidden, dim] if gated.
class Expert : public Module {
public:
  Expert(const MoeConfig& config, RandomKey key);
  /// x [rows, dim] -> [rows, dim]; no rows are fine
  Tensor operator()(const Tensor& x) const;
  Activation activation;
  Linear w1, w2;
  std::unique_ptr<Linear> w3;
};

/// y = sum over a token's top_k experts of weight * expert(x). Tokens are gathered expert by expert, each expert makes
/// its products on its own rows alone, and the results go back to their tokens; the sum runs from the likeliest expert
/// on, whatever the number of threads.
///
/// Dropless, a token's result depends on that token alone: permuted tokens permute the results. With a capacity it does
/// not: places are given to the first choices of all tokens, then to the second ones, each in the order of the tokens,
/// so that which ones are dropped depends on that order. A dropped choice contributes nothing, and a token whose
/// choices are all dropped falls through: its result is the addend (Switch Transformer). Jitter depends on a token's
/// place as well.
class MixtureOfExperts : public Module {
public:
  /// Throws ValueError as check(config) does.
  MixtureOfExperts(const MoeConfig& config, RandomKey key);

  struct Output {
    Tensor y; ///< as x
    MoeRouting routing;
    std::vector<std::int64_t> load; ///< tokens that each expert computed
    std::int64_t dropped = 0;       ///< choices that exceeded the capacity
  };
  /// x [..., dim]; addend [..., dim] (may be undefined) is added to the output: the residual. `key` feeds the jitter.
  /// The whole leading shape shares one capacity. A meta tensor (core/meta.h) has no choices: there every expert is
  /// evaluated on every token, which is the same function; with a capacity it throws ValueError.
  Output forward(const Tensor& x, const Tensor& addend = {}, RandomKey key = {}) const;
  /// Its y, as Mlp's call. Train with the losses of forward().routing added, or all tokens end at few experts.
  Tensor operator()(const Tensor& x, const Tensor& addend = {}, RandomKey key = {}) const;
  /// The router alone: x [N, dim].
  MoeRouting route(const Tensor& x, RandomKey key = {}) const;

  const MoeConfig config;
  Linear gate; ///< the router [experts, dim], no bias
  std::vector<std::unique_ptr<Expert>> experts;

private:
  Tensor dense(const Tensor& x, const MoeRouting& routing) const;
  std::vector<Tensor> computed(const Tensor& x, const std::vector<std::int64_t>& load) const;
};

} // namespace eg::nn
