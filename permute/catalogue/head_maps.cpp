// Whole heads may move, all of Q, K, V and W_O alike: what happens when one of them moves otherwise. And two of the
// gradients that the papers leave out, by themselves.

#include "permute/catalogue/stack.h"

#include <cmath>
#include <fmt/format.h>

namespace eg::permute {
namespace {

/// The rows of one head moved to the next head's place.
Tensor next_head(const Tensor& x, std::int64_t head_dim) { return roll(x, {head_dim}, {0}); }

/// Moves the heads of Q, K or V (0, 1, 2) by one place in every block's fused projection, weight and bias.
nn::StateDict with_heads_moved(const nn::StateDict& weights, std::int64_t which, std::int64_t head_dim) {
  nn::StateDict moved = weights;
  for (auto& [name, value] : moved) {
    if (name.find("qkv.") == std::string::npos) continue;
    std::vector<Tensor> parts = chunk(value, 3, 0);
    parts[static_cast<std::size_t>(which)] = next_head(parts[static_cast<std::size_t>(which)], head_dim);
    value = concat(parts, 0);
  }
  return moved;
}

/// The permuted stack as its key has it, and with one of Q, K, V on another head map.
Claim head_map(Case& c, std::int64_t which) {
  const auto t = run_stack_twins(c, KeyForm::decoupled, true);
  const auto keyed = permuted_copy(*t->plain_stack, t->key);
  BlockStack spoiled(t->config, c.options.layers, c.dtype);
  spoiled.load_state_dict(with_heads_moved(keyed->state_dict(), which, t->config.width_of_head()));
  nn::StateDict all = keyed->state_dict();
  for (const std::int64_t part : {0, 1, 2}) all = with_heads_moved(all, part, t->config.width_of_head());
  for (auto& [name, value] : all) // W_O's columns follow the heads
    if (name.ends_with("proj.weight")) value = roll(value, {t->config.width_of_head()}, {1});
  BlockStack together(t->config, c.options.layers, c.dtype);
  together.load_state_dict(all);
  const auto output = [&](const BlockStack& stack) { return t->permuting.leave(stack(t->permuting.enter(t->z))); };
  Claim claim;
  claim.equal("one head map for Q, K and V", t->permuted.output, t->plain.output);
  claim.equal("heads of Q, K, V and W_O moved on together", output(together), t->plain.output);
  claim.differs(which == 1 ? "K's heads moved on alone" : "V's heads moved on alone", output(spoiled), t->plain.output);
  return claim;
}

/// dl/dW_O in the tied form, P^T dl/dW_O P.
Claim output_projection(Case& c) {
  const auto t = run_stack_twins(c, KeyForm::tied, true);
  const Permutation& p = t->key.residual;
  const Permutation wrong = c.another(p);
  Claim claim;
  for (std::int64_t layer = 0; layer < c.options.layers; ++layer) {
    const std::string name = fmt::format("blocks.{}.attention.proj.weight", layer);
    const Tensor &plain = named(t->plain.gradients, name), moved = named(t->permuted.gradients, name);
    claim.equal(name, moved, p.apply(p.apply(plain, 0), 1));
    claim.differs("another P on W_O's columns", moved, wrong.apply(p.apply(plain, 0), 1));
  }
  return claim;
}

/// dl/db_K is zero; dl/db_Q and dl/db_V are not.
Claim key_bias(Case& c) {
  const auto t = run_stack_twins(c, KeyForm::tied, true);
  Claim claim;
  for (const StackPass* pass : {&t->plain, &t->permuted})
    for (std::int64_t layer = 0; layer < c.options.layers; ++layer) {
      const Tensor bias = named(pass->gradients, fmt::format("blocks.{}.attention.qkv.bias", layer));
      const std::vector<Tensor> parts = chunk(bias, 3, 0);
      const double scale = max(abs(bias), 0).to(DType::f64).item();
      claim.zero("dl/db_K", parts[1].clone(), scale);
      claim.control = "dl/db_Q";
      claim.fails.push_back({claim.control, parts[0].clone(), Tensor::zeros(parts[0].shape(), c.dtype), scale, false});
    }
  return claim;
}

} // namespace

std::vector<Identity> head_map_identities() {
  using enum ClaimKind;
  return {
      {"mh-heads-k", "K's heads follow Q's", "", "", law, Gate::one_pass,
       "Whole heads move if Q, K, V and W_O move them alike; K's heads moved without Q's break the scores.",
       R"(S_h = \mathrm{softmax}(Q_{\mu(h)} K_{\mu(h)}^\top / \sqrt{d_h}))", [](Case& c) { return head_map(c, 1); }},
      {"mh-heads-v", "V's heads follow Q's and K's", "", "", law, Gate::one_pass,
       "S of a head multiplies V of the same head: V's heads moved without Q's and K's break the output.",
       R"(A_h = S_{\mu(h)} V_{\mu(h)})", [](Case& c) { return head_map(c, 2); }},
      {"grads-rest-o", "the gradient to W_O, tied", "CVPR", "", identity, Gate::one_pass,
       "Omitted in section 10.2 as similar: in the tied form W_O's gradient moves as those of W_Q, W_K and W_V.",
       R"(\frac{\partial l}{\partial W_{O(P)}} = P_C^\top \frac{\partial l}{\partial W_O} P_C)", output_projection},
      {"grads-rest-bk", "the gradient to b_K", "", "", law, Gate::one_pass,
       "Softmax does not see a shift of a row, so the gradient to b_K is zero; that to b_Q is not.",
       R"(\frac{\partial l}{\partial b_K} = 0)", key_bias},
  };
}

} // namespace eg::permute
