// Errata that are not one product of matrices: differentials, counts, what layer norm's bias becomes, and the claim
// about weights behind pooling by attention.

#include "permute/catalogue/single_head.h"
#include "permute/catalogue/stack.h"

#include "autograd/tape.h"
#include "core/exact/elementary.h"

#include <cmath>

namespace eg::permute {
namespace {

/// dl along a direction, from the tape: the derivative of l(x + e D) by e at 0.
Tensor differential(const std::function<Tensor(const Tensor&)>& loss, const Tensor& x, const Tensor& direction) {
  const Tensor e = Tensor::zeros({1}, x.dtype());
  Tape tape;
  return tape.gradient(loss(x + e * direction), {e}).front();
}

Tensor trace_of(const Tensor& a, const Tensor& b) {
  const Tensor product = matmul(a, b);
  return sum(product * eye(product.size(0), -1, product.dtype())).reshape({1});
}

/// dl = tr((dl/dA2)^T dA2) for a square A2, and the same behind the permutations of eq. 65.
Claim differentials(Case& c, bool permuted) {
  const BlockTwins t = run_twins(c, all_square(c));
  const Tensor &downhill = t.plain.gradient.at("A2"), noise = c.normal(t.g.shape());
  const Tensor plain_direction = noise + downhill * rsqrt(mean(downhill * downhill)) * 2.0; // dl is then not near zero
  const Tensor direction = permuted ? t.columns.apply(t.rows.apply(plain_direction, 0), 1) : plain_direction;
  const auto back = [&](const Tensor& x) { return t.columns.inverse().apply(t.rows.inverse().apply(x, 0), 1); };
  const auto loss = [&](const Tensor& x) { return sum(t.g * gelu(x)); };
  Claim claim;
  claim.sizes = {{"tokens", c.options.dim}, {"hidden", c.options.dim}};
  if (!permuted) {
    const Tensor dl = differential(loss, t.plain.value.at("A2"), direction), gradient = t.plain.gradient.at("A2");
    claim.equal("tr((dl/dA_2)^T dA_2)", trace_of(gradient.transpose().contiguous(), direction), dl);
    claim.differs("tr(dl/dA_2 dA_2)", trace_of(gradient, direction), dl);
    return claim;
  }
  const Tensor dl = differential([&](const Tensor& x) { return loss(back(x)); }, t.permuted.value.at("A2"), direction);
  const Tensor gradient = t.permuted.gradient.at("A3"), moved = back(direction); // P_R^T dA2 P_C^T
  claim.equal("tr((dl/dA_3(P))^T P_R^T dA_2(P) P_C^T)", trace_of(gradient.transpose().contiguous(), moved), dl);
  claim.differs("tr(dl/dA_3(P) P_R^T dA_2(P) P_C^T)", trace_of(gradient, moved), dl);
  return claim;
}

Claim layer_norm_bias(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor x = c.normal({n, d}), gamma = c.normal({d}, 0.3, 1.0), b = c.normal({d}, 0.5);
  const Permutation r = c.permutation(n), p = c.permutation(d);
  const Tensor moved = p.apply(r.apply(x, 0), 1), expected = p.apply(r.apply(layer_norm(x, gamma, b), 0), 1);
  Claim claim;
  claim.equal("b_(P) = b P_C", layer_norm(moved, p.apply(gamma, 0), p.apply(b, 0)), expected);
  claim.differs("the b of \"b = b P_C\", which is b", layer_norm(moved, p.apply(gamma, 0), b), expected);
  return claim;
}

/// log2 n!, summed from the largest factor down.
double log2_of_factorial(std::int64_t n) {
  double bits = 0.0;
  for (std::int64_t i = n; i >= 2; --i) bits += exact::log2(static_cast<double>(i));
  return bits;
}

/// Valid permutations of ViT-Base's residual stream, in bits: log2_count against factorials written out.
Claim key_space(Case& c) {
  nn::BlockConfig config;
  config.dim = 768;
  config.heads = 12;
  config.mlp = 3072;
  const double heads = log2_of_factorial(12), within = log2_of_factorial(64), printed = heads + within;
  const auto bits = [&](const std::vector<double>& values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return Tensor::from<double>(values, {count}).to(c.dtype);
  };
  const auto keys = [&](KeyForm form) { return log2_count(config, 1, form); };
  Claim claim;
  claim.sizes = {{"dim", config.dim}, {"heads", config.heads}};
  claim.equal("the papers' generator, 12! 64!", bits({keys(KeyForm::paper)}), bits({printed}));
  claim.equal("tied, (64!)^12 12!", bits({keys(KeyForm::tied)}), bits({12.0 * within + heads}));
  claim.equal("any P_C, 768!", bits({keys(KeyForm::residual)}), bits({log2_of_factorial(768)}));
  claim.differs("12! 64! as the whole valid space", bits({printed}), bits({12.0 * within + heads}));
  return claim;
}

/// CelebA's three parts add up to its images (Liu et al., ICCV 2015).
Claim celeba(Case& c) {
  const auto number = [&](double x) { return Tensor::full({1}, x, c.dtype); };
  Claim claim;
  claim.sizes = {{"images", 202599}};
  claim.equal_bits("162,770 for training, 19,867 to validate, 19,962 to test",
                   number(162770.0) + number(19867.0) + number(19962.0), number(202599.0));
  claim.differs("2,022,599", number(2022599.0), number(202599.0));
  return claim;
}

/// Section 4.2 concludes from "dl/dZ does not move" that weight gradients are misaligned: dl/dK unpermuted against
/// Z_(P).
Claim pooled_weights(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const double scale = 1.0 / std::sqrt(static_cast<double>(d));
  const Tensor z = c.normal({n, d}), g = c.normal({2, d}), seeds = c.normal({2, d}), wk = c.normal({d, d}, scale),
               wv = c.normal({d, d}, scale);
  const Permutation r = c.permutation(n);
  struct Pooled {
    Tensor x;
    std::vector<Tensor> gradients; // W_K, W_V, K, V
  };
  const auto run = [&](const Tensor& x) {
    Tape tape;
    const Tensor k = linear(x, wk), v = linear(x, wv);
    return Pooled{x, tape.gradient(sum(g * gelu(attention_explicit(seeds, k, v).output)), {wk, wv, k, v})};
  };
  const Pooled plain = run(z), moved = run(r.apply(z, 0));
  Claim claim;
  claim.equal("dl/dW_K", moved.gradients[0], plain.gradients[0]);
  claim.equal("dl/dW_V", moved.gradients[1], plain.gradients[1]);
  claim.equal("dl/dK_(P) = P_R dl/dK", moved.gradients[2], r.apply(plain.gradients[2], 0));
  claim.equal("dl/dV_(P) = P_R dl/dV", moved.gradients[3], r.apply(plain.gradients[3], 0));
  claim.differs("the claim: dl/dV as it was, paired with P_R Z", matmul(plain.gradients[3], moved.x, true, false),
                plain.gradients[1]);
  return claim;
}

} // namespace

std::vector<Identity> errata_number_identities() {
  using enum ClaimKind;
  return {
      {"eq22-text", "the differential before Eq. 22 and 23", "CVPR", "22-23", identity, Gate::one_pass,
       "The gradient under the trace is transposed.",
       R"(dl = \mathrm{tr}\left(\frac{\partial l}{\partial A_2}^\top dA_2\right))",
       [](Case& c) { return differentials(c, false); }},
      {"eq65-text", "the differential before Eq. 65", "CVPR", "65", erratum, Gate::one_pass,
       "The gradient under the trace is transposed; copies of the text lose it.",
       R"(dl = \mathrm{tr}\left(\frac{\partial l}{\partial A_{3(P)}}^\top P_R^\top\, dA_{2(P)}\, P_C^\top\right))",
       [](Case& c) { return differentials(c, true); }},
      {"lem9.5-b", "layer norm's bias", "CVPR", "40", erratum, Gate::one_pass,
       "The bias of the permuted norm is b P_C; the printed \"b = b P_C\" leaves it b.", R"(b_{(P)} = b P_C)",
       layer_norm_bias},
      {"key-space", "how many permutations are valid", "CVPR", "", erratum, Gate::one_pass,
       "The printed 12! 64! counts one within-head permutation for all heads; tied keys are (64!)^12 12!, and 768! "
       "when the inner axes are not tied to the residual.",
       R"(\log_2 12!\,64! = 325,\quad \log_2 (64!)^{12}\,12! = 3581,\quad \log_2 768! = 6259)", key_space},
      {"celeba", "the images of CelebA", "CVPR", "", erratum, Gate::bits,
       "CelebA has 202,599 images; both papers print 2,022,599.", R"(162770 + 19867 + 19962 = 202599)", celeba},
      {"pma-weights", "weights behind pooling by attention", "CVPR", "", counterexample, Gate::one_pass,
       "Gradients to keys and values move with the rows, so weight gradients stay; section 4.2 calls them misaligned.",
       R"(\frac{\partial l}{\partial W_{(P)}} = \frac{\partial l}{\partial V_{(P)}}^\top Z_{(P)} = \frac{\partial l}{\partial W})",
       pooled_weights},
  };
}

} // namespace eg::permute
