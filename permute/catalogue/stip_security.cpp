// What STIP (paper 004) protects: its protocol between three parties, and what each of them can read off. Attacks are
// stated as identities: what is recovered is the secret, exactly.

#include "permute/catalogue/stack.h"

#include "nn/kv_cache.h"

#include <limits>

namespace eg::permute {
namespace {

constexpr const char* stip_paper = "004";

/// P1 owns the model and draws pi; P2 computes with theta' alone; P3 has the text and pi.
struct Cloud {
  std::unique_ptr<BlockStack> model;
  std::vector<Tensor> seen;
  Tensor compute(const Tensor& x) {
    seen.push_back(x);
    return (*model)(x);
  }
};

Claim protocol(Case& c) {
  nn::BlockConfig config = encoder_config(c);
  config.causal = true;
  const auto owned = draw_stack(c, config);
  const Permutation pi = c.directed_permutation(config.dim);
  Cloud cloud{residual_copy(*owned, pi), {}};
  Claim claim;
  for (int query = 0; query < 3; ++query) {
    const Tensor x = c.normal({1, c.options.tokens, config.dim});
    const Tensor answer = cloud.compute(pi.apply(x, -1));
    claim.equal("the user's y = y' pi^T", pi.inverse().apply(answer, -1), (*owned)(x));
    claim.equal_bits("what the cloud saw is x pi", cloud.seen.back(), pi.apply(x, -1));
    claim.differs("a user without pi", answer, (*owned)(x));
  }
  const auto bytes = static_cast<std::int64_t>(cloud.seen.back().nbytes());
  claim.sizes = {{"queries", 3}, {"bytes_to_the_cloud", 3 * bytes}, {"bytes_back", 3 * bytes}};
  return claim;
}

/// W_q' = W_q pi and so on: the inner axes are those of the plain model.
Claim open_cache(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim, heads = c.options.heads, head_dim = d / heads;
  const Tensor x = c.normal({n, d}), wq = c.normal({d, d}, 0.4), wk = c.normal({d, d}, 0.4), wv = c.normal({d, d}, 0.4);
  const Permutation pi = c.permutation(d), inner = c.permutation(d);
  const Tensor x_p = pi.apply(x, 1);
  const auto per_head = [&](const Tensor& t) { return transpose(t.reshape({n, heads, head_dim}), 0, 1).contiguous(); };
  const auto projected = [&](const Tensor& w) { return linear(x_p, pi.apply(w, 1)); };
  nn::KvCache cache({heads}, n, head_dim, 0, c.dtype);
  cache.append(per_head(projected(wk)), per_head(projected(wv)));
  Claim claim;
  claim.equal("Q' = Q", projected(wq), linear(x, wq));
  claim.equal("keys in the cloud's cache are K", cache.keys(), per_head(linear(x, wk)));
  claim.equal("values in the cloud's cache are V", cache.values(), per_head(linear(x, wv)));
  claim.differs("with a permuted inner axis, as the second version has it", inner.apply(projected(wk), 1),
                linear(x, wk));
  return claim;
}

/// For each column of `moved` the column of `known` that is nearest, as a tensor of indices.
Tensor matched_columns(const Tensor& moved, const Tensor& known, DType dtype) {
  std::vector<double> best;
  for (std::int64_t j = 0; j < moved.size(1); ++j) {
    const Tensor distance = sum(abs(known - moved.slice(1, j, j + 1)), {0});
    best.push_back(static_cast<double>(argmin(distance, 0).item()));
  }
  return Tensor::from<double>(best, {moved.size(1)}).to(dtype);
}

Tensor sorted_columns(const Tensor& x) { return gather(x, 0, argsort(x, 0)); }

Claim known_text(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor x = c.normal({n, d}), other = c.normal({n, d});
  const Permutation pi = c.directed_permutation(d);
  const Tensor one_token = x.slice(0, 0, 1);
  Claim claim;
  claim.equal_bits("from a text and its image", matched_columns(pi.apply(x, 1), x, c.dtype), pi.tensor().to(c.dtype));
  claim.equal_bits("from one token and its image", matched_columns(pi.apply(one_token, 1), one_token, c.dtype),
                   pi.tensor().to(c.dtype));
  claim.differs("from the image of another text", matched_columns(pi.apply(other, 1), x, c.dtype),
                pi.tensor().to(c.dtype));
  return claim;
}

Claim public_weights(Case& c) {
  const std::int64_t d = c.options.dim, out = 64;
  const Tensor w = c.normal({out, d}), tuned = w + c.normal({out, d}, 0.05), other = c.normal({out, d});
  const Permutation pi = c.directed_permutation(d), inner = c.permutation(out);
  const Tensor secret = pi.tensor().to(c.dtype);
  Claim claim;
  claim.sizes = {{"rows of W", out}};
  claim.equal_bits("W' = W pi: columns matched", matched_columns(pi.apply(w, 1), w, c.dtype), secret);
  claim.equal_bits("W' = Pi^T W pi: sorted columns matched",
                   matched_columns(sorted_columns(inner.apply(pi.apply(w, 1), 0)), sorted_columns(w), c.dtype), secret);
  claim.equal_bits("the same of weights tuned by 5 %",
                   matched_columns(sorted_columns(inner.apply(pi.apply(tuned, 1), 0)), sorted_columns(w), c.dtype),
                   secret);
  claim.differs("against weights of another training", matched_columns(pi.apply(other, 1), w, c.dtype), secret);
  return claim;
}

} // namespace

std::vector<Identity> stip_security_identities() {
  using enum ClaimKind;
  return {
      {"stip-alg1", "the protocol of three parties", stip_paper, "Algorithm 1", identity, Gate::one_pass,
       "One set-up, then for each query a permutation to the cloud and one back: the user gets f(x), and each way "
       "carries "
       "as many numbers as x has.",
       R"(y = f_{\theta'}(x\pi)\, \pi^\top = f_\theta(x))", protocol},
      {"stip-sec", "the cache of the first version", stip_paper, "", counterexample, Gate::one_pass,
       "Queries, keys and values in the cloud are those of the plain model: the key-value cache lies open.",
       R"(Q' = Q,\ K' = K,\ V' = V)", open_cache},
      {"stip-sec-text", "one known text", stip_paper, "", counterexample, Gate::bits,
       "\"1/d!\" leaves out what an attacker may know: one token with its image gives pi.",
       R"(\pi = \arg\min_\pi \lVert x\pi - x' \rVert)", known_text},
      {"stip-sec-weights", "public weights", stip_paper, "", counterexample, Gate::bits,
       "Weights that are public, before tuning at least, give pi: columns are matched, sorted ones where rows are "
       "permuted too.",
       R"(W' = \Pi^\top W \pi \Rightarrow \pi)", public_weights},
  };
}

} // namespace eg::permute
