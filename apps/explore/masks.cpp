// The page "masks": which token permutations a painted mask allows.

#include "apps/explore/pages.h"

#include "core/ops.h"
#include "core/random.h"
#include "permute/automorphisms.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <set>

namespace eg::explore {

using nlohmann::json;
using permute::Permutation;
using permute::PermutationGroup;

namespace {

constexpr std::int64_t most_tokens = 16;   // 16! has 45 bits
constexpr std::int64_t most_listed = 5000; // elements, for the group's name
constexpr std::int64_t most_searched = 7;  // tokens: 7! = 5040 candidates

std::int64_t factorial(std::int64_t n) {
  std::int64_t product = 1;
  for (std::int64_t i = 2; i <= n; ++i) product *= i;
  return product;
}

std::int64_t order_of(const Permutation& p) {
  std::int64_t order = 1;
  std::vector<bool> seen(static_cast<std::size_t>(p.size()));
  for (std::int64_t i = 0; i < p.size(); ++i) {
    std::int64_t length = 0;
    for (std::int64_t j = i; !seen[static_cast<std::size_t>(j)]; j = p[j]) {
      seen[static_cast<std::size_t>(j)] = true;
      ++length;
    }
    if (length > 0) order = std::lcm(order, length);
  }
  return order;
}

std::vector<Permutation> elements_of(const PermutationGroup& group) {
  std::vector<Permutation> list{Permutation::identity(group.degree)};
  std::set<std::vector<std::int64_t>> known{list[0].gather()};
  for (std::size_t i = 0; i < list.size(); ++i)
    for (const Permutation& g : group.generators) {
      Permutation next = list[i].then(g);
      if (known.insert(next.gather()).second) list.push_back(std::move(next));
    }
  return list;
}

/// "S_3 x S_2", "C_4", "D_5"; "" where it is none of these.
std::string name_of(const PermutationGroup& group, std::int64_t order) {
  if (order == 1) return "trivial";
  std::int64_t all = 1;
  std::string product;
  std::vector<std::vector<std::int64_t>> orbits = group.orbits();
  std::stable_sort(orbits.begin(), orbits.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  for (const auto& orbit : orbits) {
    const auto size = static_cast<std::int64_t>(orbit.size());
    if (size < 2) continue;
    all *= factorial(size);
    product += fmt::format("{}S_{}", product.empty() ? "" : " x ", size);
  }
  if (order == all) return product;
  if (order > most_listed) return {};
  const std::vector<Permutation> elements = elements_of(group);
  const auto turn = std::max_element(elements.begin(), elements.end(),
                                     [](const auto& a, const auto& b) { return order_of(a) < order_of(b); });
  if (order_of(*turn) == order) return fmt::format("C_{}", order);
  // Dihedral: a rotation c of half the order, and reflections t outside its powers with t c t = c^-1.
  if (2 * order_of(*turn) != order || order < 6) return {};
  std::set<std::vector<std::int64_t>> powers;
  for (Permutation p = *turn; powers.insert(p.gather()).second;) p = p.then(*turn);
  for (const Permutation& t : elements)
    if (!powers.contains(t.gather()) && order_of(t) == 2 && t.then(*turn).then(t) == turn->inverse())
      return fmt::format("D_{}", order / 2);
  return {};
}

/// Automorphisms among all permutations of the tokens.
std::int64_t counted_by_search(const Tensor& seen, std::int64_t tokens) {
  std::vector<std::int64_t> candidate(static_cast<std::size_t>(tokens));
  std::iota(candidate.begin(), candidate.end(), 0);
  std::int64_t count = 0;
  do count += permute::is_automorphism(seen, Permutation(candidate)) ? 1 : 0;
  while (std::next_permutation(candidate.begin(), candidate.end()));
  return count;
}

} // namespace

void ask_mask(Question& question, Reply& reply, Session&) {
  const Tensor mask = question.matrix("mask", most_tokens);
  const std::int64_t tokens = mask.size(0);
  if (tokens != mask.size(1)) throw ValueError("mask is not square");
  const Permutation order = question.order("order", tokens);
  const RandomKey key{.seed = static_cast<std::uint64_t>(question.whole("seed", 1, 0, 1'000'000))};
  question.finish();

  const Tensor seen = permute::softmax_form(mask);
  const PermutationGroup group = permute::automorphisms(seen);
  const std::int64_t size = std::accumulate(group.factors.begin(), group.factors.end(), std::int64_t{1},
                                            [](std::int64_t a, std::int64_t b) { return a * b; });
  json& body = reply.body;
  body["group_order"] = size;
  body["group_name"] = name_of(group, size);
  body["generators"] = json::array();
  for (const Permutation& g : group.generators) body["generators"].push_back(g.gather());
  body["orbits"] = group.orbits();
  body["searched"] = tokens <= most_searched ? json(counted_by_search(seen, tokens)) : json(nullptr);
  body["allowed"] = permute::is_automorphism(seen, order);
  // Which exchanges of two tokens are allowed: drags that glide.
  body["exchanges"] = json::array();
  std::vector<std::int64_t> identity(static_cast<std::size_t>(tokens));
  std::iota(identity.begin(), identity.end(), 0);
  for (std::size_t i = 0; i < identity.size(); ++i)
    for (std::size_t j = i + 1; j < identity.size(); ++j) {
      std::vector<std::int64_t> exchange = identity;
      std::swap(exchange[i], exchange[j]);
      if (permute::is_automorphism(seen, Permutation(std::move(exchange)))) body["exchanges"].push_back({i, j});
    }

  constexpr std::int64_t dim = 6;
  const auto draw = [&](std::uint64_t tag) {
    return random_normal({1, tokens, dim}, key.fold(tag), 0.0, 1.0, DType::f64);
  };
  const Tensor q = draw(1), k = draw(2), v = draw(3);
  const auto attention = [&](const Tensor& a, const Tensor& b, const Tensor& c) {
    return attention_explicit(a, b, c, AttentionOptions{.mask = mask});
  };
  const AttentionParts plain = attention(q, k, v),
                       moved = attention(order.apply(q, 1), order.apply(k, 1), order.apply(v, 1));
  const Tensor expected = order.apply(plain.output, 1);
  body["scores"] = reply.tensor(plain.scores);
  body["moved_scores"] = reply.tensor(moved.scores);
  body["moved_output"] = reply.tensor(moved.output);
  body["expected"] = reply.tensor(expected);
  body["forward"] = Reply::comparison(moved.output, expected, page_tolerance(DType::f64, false));
}

} // namespace eg::explore
