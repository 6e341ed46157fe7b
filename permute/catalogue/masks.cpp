// Masked attention: theorem 10.2 (columns), and which token permutations a mask leaves valid (rows).

#include "permute/automorphisms.h"
#include "permute/catalogue/case.h"

#include "autograd/tape.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

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

/// The expressions that Eq. 82-86 chain together, with the mask that the paper's definition leaves out.
struct MaskedChain {
  Tensor permuted;  ///< (82) from Q_(P) and K_(P)
  Tensor expanded;  ///< (83) Q P_C P_C^T K^T by matrices
  Tensor cancelled; ///< (84), (85) from Q and K, through log softmax
  Tensor plain;     ///< (86) MS
  Tensor unmasked;  ///< the printed definition
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
  chain.unmasked = masked_softmax(q, k, Tensor::zeros({n, n}, c.dtype));
  chain.one_sided = masked_softmax(q_p, k, mask);
  return chain;
}

Identity chain_link(const char* id, const char* equation, const char* title, const char* tex,
                    Tensor MaskedChain::*value, Tensor MaskedChain::*expected) {
  return {id,
          title,
          "CVPR",
          equation,
          ClaimKind::erratum,
          Gate::one_pass,
          "A step of the derivation, with the mask inside the softmax; the printed definition leaves the mask out.",
          tex,
          [value, expected](Case& c) {
            const MaskedChain chain = masked_chain(c);
            Claim claim;
            claim.equal("both expressions", chain.*value, chain.*expected);
            claim.differs("the printed definition, without the mask", chain.unmasked, chain.*expected);
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

struct NamedMask {
  const char* name;
  double automorphisms; ///< order of the group, on six tokens
  MaskEntry entry;
};

constexpr std::int64_t aut_tokens = 6;
constexpr std::int64_t aut_dim = 8;
constexpr int aut_draws = 2; // a single draw may come near to commuting by chance

const std::vector<NamedMask>& named_masks() {
  using I = std::int64_t;
  static const std::vector<NamedMask> masks = {
      {"none: S_6", 720, [](I, I) { return 0.0; }},
      {"causal: trivial", 1, causal},
      {"prefix of 3, then causal: S_3", 6, [](I i, I j) { return open_if(j < 3 || j <= i); }},
      {"padding behind 4: S_4 x S_2", 48, [](I, I j) { return open_if(j < 4); }},
      {"windows of 2: S_2 wr S_3", 48, [](I i, I j) { return open_if(i / 2 == j / 2); }},
      {"windows of 3: S_3 wr S_2", 72, [](I i, I j) { return open_if(i / 3 == j / 3); }},
      {"dilated by 2: S_3 wr S_2", 72, [](I i, I j) { return open_if(i % 2 == j % 2); }},
      {"ring of neighbours: D_6", 12, [](I i, I j) { return open_if((i - j + 7) % aut_tokens <= 2); }},
      {"band of neighbours: Z_2", 2, [](I i, I j) { return open_if(std::abs(i - j) <= 1); }},
      {"one global token: S_5", 120, [](I i, I j) { return open_if(i == 0 || j == 0 || i == j); }},
      {"ALiBi both ways: Z_2", 2, [](I i, I j) { return -0.5 * static_cast<double>(std::abs(i - j)); }},
      {"ALiBi causal: trivial", 1, [](I i, I j) { return j <= i ? -0.5 * static_cast<double>(i - j) : closed; }},
      {"two packed causal documents: S_2", 2, [](I i, I j) { return open_if(i / 3 == j / 3 && j <= i); }},
      {"three packed causal documents: S_3", 6, [](I i, I j) { return open_if(i / 2 == j / 2 && j <= i); }},
      {"cyclic relative bias: Z_6", 6,
       [](I i, I j) { return 0.7 * static_cast<double>((i - j + aut_tokens) % aut_tokens); }},
  };
  return masks;
}

std::vector<Permutation> all_permutations(std::int64_t n) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::vector<Permutation> all;
  do all.emplace_back(order);
  while (std::next_permutation(order.begin(), order.end()));
  return all;
}

bool is_automorphism(MaskEntry mask, const Permutation& p) {
  for (std::int64_t i = 0; i < p.size(); ++i)
    for (std::int64_t j = 0; j < p.size(); ++j)
      if (mask(p[i], p[j]) != mask(i, j)) return false;
  return true;
}

/// For every one of the n! row permutations, in one batch: |f(P X) - P f(X)| relative to the largest |f(X)|.
std::vector<double> commutation_errors(Case& c, const std::vector<Permutation>& all, const Tensor& mask) {
  const std::int64_t n = aut_tokens, d = aut_dim, count = static_cast<std::int64_t>(all.size());
  const Tensor x = c.normal({n, d}), wq = c.normal({d, d}, 0.45), wk = c.normal({d, d}, 0.45),
               wv = c.normal({d, d}, 0.45);
  const auto f = [&](const Tensor& z) {
    return matmul(masked_softmax(linear(z, wq), linear(z, wk), mask), linear(z, wv)).contiguous();
  };
  std::vector<std::int64_t> gathers;
  for (const Permutation& p : all) gathers.insert(gathers.end(), p.gather().begin(), p.gather().end());
  const Tensor rows = Tensor::from<std::int64_t>(gathers, {count, n});
  const Tensor value = f(permute_rows(x.expand({count, n, d}).contiguous(), rows));
  const Tensor expected = permute_rows(f(x).expand({count, n, d}).contiguous(), rows);
  std::vector<double> errors;
  for (std::int64_t i = 0; i < count; ++i)
    errors.push_back(relative_error(value.slice(0, i, i + 1), expected.slice(0, i, i + 1)));
  return errors;
}

Claim mask_automorphisms(Case& c) {
  const std::vector<Permutation> all = all_permutations(aut_tokens);
  double worst_inside = 0.0, least_outside = 1.0;
  std::vector<double> found, orders, searched;
  for (const NamedMask& mask : named_masks()) {
    std::vector<double> errors(all.size(), 0.0);
    for (int draw = 0; draw < aut_draws; ++draw) {
      const std::vector<double> seen = commutation_errors(c, all, mask_of(mask.entry, aut_tokens, c.dtype));
      for (std::size_t i = 0; i < all.size(); ++i) errors[i] = std::max(errors[i], seen[i]);
    }
    double commuting = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      commuting += errors[i] < 1e-4 ? 1 : 0;
      if (is_automorphism(mask.entry, all[i]))
        worst_inside = std::max(worst_inside, errors[i]);
      else
        least_outside = std::min(least_outside, errors[i]);
    }
    found.push_back(commuting);
    orders.push_back(mask.automorphisms);
    searched.push_back(std::round(std::exp2(automorphisms(mask_of(mask.entry, aut_tokens, c.dtype)).log2_count())));
  }
  const auto count = static_cast<std::int64_t>(orders.size());
  Claim claim;
  claim.sizes = {{"tokens", aut_tokens}, {"dim", aut_dim}, {"permutations", 720}, {"masks", count}};
  claim.equal_bits("number of permutations that commute, mask by mask", Tensor::from<double>(found, {count}),
                   Tensor::from<double>(orders, {count}));
  claim.equal_bits("order of the group that colour refinement finds", Tensor::from<double>(searched, {count}),
                   Tensor::from<double>(orders, {count}));
  claim.zero("largest error of an automorphism", Tensor::full({1}, worst_inside, DType::f64), 1.0);
  claim.control = "smallest error of any other permutation";
  claim.fails.push_back(
      {claim.control, Tensor::full({1}, least_outside, DType::f64), Tensor::zeros({1}, DType::f64), 1.0, false});
  claim.compare_f64 = false;
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
      {"mask-aut", "the row permutations that a mask leaves", "", "", law, Gate::one_pass,
       "A masked attention commutes with exactly the automorphisms of its additive mask; by brute force over all 720 "
       "permutations of six tokens for fifteen masks.",
       R"(f(P_R X) = P_R f(X) \iff P_R \in \mathrm{Aut}(M) = \{P : P M P^\top = M\})", mask_automorphisms},
  };
}

} // namespace eg::permute
