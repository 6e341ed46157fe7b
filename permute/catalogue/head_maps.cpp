// Checks what happens when the heads of Q, K, V and W_O do not move alike, the gradients to W_O and b_K, and which tied
// permutations several heads allow, by trying all of S_6.

#include "permute/catalogue/stack.h"

#include "autograd/tape.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

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

/// Without rotary positions dl/db_K is zero; dl/db_Q and dl/db_V are not.
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

/// Turns x [T, d] by its positions.
Tensor turned_by(const Tensor& x, const Tensor& positions) {
  return rotary(x.reshape({1, x.size(0), 1, x.size(1)}), positions).reshape(x.shape());
}

/// The scores of query i are R_i q_i . R_j (k_j + b): what b adds depends on j, so softmax sees it.
Claim rotary_key_bias(Case& c) {
  const std::int64_t n = c.options.tokens, d = 2 * (c.options.dim / 2);
  const Tensor q = c.normal({n, d}), k = c.normal({n, d}), v = c.normal({n, d}), g = c.normal({n, d}),
               bias = c.normal({d}), positions = Tensor::arange(n);
  const Tensor backward = (positions.to(c.dtype) * -1.0).to(DType::i64);
  Claim claim;
  Tape tape;
  const Tensor keys = turned_by(k + bias, positions);
  const Tensor y = scaled_dot_product_attention(turned_by(q, positions), keys, v);
  const std::vector<Tensor> gradients = tape.gradient(y, {bias, keys, q}, g);
  tape.close();
  const double scale = amax(abs(gradients[2]), {0, 1}).to(DType::f64).item();
  claim.equal("dl/db_K", gradients[0], sum(turned_by(gradients[1], backward), {0}));
  Tape unturned;
  const Tensor z = scaled_dot_product_attention(q, k + bias, v);
  claim.zero("dl/db_K without positions", unturned.gradient(z, {bias}, g)[0], scale);
  unturned.close();
  claim.control = "dl/db_K = 0 under rotary positions";
  claim.fails.push_back({claim.control, gradients[0], Tensor::zeros({d}, c.dtype), scale, false});
  return claim;
}

/// x P for every P of `gathers` [count, d], along the last axis of x [..., d]: [count, ..., d].
Tensor moved_by_all(const Tensor& x, const Tensor& gathers) {
  const Shape shape{gathers.size(0), x.size(1), x.size(0)};
  return transpose(permute_rows(transpose(x, 0, 1).expand(shape).contiguous(), gathers), 1, 2).contiguous();
}

/// Attention without biases on x [count, T, d]; weights [count, d, d].
Tensor attend(const Tensor& x, const std::array<Tensor, 4>& w, std::int64_t heads) {
  const std::int64_t count = x.size(0), n = x.size(1), d = x.size(2);
  const auto split = [&](const Tensor& weight) {
    return transpose(matmul(x, weight, false, true).reshape({count, n, heads, d / heads}), 1, 2).contiguous();
  };
  const Tensor y = scaled_dot_product_attention(split(w[0]), split(w[1]), split(w[2]));
  return matmul(transpose(y, 1, 2).contiguous().reshape({count, n, d}), w[3], false, true);
}

} // namespace

void search_tied(Case& c, Claim& claim) {
  constexpr std::int64_t d = 6, n = 5;
  constexpr int draws = 50;
  std::vector<std::int64_t> order(d), all;
  std::iota(order.begin(), order.end(), std::int64_t{0});
  do all.insert(all.end(), order.begin(), order.end());
  while (std::next_permutation(order.begin(), order.end()));
  const auto count = static_cast<std::int64_t>(all.size()) / d;
  const Tensor gathers = Tensor::from<std::int64_t>(all, {count, d});
  std::vector<double> valid, wanted;
  for (int draw = 0; draw < draws; ++draw) {
    const std::int64_t heads = 2 + draw % 2;
    const Tensor x = c.normal({n, d});
    std::array<Tensor, 4> plain, moved;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const Tensor w = c.normal({d, d}, 0.5);
      plain[i] = w.reshape({1, d, d});
      moved[i] =
          transpose(
              permute_rows(transpose(permute_rows(w.expand({count, d, d}).contiguous(), gathers), 1, 2).contiguous(),
                           gathers),
              1, 2)
              .contiguous();
    }
    const Tensor expected = moved_by_all(attend(x.reshape({1, n, d}), plain, heads).reshape({n, d}), gathers);
    const Tensor value = attend(moved_by_all(x, gathers), moved, heads);
    const std::vector<double> apart =
        (amax(abs(value - expected), {1, 2}) / max(abs(expected.reshape({-1})), 0)).to(DType::f64).to_vector<double>();
    valid.push_back(static_cast<double>(std::count_if(apart.begin(), apart.end(), [](double e) { return e < 1e-4; })));
    wanted.push_back(heads == 2 ? 72.0 : 48.0); // 3!^2 2!, 2!^3 3!
  }
  claim.equal_bits("valid permutations of S_6, draw by draw", Tensor::from<double>(valid, {draws}),
                   Tensor::from<double>(wanted, {draws}));
  claim.candidates = draws * count;
}

std::vector<Identity> head_map_identities() {
  using enum ClaimKind;
  return {
      {"mh-heads-k", "K's heads follow Q's", "", "", law, Gate::one_pass,
       "Heads move if Q, K, V and W_O move them alike; K's heads moved without Q's break the scores.",
       R"(S_h = \mathrm{softmax}(Q_{\mu(h)} K_{\mu(h)}^\top / \sqrt{d_h}))", [](Case& c) { return head_map(c, 1); }},
      {"mh-heads-v", "V's heads follow Q's and K's", "", "", law, Gate::one_pass,
       "S of a head multiplies V of the same head: V's heads moved without Q's and K's break the output.",
       R"(A_h = S_{\mu(h)} V_{\mu(h)})", [](Case& c) { return head_map(c, 2); }},
      {"grads-rest-o", "the gradient to W_O, tied", "CVPR", "", identity, Gate::one_pass,
       "Omitted in section 10.2 as similar: in the tied form W_O's gradient moves as those of W_Q, W_K and W_V.",
       R"(\frac{\partial l}{\partial W_{O(P)}} = P_C^\top \frac{\partial l}{\partial W_O} P_C)", output_projection},
      {"grads-rest-bk", "the gradient to b_K", "", "", law, Gate::one_pass,
       "Softmax does not see a shift of a row, so without rotary positions the gradient to b_K is zero; that to b_Q is "
       "not.",
       R"(\frac{\partial l}{\partial b_K} = 0)", key_bias},
      {"bk-rotary", "the gradient to b_K under rotary positions", "", "", law, Gate::one_pass,
       "Rotary positions turn b_K by each key's position, so its gradient is not zero: it is the sum of the keys' "
       "gradients, turned back.",
       R"(\frac{\partial l}{\partial b_K} = \sum_j R_j^\top \frac{\partial l}{\partial (R_j k_j)} \ne 0)",
       rotary_key_bias},
  };
}

} // namespace eg::permute
