// Paper 001 ("Shuffled Transformers for Blind Training"): its convention Z P^-1, its theorems, and keys that change.
// Each numbered equation of its appendix B on how a symbol is permuted is a line of a table.

#include "permute/catalogue/single_head.h"
#include "permute/catalogue/stack.h"
#include "permute/catalogue/symbol_rules.h"
#include "permute/catalogue/vit_case.h"

#include "autograd/tape.h"

namespace eg::permute {
namespace {

constexpr const char* paper = "001";

Claim convention(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Permutation p = c.directed_permutation(d), ours = from_paper001(p);
  const Tensor z = c.normal({n, d}), w = c.normal({d, d}), b = c.normal({d});
  std::vector<double> entries(static_cast<std::size_t>(d * d));
  for (std::int64_t j = 0; j < d; ++j)
    entries[static_cast<std::size_t>(p[j] * d + j)] = 1.0; // (X P)[:, j] = X[:, p[j]]
  const Tensor matrix = Tensor::from<double>(entries, {d, d}).to(c.dtype);
  const Tensor z_p = matmul(z, matrix, false, true), b_p = matmul(b.reshape({1, d}), matrix, false, true).reshape({d});
  const Tensor w_p = matmul(matmul(matrix, w), matrix, false, true);
  Claim claim;
  claim.equal_bits("Z P^-1 is our Z P_C", ours.apply(z, 1), z_p);
  claim.equal_bits("P W P^-1 is our P_C^T W P_C", ours.apply(ours.apply(w, 0), 1), w_p);
  claim.equal("a linear layer in that convention", linear(z_p, w_p, b_p), ours.apply(linear(z, w, b), 1));
  claim.differs("P itself for P_C", p.apply(z, 1), z_p);
  return claim;
}

Claim reencryption(Case& c) {
  const std::int64_t d = c.options.dim;
  const Tensor w = c.normal({d, d});
  const AxisMap axes{{"w", {"residual", "residual"}}};
  PermutationSet first, second;
  first.emplace("residual", c.directed_permutation(d));
  second.emplace("residual", c.another(first.at("residual")));
  const auto moved = [&](const Tensor& x, const PermutationSet& key) {
    return transform({{"w", x}}, axes, key)[0].second;
  };
  const Tensor once = moved(w, first), other = moved(w, second);
  Claim claim;
  claim.equal_bits("from one key to another, without the plain weights", moved(once, between(first, second)), other);
  claim.equal_bits("and back to the plain weights", moved(other, inverse(second)), w);
  claim.differs("the second key on top of the first", moved(once, second), other);
  return claim;
}

/// Row shuffle alone, on the square block that the paper proves its theorems for.
struct RowTwins {
  Permutation rows;
  Pass plain, shuffled, left; ///< left: the output stays shuffled
};

RowTwins run_row_twins(Case& c) {
  const Symbols inputs = draw_block(c, square_weights(c));
  const Tensor g = c.normal(inputs.at("Z").shape());
  RowTwins t{c.directed_permutation(g.size(0)), run_block(inputs, g), {}, {}};
  Symbols shuffled = inputs;
  shuffled["Z"] = t.rows.apply(inputs.at("Z"), 0);
  t.shuffled = run_block(shuffled, g, &t.rows);
  t.left = run_block(shuffled, g);
  return t;
}

Claim theorem_1(Case& c) {
  const RowTwins t = run_row_twins(c);
  Claim claim;
  claim.equal("Enc(P_R Z) = P_R Enc(Z)", t.shuffled.value.at("A2"), t.rows.apply(t.plain.value.at("A2"), 0));
  claim.equal("P_R^-1 Enc(P_R Z) = Enc(Z)", t.shuffled.value.at("A3"), t.plain.value.at("A3"));
  claim.differs("P_R^-1 left out", t.left.value.at("A3"), t.plain.value.at("A3"));
  return claim;
}

Claim theorem_2(Case& c) {
  const RowTwins t = run_row_twins(c);
  Claim claim;
  for (const char* w : {"WQ", "WK", "WV", "W1", "W2"}) {
    claim.equal(std::string("dl/d") + w, t.shuffled.gradient.at(w), t.plain.gradient.at(w));
    claim.differs("outputs not shuffled back before the loss", t.left.gradient.at(w), t.plain.gradient.at(w));
  }
  return claim;
}

Claim theorem_3(Case& c) {
  const BlockTwins t = run_conjugated_twins(c);
  const Tensor& plain = t.plain.value.at("A2");
  Claim claim;
  claim.equal("Enc_(P)(P_R Z P^-1)", t.permuted.value.at("A2"), both(plain, t.rows, t.columns));
  claim.equal("shuffled back (eq. 9)", t.permuted.value.at("A3"), plain);
  claim.differs("P for P^-1 on the expected side", t.permuted.value.at("A2"), both(plain, t.rows, t.columns.inverse()));
  return claim;
}

/// dl/dW_(P) = P dl/dW P^-1 for the weights named.
Claim theorem_4(Case& c, const std::vector<const char*>& weights) {
  const BlockTwins t = run_conjugated_twins(c);
  Claim claim;
  for (const char* w : weights) {
    const Tensor &value = t.permuted.gradient.at(w), plain = t.plain.gradient.at(w);
    claim.equal(std::string("dl/d") + w, value, both(plain, t.columns, t.columns));
    claim.differs("P^-1 dl/dW P", value, both(plain, t.columns.inverse(), t.columns.inverse()));
  }
  return claim;
}

/// b P^-1 and gamma P^-1 around a linear layer, forward and backward.
Claim vectors(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor z = c.normal({n, d}), w = c.normal({d, d}, 0.4), b = c.normal({d}), gamma = c.normal({d}, 0.3, 1.0),
               beta = c.normal({d}, 0.5), g = c.normal({n, d});
  const Permutation p = from_paper001(c.directed_permutation(d));
  const auto v = [&](const Tensor& x) { return p.apply(x, 0); };
  const auto run = [&](const Tensor& x, const Tensor& weight, const std::vector<Tensor>& vectors, const Tensor& g_x) {
    Tape tape;
    const Tensor y = linear(layer_norm(x, vectors[1], vectors[2]), weight, vectors[0]);
    std::vector<Tensor> all = tape.gradient(sum(g_x * gelu(y)), {vectors[0], vectors[1], vectors[2], weight});
    all.push_back(y);
    return all;
  };
  const Tensor z_p = p.apply(z, 1), w_p = p.apply(p.apply(w, 0), 1), g_p = p.apply(g, 1);
  const auto plain = run(z, w, {b, gamma, beta}, g), moved = run(z_p, w_p, {v(b), v(gamma), v(beta)}, g_p);
  const auto left = run(z_p, w_p, {b, gamma, beta}, g_p);
  Claim claim;
  const char* names[] = {"dl/db", "dl/dgamma", "dl/dbeta"};
  for (std::size_t i = 0; i < 3; ++i) claim.equal(names[i], moved[i], v(plain[i]));
  claim.equal("dl/dW", moved[3], p.apply(p.apply(plain[3], 0), 1));
  claim.equal("output", moved[4], p.apply(plain[4], 1));
  claim.differs("b and gamma not permuted, as in C.1's ablation", left[4], p.apply(plain[4], 1));
  return claim;
}

Claim key_is_needed(Case& c) {
  const BlockTwins t = run_conjugated_twins(c);
  Symbols unkeyed = t.permuted.value;
  unkeyed["Z"] = t.plain.value.at("Z");
  const Tensor plain = t.plain.value.at("A2");
  Claim claim;
  claim.equal("F'_(P)(M_Z(Z)) = M_Z(F'(Z))", t.permuted.value.at("A2"), both(plain, t.rows, t.columns));
  claim.differs("F'_(P)(Z), features without the key", run_block(unkeyed, t.g).value.at("A2"), plain);
  return claim;
}

/// Several heads, a wide MLP and a head_dim of its own: no weight is square.
Claim any_shape(Case& c) {
  const auto t = run_stack_twins(c, KeyForm::decoupled, true, c.options.dim / c.options.heads + 1);
  BlocksKey half = t->key; // W_1's rows move, W_2's columns do not
  const AxisMap axes = stack_axes(c.options.layers);
  nn::StateDict weights = transform(t->plain_stack->state_dict(), axes, half.permutations(t->config));
  for (BlockKey& block : half.blocks) block.hidden = Permutation::identity(block.hidden.size());
  const nn::StateDict plain_hidden = transform(t->plain_stack->state_dict(), axes, half.permutations(t->config));
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (weights[i].first.ends_with("fc2.weight")) weights[i].second = plain_hidden[i].second;
  BlockStack spoiled(t->config, c.options.layers, c.dtype);
  spoiled.load_state_dict(weights);
  Claim claim;
  claim.equal("output", t->permuted.output, t->plain.output);
  claim.equal("dl/dZ", t->permuted.input_gradient, t->plain.input_gradient);
  claim.differs("W_1 permuted on its hidden axis, W_2 not", t->permuting.leave(spoiled(t->permuting.enter(t->z))),
                t->plain.output);
  return claim;
}

/// Theorem 5 on a ViT: patch embedding, class token, positions, final norm and head.
Claim edge(Case& c) {
  const nn::VitConfig config = vit_config(c);
  const auto vit = draw_vit(c, config);
  const VitBatch batch = draw_batch(c, config);
  const BlocksKey key = BlocksKey::random(config.encoder, config.layers, KeyForm::tied, c.key());
  const auto moved_vit = vit_copy(*vit, &key);
  const auto gradients = [&](const nn::Vit& model, const Permuting& permuting) {
    Tape tape;
    const VitPass pass = run_vit(model, batch, permuting);
    std::vector<Tensor> xs = {pass.z0};
    for (const auto& [name, value] : model.state_dict())
      if (!name.starts_with("blocks.")) xs.push_back(value);
    return tape.gradient(pass.loss, xs);
  };
  const Permuting keyed{batch.rows, &key.residual, true};
  const std::vector<Tensor> plain = gradients(*vit, {}), moved = gradients(*moved_vit, keyed),
                            unkeyed = gradients(*vit, keyed);
  Claim claim;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    claim.equal(i == 0 ? "dl/dZ_0 (eq. 99, 100)" : "a parameter of the edge", moved[i], plain[i]);
    claim.differs("features shuffled without shuffling the weights", unkeyed[i], plain[i]);
  }
  return claim;
}

std::vector<Identity> theorems() {
  using enum ClaimKind;
  return {
      {"s1-thm1", "rows, forward", paper, "4", identity, Gate::one_pass,
       "The block with square weights commutes with a row shuffle.", R"(\mathrm{Enc}(P_R Z) = P_R\, \mathrm{Enc}(Z))",
       theorem_1},
      {"s1-thm2", "rows, backward", paper, "5", identity, Gate::one_pass,
       "Gradients to the five weights do not see the row shuffle.",
       R"(\frac{\partial l}{\partial W_{(R)}} = \frac{\partial l}{\partial W})", theorem_2},
      {"s1-thm3", "rows and columns, forward", paper, "6", identity, Gate::one_pass,
       "With P W P^-1 for every weight, the block commutes with row and column shuffle.",
       R"(\mathrm{Enc}_{(P)}(P_R Z P_C^{-1}) = P_R\, \mathrm{Enc}(Z)\, P_C^{-1})", theorem_3},
      {"s1-thm4", "columns, backward", paper, "7", identity, Gate::one_pass,
       "Gradients to the five weights move as the weights do.",
       R"(\frac{\partial l}{\partial W_{(P)}} = P_C \frac{\partial l}{\partial W} P_C^{-1})",
       [](Case& c) {
         return theorem_4(c, {"WQ", "WK", "WV", "W1", "W2"});
       }},
      {"s1-eq97", "the rule for all five weights", paper, "97", identity, Gate::one_pass,
       "One rule for the square MLP and the projections; the wide MLP of the later paper needs two.",
       R"(\frac{\partial l}{\partial W_{i(P)}} = P_C \frac{\partial l}{\partial W_i} P_C^\top,\quad i \in \{1, 2, Q, K, V\})",
       [](Case& c) {
         return theorem_4(c, {"W1", "W2", "WQ", "WK", "WV"});
       }},
      {"s1-thm5", "parameters of the edge", paper, "98-100", identity, Gate::one_pass,
       "Parameters before and behind the encoder have the same gradients with and without shuffling.",
       R"(\frac{\partial l}{\partial Z_{0(P)}} = \frac{\partial l}{\partial Z_0})", edge},
      {"s1-eq10", "biases and norm weights", paper, "10", identity, Gate::one_pass,
       "b and gamma move with the columns, and so do their gradients; left as they are they spoil the output (C.1).",
       R"(b_{(P)} = b P_C^{-1},\quad \gamma_{(P)} = \gamma P_C^{-1})", vectors},
      {"s1-eq11", "features without the key", paper, "11", identity, Gate::one_pass,
       "The keyed block gives the shuffled result for shuffled features, and something else for plain ones.",
       R"(F'_{(P)}(M_Z(Z)) = M_Z(F'(Z)))", key_is_needed},
      {"s1-square", "weights of any shape", paper, "10", law, Gate::one_pass,
       "Eq. 10 has one permutation on both sides, so square weights; with a permutation for each axis every shape "
       "passes.",
       R"(W_{(P)} = P_{out}^\top W P_{in},\quad W \in \mathbb{R}^{m \times n})", any_shape},
  };
}

std::vector<SymbolRule> row_shuffle_rules() {
  using Of = SymbolRule::Of;
  return {{"s1-eq41", "41", "A2", Of::gradient, 'R', '-'}, {"s1-eq45", "45", "W2", Of::gradient, '-', '-'},
          {"s1-eq46", "46", "H", Of::gradient, 'R', '-'},  {"s1-eq47", "47", "A1", Of::gradient, 'R', '-'},
          {"s1-eq48", "48", "W1", Of::gradient, '-', '-'}, {"s1-eq49", "49", "A", Of::gradient, 'R', '-'},
          {"s1-eq50", "50", "S", Of::gradient, 'R', 'R'},  {"s1-eq51", "51", "Q", Of::gradient, 'R', '-'},
          {"s1-eq52", "52", "K", Of::gradient, 'R', '-'},  {"s1-eq54", "54", "WQ", Of::gradient, '-', '-'},
          {"s1-eq55", "55", "WK", Of::gradient, '-', '-'}, {"s1-eq59", "59", "V", Of::gradient, 'R', '-'},
          {"s1-eq62", "62", "WV", Of::gradient, '-', '-'}};
}

std::vector<SymbolRule> column_shuffle_rules() {
  using Of = SymbolRule::Of;
  return {{"s1-eq66", "66", "Q", Of::value, 'R', 'C'},     {"s1-eq67", "67", "K", Of::value, 'R', 'C'},
          {"s1-eq68", "68", "V", Of::value, 'R', 'C'},     {"s1-eq73", "73", "S", Of::value, 'R', 'R'},
          {"s1-eq77", "77", "A", Of::value, 'R', 'C'},     {"s1-eq81", "81", "A1", Of::value, 'R', 'C'},
          {"s1-eq82", "82", "A2", Of::value, 'R', 'C'},    {"s1-eq83", "83", "H", Of::value, 'R', 'C'},
          {"s1-eq86", "86", "A2", Of::gradient, 'R', 'C'}, {"s1-eq87", "87", "W2", Of::gradient, 'C', 'C'},
          {"s1-eq88", "88", "A1", Of::gradient, 'R', 'C'}, {"s1-eq89", "89", "W1", Of::gradient, 'C', 'C'},
          {"s1-eq90", "90", "A", Of::gradient, 'R', 'C'},  {"s1-eq91", "91", "S", Of::gradient, 'R', 'R'},
          {"s1-eq92", "92", "K", Of::gradient, 'R', 'C'},  {"s1-eq93", "93", "WQ", Of::gradient, 'C', 'C'},
          {"s1-eq94", "94", "WK", Of::gradient, 'C', 'C'}, {"s1-eq95", "95", "V", Of::gradient, 'R', 'C'},
          {"s1-eq96", "96", "WV", Of::gradient, 'C', 'C'}};
}

} // namespace

std::vector<Identity> paper001_identities() {
  using enum ClaimKind;
  std::vector<Identity> rows = {
      {"s1-conv", "paper 001's convention", "001", "4-7", identity, Gate::one_pass,
       "Paper 001 writes its column permutation on the other side: its P is the inverse of ours.",
       R"(Z P^{-1},\ W_{(P)} = P W P^{-1},\ b_{(P)} = b P^{-1},\quad P = P_C^{-1})", convention},
      {"s1-reenc", "from one key to another", "001", "", identity, Gate::bits,
       "Weights go from one key to another without passing through the plain ones, and back to them bit for bit.",
       R"(W_{(P')} = (P' P^{-1}) W_{(P)} (P' P^{-1})^{-1})", reencryption},
  };
  for (Identity& row : theorems()) rows.push_back(std::move(row));
  for (const SymbolRule& rule : row_shuffle_rules()) rows.push_back(row_shuffle_identity(rule));
  for (const SymbolRule& rule : column_shuffle_rules()) rows.push_back(identity_of(rule, Convention::paper001));
  return rows;
}

} // namespace eg::permute
