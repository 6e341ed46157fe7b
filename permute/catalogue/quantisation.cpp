// Block quantisation: numbers share a scale with their block, so only permutations that keep blocks together pass.

#include "permute/catalogue/case.h"

namespace eg::permute {
namespace {

constexpr std::int64_t block = 4;

/// x [..., k block] with a scale for each block of the last axis: round(x / scale) scale, 15 levels.
Tensor quantised(const Tensor& x) {
  const Tensor blocks = x.reshape({-1, block});
  const Tensor scale = amax(abs(blocks), {1}, true) / 7.0;
  return (round(blocks / scale) * scale).reshape(x.shape());
}

/// With a scale and a minimum for each block, 16 levels.
Tensor quantised_from_minimum(const Tensor& x) {
  const Tensor blocks = x.reshape({-1, block});
  const Tensor least = amin(blocks, {1}, true), scale = (amax(blocks, {1}, true) - least) / 15.0;
  return (round((blocks - least) / scale) * scale + least).reshape(x.shape());
}

struct Columns {
  std::int64_t width;
  Permutation keeping;   ///< in S_block wr S_k
  Permutation splitting; ///< not

  explicit Columns(Case& c) : width(block * std::max<std::int64_t>(2, c.options.dim / block)) {
    std::vector<Permutation> within;
    for (std::int64_t i = 0; i < width / block; ++i) within.push_back(c.permutation(block));
    keeping = block_permutation(c.permutation(width / block), within);
    splitting = c.permutation_that(width, [](const Permutation& p) { return !is_block_permutation(p, block); });
  }
};

Claim blocks(Case& c) {
  const Columns columns(c);
  const Tensor x = c.normal({c.options.tokens, columns.width});
  const auto moved = [&](const Tensor& z) { return columns.keeping.apply(z, 1); };
  Claim claim;
  claim.sizes = {{"columns", columns.width}, {"block", block}};
  claim.equal_bits("a scale for each block", quantised(moved(x)), moved(quantised(x)));
  claim.equal_bits("a scale and a minimum", quantised_from_minimum(moved(x)), moved(quantised_from_minimum(x)));
  claim.differs("columns that leave their block", quantised(columns.splitting.apply(x, 1)),
                columns.splitting.apply(quantised(x), 1));
  return claim;
}

Claim quantised_linear(Case& c) {
  const Columns columns(c);
  const std::int64_t out = c.options.hidden;
  const Tensor x = c.normal({c.options.tokens, columns.width}), w = c.normal({out, columns.width}, 0.4);
  const Permutation p_out = c.permutation(out);
  const auto f = [&](const Permutation& p) { return linear(p.apply(x, 1), quantised(p_out.apply(p.apply(w, 1), 0))); };
  const Tensor expected = p_out.apply(linear(x, quantised(w)), 1);
  Claim claim;
  claim.sizes = {{"columns", columns.width}, {"block", block}};
  claim.equal("inputs that keep their blocks, outputs anyhow", f(columns.keeping), expected);
  claim.differs("inputs that leave their block", f(columns.splitting), expected);
  return claim;
}

} // namespace

std::vector<Identity> quantisation_identities() {
  using enum ClaimKind;
  return {
      {"quant-blocks", "block quantisation", "", "", law, Gate::bits,
       "Numbers with a scale for each block pass, bit for bit, the permutations that keep blocks together; others "
       "change "
       "the scales.",
       R"(\mathrm{q}(X P) = \mathrm{q}(X) P,\quad P \in S_b \wr S_k)", blocks},
      {"quant-linear", "a layer with block-quantised weights", "", "", law, Gate::one_pass,
       "A layer quantised after its weights were permuted is the permuted quantised layer if its inputs keep their "
       "blocks; rows of W may move anyhow.",
       R"(f_{\mathrm{q}(P_{out}^\top W P)}(X P) = f_{\mathrm{q}(W)}(X) P_{out},\quad P \in S_b \wr S_k)",
       quantised_linear},
  };
}

} // namespace eg::permute
