// Parts that choose: mixtures of experts, dropout, dropped paths.

#include "permute/catalogue/stack.h"

#include "nn/moe.h"

#include <fmt/format.h>

namespace eg::permute {
namespace {

Claim experts(Case& c) {
  const std::int64_t n = 4 * c.options.tokens, d = c.options.dim;
  nn::MoeConfig config{.dim = d, .hidden = c.options.hidden, .experts = 4, .top_k = 2};
  nn::MixtureOfExperts dropless(config, RandomKey{});
  config.capacity_factor = 0.25; // less than the first choices need
  nn::MixtureOfExperts limited(config, RandomKey{});
  dropless.to(c.dtype);
  limited.to(c.dtype);
  draw_parameters(dropless, c);
  limited.load_state_dict(dropless.state_dict());
  const Tensor x = c.normal({n, d});
  const Permutation r = c.permutation(n);
  Claim claim;
  claim.equal("dropless routing", dropless(r.apply(x, 0)), r.apply(dropless(x), 0));
  claim.differs("experts with a capacity", limited(flip(x, {0})), flip(limited(x), {0}));
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

/// Capacity for every token is not a limit; less than the first choices need is one.
Claim capacity(Case& c) {
  const std::int64_t n = 4 * c.options.tokens, d = c.options.dim;
  nn::MoeConfig config{.dim = d, .hidden = c.options.hidden, .experts = 4, .top_k = 2};
  nn::MixtureOfExperts dropless(config, RandomKey{});
  config.capacity_factor = 2.0; // experts / top_k: an expert takes all tokens
  nn::MixtureOfExperts roomy(config, RandomKey{});
  config.capacity_factor = 0.25; // less than the first choices need
  nn::MixtureOfExperts limited(config, RandomKey{});
  for (nn::MixtureOfExperts* model : {&dropless, &roomy, &limited}) model->to(c.dtype);
  draw_parameters(dropless, c);
  roomy.load_state_dict(dropless.state_dict());
  limited.load_state_dict(dropless.state_dict());
  const Tensor x = c.normal({n, d});
  const Permutation r = c.permutation(n);
  Claim claim;
  claim.equal("room for all: permuted tokens", roomy(r.apply(x, 0)), r.apply(roomy(x), 0));
  claim.equal("room for all: as without a capacity", roomy(x), dropless(x));
  claim.differs("a quarter of the room that even choices need, tokens turned round", limited(flip(x, {0})),
                flip(limited(x), {0}));
  return claim;
}

/// Experts in another order, each with a hidden order of its own, on a permuted residual stream.
Claim expert_order(Case& c) {
  const std::int64_t n = 2 * c.options.tokens, d = c.options.dim, hidden = c.options.hidden, count = 4;
  const nn::MoeConfig config{.dim = d, .hidden = hidden, .experts = count, .top_k = 2};
  nn::MixtureOfExperts plain(config, RandomKey{}), moved(config, RandomKey{}), spoiled(config, RandomKey{});
  for (nn::MixtureOfExperts* model : {&plain, &moved, &spoiled}) model->to(c.dtype);
  draw_parameters(plain, c);
  const Permutation p = c.permutation(d), mu = c.directed_permutation(count);
  std::vector<Permutation> inner;
  for (std::int64_t e = 0; e < count; ++e) inner.push_back(c.permutation(hidden));
  std::map<std::string, Tensor> weights;
  for (const auto& [name, value] : plain.state_dict()) weights[name] = value;
  nn::StateDict state;
  for (const auto& [name, value] : plain.state_dict()) {
    if (name == "gate.weight") {
      state.emplace_back(name, mu.apply(p.apply(value, 1), 0));
      continue;
    }
    const std::size_t dot = name.find('.', 8); // experts.E.w1.weight
    const auto e = static_cast<std::size_t>(std::stoll(name.substr(8, dot - 8)));
    const Tensor& from = weights.at(fmt::format("experts.{}{}", mu[static_cast<std::int64_t>(e)], name.substr(dot)));
    const bool down = name.find(".w2.") != std::string::npos;
    state.emplace_back(name, down ? p.apply(inner[e].apply(from, 1), 0) : inner[e].apply(p.apply(from, 1), 0));
  }
  moved.load_state_dict(state);
  for (auto& [name, value] : state)
    if (name == "gate.weight") value = mu.inverse().apply(value, 0);
  spoiled.load_state_dict(state);
  const Tensor x = c.normal({n, d}), expected = p.apply(plain(x), 1);
  Claim claim;
  claim.sizes = {{"tokens", n}, {"experts", count}};
  claim.equal("router and experts in one other order", moved(p.apply(x, 1)), expected);
  claim.differs("experts without the router", spoiled(p.apply(x, 1)), expected);
  return claim;
}

/// A dropped path is drawn for each sample: what moves within samples keeps the draw, what moves samples takes it
/// along.
Claim dropped_paths(Case& c) {
  const std::int64_t samples = 8, n = c.options.tokens, d = c.options.dim;
  const Tensor x = c.normal({samples, n, d});
  const Tensor rows = row_permutations(samples, n, c.key());
  const Permutation p = c.permutation(d);
  RandomKey key;
  Permutation order;
  Tensor kept; // [samples, 1, 1]: 0 or 2
  do {
    key = c.key();
    order = c.permutation(samples);
    kept = drop_path(Tensor::ones({samples, 1, 1}, c.dtype), 0.5, key);
  } while (same_bits(kept, order.apply(kept, 0))); // this order would hide the difference
  const auto inside = [&](const Tensor& z) { return p.apply(permute_rows(z, rows), -1); };
  const Tensor y = drop_path(x, 0.5, key);
  Claim claim;
  claim.sizes = {{"batch", samples}};
  claim.equal_bits("P_R and P_C within samples, the same draw", drop_path(inside(x), 0.5, key), inside(y));
  claim.equal_bits("samples in another order, the draw moved along", order.apply(x, 0) * order.apply(kept, 0) + 0.0,
                   order.apply(y, 0) + 0.0); // -0 is 0
  claim.differs("samples in another order, the same draw", drop_path(order.apply(x, 0), 0.5, key), order.apply(y, 0));
  return claim;
}

} // namespace

std::vector<Identity> routing_identities() {
  using enum ClaimKind;
  return {
      {"moe", "mixtures of experts", "", "", law, Gate::one_pass,
       "Dropless routing passes permutations of tokens; experts with a capacity drop by place and do not.",
       R"(\mathrm{MoE}(P_R X) = P_R\, \mathrm{MoE}(X))", experts},
      {"moe-capacity", "experts with a capacity", "", "", law, Gate::one_pass,
       "With room for every token experts pass permutations of tokens; with too little room who is dropped depends "
       "on the order.",
       R"(\mathrm{load}_e \le C \text{ for all } e \Rightarrow \mathrm{MoE}_C = \mathrm{MoE})", capacity},
      {"moe-experts", "the order of experts", "", "", law, Gate::one_pass,
       "Experts may stand in an order that the router shares, each with a hidden permutation of its own.",
       R"(G' = P_e^\top G P_C,\quad W_{1,3}'^{(e)} = \Pi_e^\top W_{1,3}^{(\mu(e))} P_C,\quad W_2'^{(e)} = P_C^\top W_2^{(\mu(e))} \Pi_e)",
       expert_order},
      {"dropout", "dropout", "", "", law, Gate::bits,
       "Dropout passes a permutation when its mask moves along; the same draw again does not.",
       R"((P_R X P_C) \odot (P_R M P_C) = P_R (X \odot M) P_C)", dropout_masks},
      {"drop-path", "dropped paths", "", "", law, Gate::bits,
       "A path is dropped for all tokens of a sample: permutations within samples keep the draw, one of the samples "
       "moves it.",
       R"(\mathrm{DropPath}(P_R X_s P_C) = P_R\, \mathrm{DropPath}(X_s)\, P_C)", dropped_paths},
  };
}

} // namespace eg::permute
