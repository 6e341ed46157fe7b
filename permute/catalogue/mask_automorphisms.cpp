// Checks which token permutations a masked attention commutes with, by trying all of them.

#include "permute/automorphisms.h"
#include "permute/catalogue/case.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

namespace eg::permute {
namespace {

constexpr double shut = -1e9; // exp underflows to zero in f32 and f64
constexpr double never = -std::numeric_limits<double>::infinity();
constexpr std::int64_t named_tokens = 6, drawn_tokens = 5;
constexpr std::int64_t aut_dim = 8;
constexpr int aut_draws = 2; // a single draw may come near to commuting by chance
constexpr int drawn_masks = 60;

/// A mask [n, n] row by row, and the order of its group where it is known.
struct Mask {
  std::int64_t tokens;
  std::vector<double> entries;
  double order = 0.0; ///< 0: to be searched
};

double open_where(bool open) { return open ? 0.0 : shut; }

std::vector<Mask> named_masks() {
  using I = std::int64_t;
  struct Named {
    const char* name;
    double order;
    double (*entry)(I i, I j);
  };
  static const std::vector<Named> list = {
      {"none: S_6", 720, [](I, I) { return 0.0; }},
      {"causal: trivial", 1, [](I i, I j) { return open_where(j <= i); }},
      {"prefix of 3, then causal: S_3", 6, [](I i, I j) { return open_where(j < 3 || j <= i); }},
      {"padding behind 4: S_4 x S_2", 48, [](I, I j) { return open_where(j < 4); }},
      {"disjoint windows of 2: S_2 wr S_3", 48, [](I i, I j) { return open_where(i / 2 == j / 2); }},
      {"disjoint windows of 3: S_3 wr S_2", 72, [](I i, I j) { return open_where(i / 3 == j / 3); }},
      {"dilated by 2: S_3 wr S_2", 72, [](I i, I j) { return open_where(i % 2 == j % 2); }},
      {"ring of neighbours: D_6", 12, [](I i, I j) { return open_where((i - j + 7) % named_tokens <= 2); }},
      {"sliding window: Z_2", 2, [](I i, I j) { return open_where(std::abs(i - j) <= 1); }},
      {"one global token: S_5", 120, [](I i, I j) { return open_where(i == 0 || j == 0 || i == j); }},
      {"ALiBi both ways: Z_2", 2, [](I i, I j) { return -0.5 * static_cast<double>(std::abs(i - j)); }},
      {"ALiBi causal: trivial", 1, [](I i, I j) { return j <= i ? -0.5 * static_cast<double>(i - j) : shut; }},
      {"two packed causal documents: S_2", 2, [](I i, I j) { return open_where(i / 3 == j / 3 && j <= i); }},
      {"three packed causal documents: S_3", 6, [](I i, I j) { return open_where(i / 2 == j / 2 && j <= i); }},
      {"cyclic relative bias: Z_6", 6,
       [](I i, I j) { return 0.7 * static_cast<double>((i - j + named_tokens) % named_tokens); }},
      {"a number for each row: S_6", 720, [](I i, I) { return 0.3 * static_cast<double>(i); }},
      {"ALiBi both ways and a number for each row: Z_2", 2,
       [](I i, I j) { return 0.25 * static_cast<double>(i * i) - 0.5 * static_cast<double>(std::abs(i - j)); }},
      {"token 0 sees nothing, the others all: S_5", 120, [](I i, I) { return i == 0 ? never : 0.0; }},
  };
  std::vector<Mask> masks;
  for (const Named& named : list) {
    Mask mask{named_tokens, {}, named.order};
    for (I i = 0; i < named_tokens; ++i)
      for (I j = 0; j < named_tokens; ++j) mask.entries.push_back(named.entry(i, j));
    masks.push_back(std::move(mask));
  }
  return masks;
}

/// Open, half open and closed entries, in every second mask symmetric and in every third with a number for each row.
Mask drawn_mask(Case& c, int number) {
  const std::int64_t n = drawn_tokens;
  const std::vector<std::int64_t> draws = random_integers({n * (n + 1)}, c.key(), 0, 6).to_vector<std::int64_t>();
  const auto draw = [&](std::int64_t i, std::int64_t j) { return draws[static_cast<std::size_t>(i * n + j)]; };
  Mask mask{n, {}};
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t kind = number % 2 == 0 ? draw(std::min(i, j), std::max(i, j)) : draw(i, j);
      const double row = number % 3 == 0 ? 0.25 * static_cast<double>(draw(n, i)) : 0.0;
      mask.entries.push_back((kind == 0 ? never : kind < 3 ? -2.0 : 0.0) + row);
    }
  return mask;
}

std::vector<Permutation> permutations_of(std::int64_t n) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::vector<Permutation> all;
  do all.emplace_back(order);
  while (std::next_permutation(order.begin(), order.end()));
  return all;
}

/// P M~ P^T = M~ with M~ = M - rowmax(M), entry by entry; a row that sees nothing stays -inf.
bool keeps(const Mask& mask, const Permutation& p) {
  const std::int64_t n = mask.tokens;
  const auto entry = [&](std::int64_t i, std::int64_t j) {
    const double* row = mask.entries.data() + i * n;
    return row[j] == never ? never : row[j] - *std::max_element(row, row + n);
  };
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      if (entry(p[i], p[j]) != entry(i, j)) return false;
  return true;
}

/// For every row permutation, in one batch: |f(P X) - P f(X)| relative to the largest |f(X)|, the larger of some draws.
std::vector<double> commutation_errors(Case& c, const std::vector<Permutation>& all, const Tensor& mask) {
  const std::int64_t n = mask.size(-1), d = aut_dim, count = static_cast<std::int64_t>(all.size());
  std::vector<std::int64_t> gathers;
  for (const Permutation& p : all) gathers.insert(gathers.end(), p.gather().begin(), p.gather().end());
  const Tensor rows = Tensor::from<std::int64_t>(gathers, {count, n});
  std::vector<double> errors(all.size(), 0.0);
  for (int draw = 0; draw < aut_draws; ++draw) {
    const Tensor x = c.normal({n, d}), wq = c.normal({d, d}, 0.45), wk = c.normal({d, d}, 0.45),
                 wv = c.normal({d, d}, 0.45);
    const auto f = [&](const Tensor& z) {
      const Tensor scores = matmul(linear(z, wq), linear(z, wk), false, true) / std::sqrt(static_cast<double>(d));
      return matmul(masked_softmax(scores, mask), linear(z, wv)).contiguous();
    };
    const Tensor value = f(permute_rows(x.expand({count, n, d}).contiguous(), rows));
    const Tensor expected = permute_rows(f(x).expand({count, n, d}).contiguous(), rows);
    for (std::int64_t i = 0; i < count; ++i) {
      double& error = errors[static_cast<std::size_t>(i)];
      error = std::max(error, relative_error(value.slice(0, i, i + 1), expected.slice(0, i, i + 1)));
    }
  }
  return errors;
}

/// What was found over all masks.
struct Findings {
  double worst_inside = 0.0, least_outside = 1.0;
  std::vector<double> commuting, orders, searched; ///< mask by mask
  std::int64_t candidates = 0;

  void add(Case& c, const Mask& mask) {
    const std::vector<Permutation> all = permutations_of(mask.tokens);
    const Tensor m = Tensor::from<double>(mask.entries, {mask.tokens, mask.tokens}).to(c.dtype);
    const std::vector<double> errors = commutation_errors(c, all, m);
    double inside = 0.0, commute = 0.0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool kept = keeps(mask, all[i]);
      inside += kept ? 1.0 : 0.0;
      commute += errors[i] < 1e-4 ? 1.0 : 0.0;
      if (kept)
        worst_inside = std::max(worst_inside, errors[i]);
      else
        least_outside = std::min(least_outside, errors[i]);
    }
    commuting.push_back(commute);
    orders.push_back(mask.order > 0.0 ? mask.order : inside);
    searched.push_back(std::round(std::exp2(automorphisms(softmax_form(m)).log2_count())));
    candidates += static_cast<std::int64_t>(all.size());
  }
};

Claim mask_automorphisms(Case& c) {
  Findings found;
  for (const Mask& mask : named_masks()) found.add(c, mask);
  for (int number = 0; number < drawn_masks; ++number) found.add(c, drawn_mask(c, number));
  const auto count = static_cast<std::int64_t>(found.orders.size());
  const Tensor orders = Tensor::from<double>(found.orders, {count});
  Claim claim;
  claim.sizes = {{"tokens", named_tokens}, {"dim", aut_dim}, {"permutations", found.candidates}, {"masks", count}};
  claim.equal_bits("number of permutations that commute, mask by mask", Tensor::from<double>(found.commuting, {count}),
                   orders);
  claim.equal_bits("order of the group that colour refinement finds", Tensor::from<double>(found.searched, {count}),
                   orders);
  claim.zero("largest error of an automorphism", Tensor::full({1}, found.worst_inside, DType::f64), 1.0);
  claim.control = "smallest error of any other permutation";
  claim.fails.push_back(
      {claim.control, Tensor::full({1}, found.least_outside, DType::f64), Tensor::zeros({1}, DType::f64), 1.0, false});
  claim.compare_f64 = false;
  claim.candidates = found.candidates;
  return claim;
}

} // namespace

std::vector<Identity> mask_automorphism_identities() {
  return {
      {.id = "mask-aut",
       .title = "the row permutations that a mask leaves",
       .kind = ClaimKind::law,
       .statement = "For almost all weights a masked attention commutes with exactly the automorphisms of its mask "
                    "after each row's maximum is subtracted; by brute force over S_6 for 18 masks and over S_5 for 60 "
                    "drawn ones.",
       .tex =
           R"(f(P_R X) = P_R f(X) \iff P_R \tilde M P_R^\top = \tilde M,\quad \tilde M_{ij} = M_{ij} - \max_k M_{ik})",
       .run = mask_automorphisms,
       .sharp = true},
  };
}

} // namespace eg::permute
