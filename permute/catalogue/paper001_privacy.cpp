// Paper 001's sigma-privacy (definitions 1 and 2, propositions 1 and 2), by enumeration on a feature of two rows and
// three columns; and what rounding does to one element (C.4).

#include "permute/catalogue/case.h"
#include "permute/catalogue/stack.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace eg::permute {
namespace {

using Order = std::vector<std::int64_t>;
using Entries = std::vector<std::int64_t>; ///< of a matrix, row by row

std::vector<Order> orders(std::int64_t n) {
  Order order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::vector<Order> all;
  do all.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));
  return all;
}

Entries gathered(const Entries& x, const Order& rows, const Order& columns) {
  Entries y;
  for (const std::int64_t i : rows)
    for (const std::int64_t j : columns)
      y.push_back(x[static_cast<std::size_t>(i) * columns.size() + static_cast<std::size_t>(j)]);
  return y;
}

/// Pr[release = Z'], Z' by its entries.
using Distribution = std::map<Entries, double>;

void add(Distribution& to, const Entries& outcome, double probability) { to[outcome] += probability; }

/// The largest difference of two distributions, over the largest probability.
double distance(const Distribution& a, const Distribution& b) {
  double largest = 0.0, most = 0.0;
  for (const auto* one : {&a, &b})
    for (const auto& [outcome, p] : *one) {
      const auto p_a = a.find(outcome), p_b = b.find(outcome);
      largest = std::max({largest, p});
      most = std::max(most, std::abs((p_a == a.end() ? 0.0 : p_a->second) - (p_b == b.end() ? 0.0 : p_b->second)));
    }
  return most / largest;
}

constexpr std::int64_t p = 2, d = 3;

/// M_Z: uniform P_R and P_C.
Distribution release(const Entries& z) {
  Distribution outcomes;
  for (const Order& r : orders(p))
    for (const Order& c : orders(d)) add(outcomes, gathered(z, r, c), 1.0 / 12.0);
  return outcomes;
}

/// M_W: W conjugated by a uniform P_C.
Distribution release_weight(const Entries& w) {
  Distribution outcomes;
  for (const Order& c : orders(d)) add(outcomes, gathered(w, c, c), 1.0 / 6.0);
  return outcomes;
}

/// Two inputs, a fresh P_R for each; P_C shared or drawn for each.
Distribution release_both(const Entries& z1, const Entries& z2, bool one_key) {
  Distribution outcomes;
  for (const Order& r1 : orders(p))
    for (const Order& r2 : orders(p))
      for (const Order& c1 : orders(d))
        for (const Order& c2 : orders(d)) {
          if (one_key && c1 != c2) continue;
          Entries both = gathered(z1, r1, c1);
          const Entries second = gathered(z2, r2, c2);
          both.insert(both.end(), second.begin(), second.end());
          add(outcomes, both, one_key ? 1.0 / 24.0 : 1.0 / 144.0);
        }
  return outcomes;
}

/// Over all neighbouring permutations of the input: how far the releases' distributions are from each other.
template <class Release> double worst_distance(const Release& release_of, const Entries& x, bool conjugate) {
  double worst = 0.0;
  const Distribution first = release_of(x);
  for (const Order& r : conjugate ? orders(d) : orders(p))
    for (const Order& c : orders(d)) {
      if (conjugate && r != c) continue;
      worst = std::max(worst, distance(first, release_of(gathered(x, r, c))));
    }
  return worst;
}

Claim sigma_privacy(Case& c) {
  const Entries z1 = {0, 1, 2, 3, 4, 5}, z2 = {6, 7, 8, 9, 10, 11}, w = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  const auto number = [&](double x) { return Tensor::full({1}, x, c.dtype); };
  Claim claim;
  claim.sizes = {{"rows", p}, {"columns", d}};
  claim.zero("one release, uniform P_R and P_C (proposition 1)", number(worst_distance(release, z1, false)), 1.0);
  claim.zero("one release of a weight, uniform P_C (proposition 2)", number(worst_distance(release_weight, w, true)),
             1.0);
  claim.zero("two releases, a P_C for each",
             number(worst_distance([&](const Entries& z) { return release_both(z1, z, false); }, z2, false)), 1.0);
  claim.control = "two releases with one P_C for the model, as the paper has it";
  claim.fails.push_back({claim.control,
                         number(worst_distance([&](const Entries& z) { return release_both(z1, z, true); }, z2, false)),
                         number(0.0), 1.0, false});
  return claim;
}

/// C.4: "a negligible 1e-7 error occurs per element in the permutation due to float calculation".
Claim rounding(Case& c) {
  const auto t = run_stack_twins(c, KeyForm::tied, true);
  const Tensor &value = t->permuted.output, plain = t->plain.output;
  const double mean_error = mean(abs((value - plain).to(DType::f64))).item();
  Claim claim;
  claim.equal("blocks, permuted and permuted back", value, plain);
  claim.zero("mean difference of an element beyond 1e-6", Tensor::full({1}, std::max(mean_error - 1e-6, 0.0), c.dtype),
             1.0);
  claim.differs("P_R^-1 and P_C^-1 left out", t->permuted.states.back(), plain);
  return claim;
}

} // namespace

std::vector<Identity> privacy_identities() {
  using enum ClaimKind;
  return {
      {"s1-sigma", "sigma-privacy of one release and of two", "001", "12", counterexample, Gate::one_pass,
       "By enumeration for two rows and three columns: one release with uniform P_R and P_C is private, two releases "
       "under the model's one P_C are not.",
       R"(\Pr[M(\sigma(Z)) = Z'] = \Pr[M(\sigma'(Z)) = Z'])", sigma_privacy},
      {"s1-C.4", "rounding of an element", "001", "", identity, Gate::one_pass,
       "Permuted and permuted back, an element differs by rounding alone, less than 1e-6 on average.",
       R"(P_R^{-1} \mathrm{Enc}_{(P)}(P_R Z P_C^{-1}) P_C = \mathrm{Enc}(Z))", rounding},
  };
}

} // namespace eg::permute
