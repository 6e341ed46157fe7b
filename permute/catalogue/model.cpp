// Whole models: theorem 10.1 (what precedes and follows the encoder), the class token, and pooling by attention.

#include "permute/catalogue/vit_case.h"

#include "autograd/tape.h"

#include <cmath>

namespace eg::permute {
namespace {

/// A ViT and its permuted twin on the same images, with gradients to z0 and to every parameter.
struct VitTwins {
  nn::VitConfig config;
  std::unique_ptr<nn::Vit> vit, moved_vit;
  VitBatch batch;
  BlocksKey key;
  Permuting permuting;
  VitPass plain, moved;
  Tensor z0_gradient, moved_z0_gradient, z_gradient;
  nn::StateDict gradients, moved_gradients;
};

std::vector<Tensor> gradients_of(const nn::Vit& vit, const VitBatch& batch, const Permuting& permuting, VitPass& pass,
                                 nn::StateDict& named) {
  Tape tape;
  pass = run_vit(vit, batch, permuting);
  const nn::StateDict weights = vit.state_dict();
  std::vector<Tensor> xs = {pass.z0, pass.z};
  for (const auto& [name, value] : weights) xs.push_back(value);
  std::vector<Tensor> gradients = tape.gradient(pass.loss, xs);
  for (std::size_t i = 0; i < weights.size(); ++i) named.emplace_back(weights[i].first, gradients[i + 2]);
  return gradients;
}

std::unique_ptr<VitTwins> run_vit_twins(Case& c) {
  auto t = std::make_unique<VitTwins>();
  t->config = vit_config(c);
  t->vit = draw_vit(c, t->config);
  t->batch = draw_batch(c, t->config);
  t->key = BlocksKey::random(t->config.encoder, t->config.layers, KeyForm::decoupled, c.key());
  t->moved_vit = vit_copy(*t->vit, &t->key);
  t->permuting = {t->batch.rows, &t->key.residual, true};
  t->z0_gradient = gradients_of(*t->vit, t->batch, {}, t->plain, t->gradients)[0];
  const std::vector<Tensor> moved = gradients_of(*t->moved_vit, t->batch, t->permuting, t->moved, t->moved_gradients);
  t->moved_z0_gradient = moved[0];
  t->z_gradient = moved[1];
  return t;
}

Claim edge_parameters(Case& c) {
  const auto t = run_vit_twins(c);
  nn::StateDict unkeyed_gradients;
  VitPass unkeyed;
  gradients_of(*t->vit, t->batch, t->permuting, unkeyed, unkeyed_gradients); // plain weights, permuted features
  Claim claim;
  for (std::size_t i = 0; i < t->gradients.size(); ++i) {
    const auto& [name, expected] = t->gradients[i];
    if (name.starts_with("blocks.")) continue;
    claim.equal("dl/d " + name, t->moved_gradients[i].second, expected);
    claim.differs("P_C without the encoder's key", unkeyed_gradients[i].second, expected);
  }
  return claim;
}

Claim permuted_embedding(Case& c) {
  const auto t = run_vit_twins(c);
  Claim claim;
  claim.equal_bits("Z_(P) = P_R Z_0 P_C", t->moved.z, t->permuting.enter(t->plain.z0));
  claim.differs("Z_0 itself", t->moved.z, t->plain.z0);
  return claim;
}

Claim embedding_gradient(Case& c) {
  const auto t = run_vit_twins(c);
  Claim claim;
  claim.equal("dl/dZ_0", t->moved_z0_gradient, t->z0_gradient);
  claim.differs("the gradient to Z_(P), not permuted back", t->z_gradient, t->z0_gradient);
  return claim;
}

Claim embedding_gradient_chain(Case& c) {
  const auto t = run_vit_twins(c);
  const Permutation wrong = c.another(t->key.residual);
  Claim claim;
  claim.equal("dl/dZ_0(P) = P_R^T dl/dZ_(P) P_C^T", t->permuting.leave(t->z_gradient), t->z0_gradient);
  claim.equal("dl/dZ_(P) = P_R dl/dZ P_C", t->z_gradient, t->permuting.enter(t->z0_gradient));
  claim.differs("another P_C", t->z_gradient, Permuting{t->batch.rows, &wrong, true}.enter(t->z0_gradient));
  return claim;
}

Claim folded_model(Case& c) {
  const auto t = run_vit_twins(c);
  const auto folded = vit_copy(*t->vit, &t->key, KeyScope::model);
  Claim claim;
  claim.equal("logits of the folded model", (*folded)(t->batch.images), t->plain.logits);
  claim.differs("the encoder's key alone, without P_C at its ends", (*t->moved_vit)(t->batch.images), t->plain.logits);
  return claim;
}

Claim class_token(Case& c) {
  const auto t = run_vit_twins(c);
  const nn::VitConfig pooled_config = vit_config(c, nn::Pooling::mean);
  const auto pooled = draw_vit(c, pooled_config);
  const VitBatch batch = draw_batch(c, pooled_config);
  const VitPass plain = run_vit(*pooled, batch), moved = run_vit(*pooled, batch, {batch.rows, nullptr, false});
  Permuting left = t->permuting;
  left.columns = nullptr;
  left.undo = false;
  Claim claim;
  claim.equal("class token, permuted back before the head", t->moved.logits, t->plain.logits);
  claim.equal("mean pooling, rows not permuted back", moved.logits, plain.logits);
  claim.differs("class token, rows not permuted back", run_vit(*t->vit, t->batch, left).logits, t->plain.logits);
  return claim;
}

/// Pooling by attention with a learned query: PMA(Z) = softmax(s (Z W_K^T)^T / sqrt(d)) Z W_V^T is row-invariant, so
/// its gradient is row-equivariant and its weight gradients are row-invariant.
Claim pooling_by_attention(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const double scale = 1.0 / std::sqrt(static_cast<double>(d));
  const Tensor z = c.normal({n, d}), g = c.normal({2, d}), seeds = c.normal({2, d}), wk = c.normal({d, d}, scale),
               wv = c.normal({d, d}, scale);
  const Permutation r = c.permutation(n);
  struct Pooled {
    Tensor y;
    std::vector<Tensor> gradients; // Z, seeds, W_K, W_V
  };
  const auto run = [&](const Tensor& x) {
    Tape tape;
    const Tensor y = attention_explicit(seeds, linear(x, wk), linear(x, wv)).output;
    return Pooled{y, tape.gradient(sum(g * gelu(y)), {x, seeds, wk, wv})};
  };
  const Pooled plain = run(z), moved = run(r.apply(z, 0));
  Claim claim;
  claim.equal("f(P_R Z) = f(Z)", moved.y, plain.y);
  claim.equal("dl/dZ_(P) = P_R dl/dZ", moved.gradients[0], r.apply(plain.gradients[0], 0));
  const char* names[] = {"", "dl/d seeds", "dl/dW_K", "dl/dW_V"};
  for (std::size_t i = 1; i < 4; ++i) claim.equal(names[i], moved.gradients[i], plain.gradients[i]);
  claim.differs("the claim dl/dZ_(P) = dl/dZ", moved.gradients[0], plain.gradients[0]);
  return claim;
}

} // namespace

std::vector<Identity> model_identities() {
  using enum ClaimKind;
  return {
      {"thm10.1", "parameters outside the encoder", "CVPR", "78-80", identity, Gate::one_pass,
       "Patch embedding, class token, position embedding, final norm and head have the same gradients with and without "
       "permutation.",
       R"(\frac{\partial l}{\partial \theta_{(P)}} = \frac{\partial l}{\partial \theta},\ \theta \in F_1, F_2)",
       edge_parameters},
      {"eq78", "what enters the encoder", "CVPR", "78", identity, Gate::one_pass,
       "The encoder gets the permuted embedding.", R"(Z_{(P)} = P_R Z_{0(P)} P_C)", permuted_embedding},
      {"eq79", "the gradient to the embedding", "CVPR", "79", identity, Gate::one_pass,
       "Before the permutation the gradient is the plain one.",
       R"(\frac{\partial l}{\partial Z_{0(P)}} = \frac{\partial l}{\partial Z_0})", embedding_gradient},
      {"eq80", "its derivation", "CVPR", "80", identity, Gate::one_pass,
       "Behind the permutation the gradient moves with P_R and P_C, and comes back with their transposes.",
       R"(\frac{\partial l}{\partial Z_{0(P)}} = \frac{\partial l}{\partial Z} = \frac{\partial l}{\partial Z_0})",
       embedding_gradient_chain},
      {"fold", "P_C folded into the edges", "", "", law, Gate::one_pass,
       "With P_C in patch embedding, class token, position embedding, final norm and classifier the model is "
       "unchanged, images to logits.",
       R"(F_{2(C)} \circ \mathrm{Enc}_{(C)} \circ F_{1(C)} = F_2 \circ \mathrm{Enc} \circ F_1)", folded_model},
      {"cls-note", "the class token is a row", "CVPR", "", identity, Gate::one_pass,
       "P_R acts on all rows, the class token among them, and is undone before the head; a mean-pooling head does "
       "without.",
       R"(F_2(P_R^\top \mathrm{Enc}(P_R Z)) = F_2(\mathrm{Enc}(Z)))", class_token},
      {"pma", "pooling by attention", "CVPR", "", erratum, Gate::one_pass,
       "For a row-invariant f the gradient to Z is row-equivariant and weight gradients are row-invariant; section 4.2 "
       "claims that the gradient to Z does not move, and that weight gradients are misaligned.",
       R"(f(P_R Z) = f(Z) \Rightarrow \frac{\partial l}{\partial Z_{(P)}} = P_R \frac{\partial l}{\partial Z})",
       pooling_by_attention},
  };
}

} // namespace eg::permute
