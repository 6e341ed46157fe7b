// Lemma 9.5 names batch norm beside layer norm: it depends on what the statistics run over.

#include "permute/catalogue/case.h"

#include "autograd/tape.h"
#include "nn/norms.h"

namespace eg::permute {
namespace {

struct Drawn {
  Tensor x, gamma, beta, g, rows;
  Permutation p;
  Tensor moved(const Tensor& z) const { return p.apply(permute_rows(z, rows), -1); }
  Tensor vector(const Tensor& z) const { return p.apply(z, 0); }
};

Drawn draw(Case& c) {
  const std::int64_t samples = c.options.batch + 2, n = c.options.tokens, d = c.options.dim;
  Drawn drawn{
      c.normal({samples, n, d}), c.normal({d}, 0.3, 1.0), c.normal({d}, 0.5), c.normal({samples, n, d}), {}, {}};
  drawn.rows = row_permutations(samples, n, c.key());
  drawn.p = c.permutation(d);
  return drawn;
}

/// Every token of every sample is a value of its channel.
Tensor over_samples_and_tokens(const Tensor& x, const Tensor& gamma, const Tensor& beta) {
  return batch_norm(x.reshape({x.size(0) * x.size(1), x.size(2)}), gamma, beta).y.reshape(x.shape());
}

/// Each place (token, feature) has statistics over the samples; gamma and beta belong to features.
Tensor over_samples(const Tensor& x, const Tensor& gamma, const Tensor& beta) {
  const Tensor centred = x - mean(x, {0}, true);
  return centred * rsqrt(mean(centred * centred, {0}, true) + 1e-5) * gamma + beta;
}

using Norm = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);

/// Output, then the gradients to x, gamma and beta.
std::vector<Tensor> pass(Norm norm, const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& g) {
  Tape tape;
  const Tensor y = norm(x, gamma, beta);
  std::vector<Tensor> all = tape.gradient(sum(g * gelu(y)), {x, gamma, beta});
  all.insert(all.begin(), y);
  return all;
}

Claim samples_and_tokens(Case& c) {
  const Drawn t = draw(c);
  const auto plain = pass(over_samples_and_tokens, t.x, t.gamma, t.beta, t.g);
  const auto moved = pass(over_samples_and_tokens, t.moved(t.x), t.vector(t.gamma), t.vector(t.beta), t.moved(t.g));
  Claim claim;
  claim.equal("output", moved[0], t.moved(plain[0]));
  claim.equal("dl/dX", moved[1], t.moved(plain[1]));
  claim.equal("dl/dgamma", moved[2], t.vector(plain[2]));
  claim.equal("dl/dbeta", moved[3], t.vector(plain[3]));
  claim.differs("gamma and beta left plain", over_samples_and_tokens(t.moved(t.x), t.gamma, t.beta), t.moved(plain[0]));
  return claim;
}

Claim statistics_of_a_token(Case& c) {
  const Drawn t = draw(c);
  const Permutation r = c.permutation(c.options.tokens);
  const auto shared = [&](const Tensor& z) { return t.p.apply(r.apply(z, 1), -1); };
  const auto plain = pass(over_samples, t.x, t.gamma, t.beta, t.g);
  const auto moved = pass(over_samples, shared(t.x), t.vector(t.gamma), t.vector(t.beta), shared(t.g));
  Claim claim;
  claim.equal("one P_R for all samples", moved[0], shared(plain[0]));
  claim.equal("one P_R for all samples: dl/dX", moved[1], shared(plain[1]));
  claim.differs("a P_R for each sample", over_samples(t.moved(t.x), t.vector(t.gamma), t.vector(t.beta)),
                t.moved(plain[0]));
  return claim;
}

Claim running_statistics(Case& c) {
  const std::int64_t d = c.options.dim;
  const Drawn t = draw(c);
  nn::BatchNorm plain(d), moved(d);
  for (nn::BatchNorm* norm : {&plain, &moved}) norm->to(c.dtype);
  plain.load_state_dict({{"weight", t.gamma},
                         {"bias", t.beta},
                         {"running_mean", c.normal({d})},
                         {"running_var", exp(c.normal({d}, 0.3))}});
  nn::StateDict state = plain.state_dict();
  for (auto& [name, value] : state) value = t.vector(value);
  moved.load_state_dict(state);
  const auto flat = [&](const Tensor& z) { return z.reshape({-1, d}); };
  for (int step = 0; step < 3; ++step) { // training mode: the statistics move
    const Tensor x = c.normal(t.x.shape(), 1.5, 0.4), rows = row_permutations(x.size(0), x.size(1), c.key());
    plain(flat(x));
    moved(flat(t.p.apply(permute_rows(x, rows), -1)));
  }
  plain.eval();
  moved.eval();
  const Tensor expected = t.moved(plain(flat(t.x)).reshape(t.x.shape()));
  Claim claim;
  claim.equal("running mean", moved.running_mean.clone(), t.vector(plain.running_mean));
  claim.equal("running variance", moved.running_var.clone(), t.vector(plain.running_var));
  claim.equal("evaluation", moved(flat(t.moved(t.x))).reshape(t.x.shape()), expected);
  nn::StateDict unmoved = moved.state_dict();
  for (auto& [name, value] : unmoved)
    if (name.starts_with("running")) value = t.p.inverse().apply(value, 0);
  moved.load_state_dict(unmoved);
  claim.differs("running statistics not permuted", moved(flat(t.moved(t.x))).reshape(t.x.shape()), expected);
  return claim;
}

} // namespace

std::vector<Identity> batch_norm_identities() {
  using enum ClaimKind;
  return {
      {"lem9.5-bn", "batch norm over samples and tokens", "CVPR", "40", identity, Gate::one_pass,
       "With statistics over samples and tokens batch norm is equivariant, forward and backward, whatever each "
       "sample's "
       "P_R.",
       R"(\mathrm{BN}_{(P)}(P_R X P_C) = P_R\, \mathrm{BN}(X)\, P_C)", samples_and_tokens},
      {"lem9.5-bn-token", "batch norm with statistics of each token", "CVPR", "40", counterexample, Gate::one_pass,
       "With statistics of each token and feature over the samples it passes one P_R for all samples; with a P_R for "
       "each sample, as Algorithm 1 draws them, it does not.",
       R"(\mathrm{BN}_{(P)}(P_R X_s P_C) = P_R\, \mathrm{BN}(X_s)\, P_C \text{ for one } P_R)", statistics_of_a_token},
      {"lem9.5-bn-running", "batch norm's running statistics", "CVPR", "40", identity, Gate::one_pass,
       "Running statistics move with the features: so do their updates in training and the outputs in evaluation.",
       R"(\mu_{(P)} = \mu P_C,\quad \sigma^2_{(P)} = \sigma^2 P_C)", running_statistics},
  };
}

} // namespace eg::permute
