// Checks theorem 10.2: a masked attention and permutations of columns.

#include "permute/catalogue/case.h"

#include "autograd/tape.h"

#include <cmath>

namespace eg::permute {
namespace {

constexpr double closed = -1e9; // exp underflows to zero in f32 and f64

using MaskEntry = double (*)(std::int64_t i, std::int64_t j);

Tensor mask_of(MaskEntry entry, std::int64_t n, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) values.push_back(entry(i, j));
  return Tensor::from<double>(values, {n, n}).to(dtype);
}

double open_if(bool open) { return open ? 0.0 : closed; }
double causal(std::int64_t i, std::int64_t j) { return open_if(j <= i); }

/// softmax(Q K^T / sqrt(d) + M)
Tensor masked_softmax(const Tensor& q, const Tensor& k, const Tensor& mask) {
  return softmax(matmul(q, k, false, true) / std::sqrt(static_cast<double>(q.size(-1))) + mask);
}

/// The expressions that Eq. 82-86 chain together. Their "Masked-Softmax" has its mask by name; the definition of MS
/// before them leaves it out.
struct MaskedChain {
  Tensor permuted;  ///< (82) from Q_(P) and K_(P)
  Tensor expanded;  ///< (83) Q P_C P_C^T K^T by matrices
  Tensor cancelled; ///< (84), (85) from Q and K, through log softmax
  Tensor plain;     ///< (86) MS
  Tensor one_sided; ///< Q permuted alone
};

MaskedChain masked_chain(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const double scale = std::sqrt(static_cast<double>(d));
  const Tensor q = c.normal({n, d}), k = c.normal({n, d}), mask = mask_of(causal, n, c.dtype);
  const Permutation p = c.permutation(d);
  std::vector<double> entries(static_cast<std::size_t>(d * d));
  for (std::int64_t j = 0; j < d; ++j) entries[static_cast<std::size_t>(p[j] * d + j)] = 1.0;
  const Tensor matrix = Tensor::from<double>(entries, {d, d}).to(c.dtype);
  const Tensor q_p = p.apply(q, 1), k_p = p.apply(k, 1);
  MaskedChain chain;
  chain.permuted = masked_softmax(q_p, k_p, mask);
  chain.expanded = softmax(matmul(matmul(matmul(q, matrix), matrix, false, true), k, false, true) / scale + mask);
  chain.cancelled = exp(log_softmax(matmul(q, k, false, true) / scale + mask));
  chain.plain = masked_softmax(q, k, mask);
  chain.one_sided = masked_softmax(q_p, k, mask);
  return chain;
}

Identity chain_link(const char* id, const char* equation, const char* title, const char* tex,
                    Tensor MaskedChain::*value, Tensor MaskedChain::*expected) {
  return {id,
          title,
          "CVPR",
          equation,
          ClaimKind::identity,
          Gate::one_pass,
          "A step of the derivation, with the mask inside the softmax.",
          tex,
          [value, expected](Case& c) {
            const MaskedChain chain = masked_chain(c);
            Claim claim;
            claim.equal("both expressions", chain.*value, chain.*expected);
            claim.differs("Q permuted without K", chain.one_sided, chain.*expected);
            return claim;
          }};
}

Claim masked_softmax_columns(Case& c) {
  const MaskedChain chain = masked_chain(c);
  Claim claim;
  claim.equal("MS_(P) = MS", chain.permuted, chain.plain);
  claim.differs("Q permuted without K", chain.one_sided, chain.plain);
  return claim;
}

/// The same through a whole causal attention, with gradients: columns pass, rows do not.
Claim masked_attention_columns(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor q = c.normal({n, d}), k = c.normal({n, d}), v = c.normal({n, d}), g = c.normal({n, d}),
               mask = mask_of(causal, n, c.dtype);
  const Permutation p = c.permutation(d), p_v = c.permutation(d), r = c.permutation(n);
  struct Run {
    Tensor y;
    std::vector<Tensor> gradients;
  };
  const auto run = [&](const Tensor& a, const Tensor& b, const Tensor& w, const Tensor& cotangent) {
    Tape tape;
    const Tensor y = matmul(masked_softmax(a, b, mask), w);
    return Run{y, tape.gradient(y, {a, b, w}, cotangent)};
  };
  const Run plain = run(q, k, v, g), moved = run(p.apply(q, 1), p.apply(k, 1), p_v.apply(v, 1), p_v.apply(g, 1));
  Claim claim;
  claim.equal("output", moved.y, p_v.apply(plain.y, 1));
  claim.equal("dl/dQ", moved.gradients[0], p.apply(plain.gradients[0], 1));
  claim.equal("dl/dK", moved.gradients[1], p.apply(plain.gradients[1], 1));
  claim.equal("dl/dV", moved.gradients[2], p_v.apply(plain.gradients[2], 1));
  claim.differs("rows permuted under a causal mask", run(r.apply(q, 0), r.apply(k, 0), r.apply(v, 0), g).y,
                r.apply(plain.y, 0));
  return claim;
}

/// MS is what the library's causal softmax gives, not the softmax without a mask.
Claim masked_softmax_definition(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor q = c.normal({n, d}), k = c.normal({n, d});
  const Tensor expected = masked_softmax(q, k, mask_of(causal, n, c.dtype));
  const Tensor logits = matmul(q, k, false, true) / std::sqrt(static_cast<double>(d));
  Claim claim;
  claim.equal("the causal softmax", eg::masked_softmax(logits, {}, true), expected);
  claim.differs("the printed definition, without the mask", softmax(logits), expected);
  return claim;
}

} // namespace

std::vector<Identity> mask_identities() {
  using enum ClaimKind;
  return {
      {"thm10.2", "masked attention and columns", "CVPR", "81-86", identity, Gate::one_pass,
       "Causal attention passes column permutations, forward and backward; row permutations it does not pass.",
       R"(\mathrm{MS}_{(P)} = \mathrm{MS})", masked_attention_columns},
      {"eq81", "masked softmax", "CVPR", "81", identity, Gate::one_pass,
       "The columns that Q and K share cancel before the mask.", R"(\mathrm{MS}_{(P)} = \mathrm{MS})",
       masked_softmax_columns},
      {"ms-def", "the definition of MS", "CVPR", "", erratum, Gate::one_pass,
       "MS is a softmax with its mask; the definition before Eq. 82 leaves the mask out.",
       R"(\mathrm{MS} = \mathrm{Softmax}(Q K^\top/\sqrt d + M))", masked_softmax_definition},
      chain_link("eq82", "82", "masked softmax, from the permuted Q and K",
                 R"(\mathrm{MS}_{(P)} = \mathrm{Softmax}(Q_{(P)} K_{(P)}^\top/\sqrt d + M))", &MaskedChain::permuted,
                 &MaskedChain::expanded),
      chain_link("eq83", "83", "masked softmax, P_C written out",
                 R"(= \mathrm{Softmax}(Q P_C P_C^\top K^\top/\sqrt d + M))", &MaskedChain::expanded,
                 &MaskedChain::cancelled),
      chain_link("eq84", "84", "masked softmax, P_C cancelled", R"(= \mathrm{Softmax}(Q K^\top/\sqrt d + M))",
                 &MaskedChain::cancelled, &MaskedChain::plain),
      chain_link("eq85", "85", "masked softmax, the same line again", R"(= \mathrm{Softmax}(Q K^\top/\sqrt d + M))",
                 &MaskedChain::cancelled, &MaskedChain::plain),
      chain_link("eq86", "86", "masked softmax, the end of the chain", R"(= \mathrm{MS})", &MaskedChain::permuted,
                 &MaskedChain::plain),
  };
}

} // namespace eg::permute
