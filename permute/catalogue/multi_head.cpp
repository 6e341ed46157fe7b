// Multi-head attention and whole encoder blocks: theorems 4.1, 4.2, 4.4, 4.5, 4.7, lemma 4.8, and the gradients that
// the papers leave out.

#include "permute/catalogue/stack.h"

#include <fmt/format.h>

namespace eg::permute {
namespace {

/// Equal outputs, state by state, and equal gradients to Z.
void compare_values(Claim& claim, const StackTwins& t) {
  claim.equal("output", t.permuted.output, t.plain.output);
  claim.equal("dl/dZ", t.permuted.input_gradient, t.plain.input_gradient);
}

/// Output of a stack whose weights `key` has moved, permuted back by `permuting`.
Tensor output_with(const StackTwins& t, const BlocksKey& key, const Permuting& permuting) {
  return permuting.leave((*permuted_copy(*t.plain_stack, key))(permuting.enter(t.z)));
}

/// The weight or bias of Q (0), K (1) or V (2) out of the fused projection.
Tensor part_of(const Tensor& qkv, std::int64_t which) {
  const std::int64_t inner = qkv.size(0) / 3;
  return qkv.slice(0, which * inner, (which + 1) * inner).contiguous();
}

/// A permutation that splits heads: not in S_head_dim wr S_heads.
Permutation splitting(Case& c, const nn::BlockConfig& config) {
  return c.permutation_that(config.dim,
                            [&](const Permutation& p) { return !is_block_permutation(p, config.head_dim); });
}

BlocksKey tied_to(const nn::BlockConfig& config, std::int64_t layers, const Permutation& p) {
  BlocksKey key = BlocksKey::identity(config, layers);
  key.residual = p;
  for (BlockKey& block : key.blocks) block.qk = block.v = p;
  return key;
}

void control_any_tied(Claim& claim, Case& c, const StackTwins& t) {
  const BlocksKey any = tied_to(t.config, c.options.layers, splitting(c, t.config));
  claim.differs("a tied P_C that splits heads", output_with(t, any, {{}, &any.residual}), t.plain.output);
}

Claim tied_is_valid(Case& c) {
  const auto t = run_stack_twins(c, KeyForm::tied, true);
  Claim claim;
  compare_values(claim, *t);
  compare_gradients(claim, c, *t, KeyForm::tied);
  claim.fails.clear();
  const BlocksKey paper = BlocksKey::random(t->config, c.options.layers, KeyForm::paper, c.key());
  claim.equal("the papers' keys, one within-head permutation for all heads",
              output_with(*t, paper, {{}, &paper.residual}), t->plain.output);
  control_any_tied(claim, c, *t);
  search_tied(c, claim);
  return claim;
}

Claim decoupled_is_valid(Case& c) {
  const auto t = run_stack_twins(c, KeyForm::decoupled, true, c.options.dim / c.options.heads + 1);
  Claim claim;
  compare_values(claim, *t);
  compare_gradients(claim, c, *t, KeyForm::decoupled);
  claim.fails.clear();
  BlocksKey wrong = t->key;
  // the same within-head permutations, but V's heads moved by one more place
  for (BlockKey& block : wrong.blocks) {
    std::vector<std::int64_t> rotated;
    for (std::int64_t i = 0; i < block.v.size(); ++i)
      rotated.push_back(block.v[(i + t->config.head_dim) % block.v.size()]);
    block.v = Permutation(rotated);
  }
  claim.differs("other head maps for V than for Q and K", output_with(*t, wrong, t->permuting), t->plain.output);
  return claim;
}

Claim rows_forward(Case& c) {
  Claim claim;
  for (const bool pre_norm : {true, false}) {
    nn::BlockConfig config = encoder_config(c);
    config.pre_norm = pre_norm;
    const auto stack = draw_stack(c, config);
    const Tensor z = c.normal({c.options.batch, c.options.tokens, c.options.dim}), rows = c.rows();
    const Tensor moved = (*stack)(permute_rows(z, rows)), y = (*stack)(z);
    claim.equal(pre_norm ? "norm before" : "norm after", moved, permute_rows(y, rows));
    claim.differs("outputs in the plain order", moved, y);
  }
  return claim;
}

Claim rows_backward(Case& c) {
  const nn::BlockConfig config = encoder_config(c);
  const auto stack = draw_stack(c, config);
  const Shape shape{c.options.batch, c.options.tokens, c.options.dim};
  const Tensor z = c.normal(shape), g = c.normal(shape), rows = c.rows();
  const StackPass plain = run_stack(*stack, z, g), moved = run_stack(*stack, z, g, {rows, nullptr, true}),
                  left = run_stack(*stack, z, g, {rows, nullptr, false});
  Claim claim;
  for (std::size_t i = 0; i < plain.gradients.size(); ++i) {
    const auto& [name, expected] = plain.gradients[i];
    claim.equal("dl/d " + name, moved.gradients[i].second, expected);
    claim.differs("outputs not permuted back before the loss", left.gradients[i].second, expected);
  }
  return claim;
}

/// Enc_(C)(Z P_C) = Enc(Z) P_C.
Claim columns_forward(Case& c, KeyForm form) {
  const auto t = run_stack_twins(c, form, false);
  Claim claim;
  claim.equal("Enc_(C)(Z P_C)", t->permuted.states.back(), t->key.apply_columns(t->plain.output));
  control_any_tied(claim, c, *t);
  return claim;
}

/// A key applied to some of the parameters only: those whose name contains one of `parts`.
Tensor output_with_parts(const StackTwins& t, std::initializer_list<std::string_view> parts) {
  AxisMap axes;
  for (const ParameterAxes& entry : stack_axes(static_cast<std::int64_t>(t.key.blocks.size())))
    for (const std::string_view part : parts)
      if (entry.parameter.find(part) != std::string::npos) axes.push_back(entry);
  BlockStack stack(t.config, static_cast<std::int64_t>(t.key.blocks.size()), t.z.dtype());
  stack.load_state_dict(transform(t.plain_stack->state_dict(), axes, t.key.permutations(t.config)));
  return t.permuting.leave(stack(t.permuting.enter(t.z)));
}

Claim columns_without(Case& c, const char* control, std::initializer_list<std::string_view> moved) {
  const auto t = run_stack_twins(c, KeyForm::tied, false);
  Claim claim;
  claim.equal("Enc_(C)(Z P_C) P_C^-1", t->permuted.output, t->plain.output);
  claim.differs(control, output_with_parts(*t, moved), t->plain.output);
  return claim;
}

Claim tied_gradients(Case& c) {
  const auto t = run_stack_twins(c, KeyForm::tied, true);
  Claim claim;
  compare_gradients(claim, c, *t, KeyForm::tied, "qkv.weight");
  compare_gradients(claim, c, *t, KeyForm::tied, "proj.weight");
  return claim;
}

Claim projection_gradient(Case& c, std::int64_t which) {
  const auto t = run_stack_twins(c, KeyForm::tied, true);
  Claim claim;
  for (std::int64_t layer = 0; layer < c.options.layers; ++layer) {
    const std::string name = fmt::format("blocks.{}.attention.qkv.weight", layer);
    const Tensor plain = part_of(named(t->plain.gradients, name), which);
    const Tensor permuted = part_of(named(t->permuted.gradients, name), which);
    const Permutation &p = t->key.residual, wrong = c.another(p);
    claim.equal(name, permuted, p.apply(p.apply(plain, 0), 1));
    claim.differs("another P_C on the input side", permuted, wrong.apply(p.apply(plain, 0), 1));
  }
  return claim;
}

Claim parameter_gradient(Case& c, std::string_view part) {
  const auto t = run_stack_twins(c, KeyForm::tied, true);
  Claim claim;
  compare_gradients(claim, c, *t, KeyForm::tied, part);
  return claim;
}

/// What the papers leave out: W_O, every bias, gamma and beta, in the decoupled form; and dl/db_K = 0.
Claim remaining_gradients(Case& c) {
  const auto t = run_stack_twins(c, KeyForm::decoupled, true, c.options.dim / c.options.heads + 1);
  Claim claim;
  for (const char* part : {"proj.weight", "bias", "norm1.weight", "norm2.weight"})
    compare_gradients(claim, c, *t, KeyForm::decoupled, part);
  for (std::int64_t layer = 0; layer < c.options.layers; ++layer) {
    const Tensor bias = named(t->plain.gradients, fmt::format("blocks.{}.attention.qkv.bias", layer));
    double scale = 0.0;
    for (const double v : bias.to(DType::f64).to_vector<double>()) scale = std::max(scale, std::abs(v));
    claim.zero("dl/db_K = 0", part_of(bias, 1), scale);
  }
  return claim;
}

/// dl/dZ_i(P) = P_R dl/dZ_i P_C for the values between the blocks.
Claim state_gradients(Case& c) {
  const auto t = run_stack_twins(c, KeyForm::decoupled, true);
  const Permutation wrong = c.another(t->key.residual);
  Claim claim;
  for (std::size_t i = 0; i < t->plain.states.size(); ++i) {
    claim.equal(fmt::format("Z_{}", i), t->permuted.states[i], t->permuting.enter(t->plain.states[i]));
    claim.equal(fmt::format("dl/dZ_{}", i), t->permuted.state_gradients[i],
                t->permuting.enter(t->plain.state_gradients[i]));
    claim.differs("another P_C on the expected side", t->permuted.state_gradients[i],
                  Permuting{t->permuting.rows, &wrong, true}.enter(t->plain.state_gradients[i]));
  }
  return claim;
}

Claim weight_gradients(Case& c) {
  const auto t = run_stack_twins(c, KeyForm::decoupled, true, c.options.dim / c.options.heads + 1);
  Claim claim;
  compare_gradients(claim, c, *t, KeyForm::decoupled);
  return claim;
}

Claim backward_lemma(Case& c) {
  Claim claim = state_gradients(c);
  Claim weights = weight_gradients(c);
  for (Comparison& comparison : weights.holds) claim.holds.push_back(std::move(comparison));
  return claim;
}

} // namespace

std::vector<Identity> multi_head_identities() {
  using enum ClaimKind;
  const char* conjugate = R"(\frac{\partial l}{\partial W_{i(P)}} = P_C^\top \frac{\partial l}{\partial W_i} P_C)";
  const auto projection = [&](const char* id, const char* name, std::int64_t which) {
    return Identity{id,
                    fmt::format("the gradient to {} in whole blocks", name),
                    "CVPR",
                    "76",
                    identity,
                    Gate::one_pass,
                    "With several heads, norms, biases and the residual the rule stands, for block-structured P_C.",
                    conjugate,
                    [which](Case& c) { return projection_gradient(c, which); }};
  };
  return {
      {.id = "mh-valid",
       .title = "which tied permutations are valid",
       .paper = "CVPR",
       .kind = law,
       .statement = "For almost all W tied weights W' = P^T W P are valid exactly for P in S_dh wr S_h: within-head "
                    "permutations may differ from head to head, and heads may move.",
       .tex = R"(P \in S_{d_h} \wr S_h \iff W_{Q,K,V,O(P)} = P^\top W P \text{ is equivariant})",
       .run = tied_is_valid,
       .sharp = true},
      {"mh-decoupled", "any P_C with inner axes of their own", "", "", law, Gate::one_pass,
       "If the inner axes have block permutations of their own, with one head map for Q, K and V, P_C is free on the "
       "residual, and so is head_dim.",
       R"(W'_{Q,K} = \Pi_1^\top W P_C,\ W'_V = \Pi_2^\top W P_C,\ W'_O = P_C^\top W_O \Pi_2)", decoupled_is_valid},
      {"thm4.1", "rows, forward", "CVPR", "4.1", identity, Gate::one_pass,
       "Encoder blocks commute with a row permutation of each sample's own, with the norm before or after.",
       R"(\mathrm{Enc}(P_R Z) = P_R\, \mathrm{Enc}(Z))", rows_forward},
      {"thm4.2", "rows, backward", "CVPR", "3", identity, Gate::one_pass,
       "Gradients to all weights, biases, gammas and betas do not see the row permutation.",
       R"(\frac{\partial l}{\partial W_{(R)}} = \frac{\partial l}{\partial W})", rows_backward},
      {"thm4.4", "columns, forward", "CVPR", "5", erratum, Gate::one_pass,
       "Blocks with moved weights commute with P_C; \"any P_C\" holds in the decoupled form, and fails in the tied "
       "form "
       "that the theorem states.",
       R"(\mathrm{Enc}_{(C)}(Z P_C) = \mathrm{Enc}(Z) P_C)",
       [](Case& c) { return columns_forward(c, KeyForm::decoupled); }},
      {"eq5", "columns, forward, tied", "CVPR", "5", identity, Gate::one_pass,
       "In the tied form, for P_C in S_dh wr S_h.", R"(\mathrm{Enc}_{(C)}(Z P_C) = \mathrm{Enc}(Z) P_C)",
       [](Case& c) { return columns_forward(c, KeyForm::tied); }},
      {"eq6", "what the weights become", "CVPR", "6", erratum, Gate::one_pass,
       "The conjugation is right for W_Q, W_K, W_V, W_O; MLP, norms and biases follow Eq. 12 and 13.",
       R"(W_{(C)} = P_C^{-1} W P_C)",
       [](Case& c) {
         return columns_without(c, "attention weights alone moved", {"qkv.weight", "proj.weight"});
       }},
      {"eq12", "vectors follow the columns", "CVPR", "12", identity, Gate::one_pass,
       "gamma, beta and the biases become v P_C.", R"(v_{(C)} = v P_C)",
       [](Case& c) {
         return columns_without(c, "gamma, beta and biases left plain",
                                {"qkv.weight", "proj.weight", "fc1.weight", "fc2.weight"});
       }},
      {"eq13", "the MLP's weights", "CVPR", "13", identity, Gate::one_pass, "W_1 and W_2 move on their outer axes.",
       R"(W_{1(C)} = W_1 P_C,\quad W_{2(C)} = P_C^{-1} W_2)",
       [](Case& c) {
         return columns_without(c, "W_1 and W_2 left plain", {"qkv", "proj", "norm", "fc1.bias", "fc2.bias"});
       }},
      {"thm4.5", "columns, backward", "CVPR", "7", identity, Gate::one_pass,
       "Gradients to W_Q, W_K, W_V, W_O move as the weights do.",
       R"(\frac{\partial l}{\partial W_{(C)}} = P_C^{-1} \frac{\partial l}{\partial W} P_C)", tied_gradients},
      {"thm4.7", "rows and columns, backward", "CVPR", "8-11", identity, Gate::one_pass,
       "Through a stack of blocks the gradient to every parameter moves as the parameter does.",
       R"(\frac{\partial l}{\partial W_{i(P)}} = P_{out}^\top \frac{\partial l}{\partial W_i} P_{in})",
       weight_gradients},
      {"lem4.8", "gradients to features and weights", "CVPR", "8-11", identity, Gate::one_pass,
       "Between the blocks values and gradients move with P_R and P_C, and so do the gradients to all parameters.",
       R"(\frac{\partial l}{\partial Z_{i(P)}} = P_R \frac{\partial l}{\partial Z_i} P_C,\quad \frac{\partial l}{\partial W_{i(P)}} = P_{out}^\top \frac{\partial l}{\partial W_i} P_{in})",
       backward_lemma},
      projection("eq76-q", "W_Q", 0),
      projection("eq76-k", "W_K", 1),
      projection("eq76-v", "W_V", 2),
      {"eq77-w1", "the gradient to W_1 in whole blocks", "CVPR", "77", identity, Gate::one_pass,
       "As Eq. 68, with biases, norms and the residual.",
       R"(\frac{\partial l}{\partial W_{1(P)}} = \frac{\partial l}{\partial W_1} P_C)",
       [](Case& c) { return parameter_gradient(c, "fc1.weight"); }},
      {"eq77-w2", "the gradient to W_2 in whole blocks", "CVPR", "77", identity, Gate::one_pass,
       "As Eq. 66, with biases, norms and the residual.",
       R"(\frac{\partial l}{\partial W_{2(P)}} = P_C^\top \frac{\partial l}{\partial W_2})",
       [](Case& c) { return parameter_gradient(c, "fc2.weight"); }},
      {"grads-rest", "the gradients that the papers omit", "", "", law, Gate::one_pass,
       "W_O, all biases, gamma and beta move as the parameters do; without rotary positions the gradient to b_K is "
       "zero, because softmax does not see a shift of a row.",
       R"(\tfrac{\partial l}{\partial W_{O(P)}} = P_C^\top \tfrac{\partial l}{\partial W_O} \Pi_2,\ \tfrac{\partial l}{\partial b_{(P)}} = \tfrac{\partial l}{\partial b} P,\ \tfrac{\partial l}{\partial b_K} = 0)",
       remaining_gradients},
  };
}

} // namespace eg::permute
