#include "permute/automorphisms.h"

#include "autograd/tape.h"
#include "core/base/error.h"
#include "core/ops.h"
#include "core/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <doctest/doctest.h>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

using namespace eg;
using namespace eg::permute;

namespace {

Tensor mask_of(std::int64_t n, const std::function<double(std::int64_t, std::int64_t)>& entry) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) values.push_back(entry(i, j));
  return Tensor::from<double>(values, {n, n});
}

double log2_factorial(std::int64_t n) { return std::lgamma(static_cast<double>(n) + 1.0) / std::log(2.0); }

/// Bits of Aut(M), all of whose generators must be automorphisms.
double bits(const Tensor& mask) {
  const PermutationGroup group = automorphisms(mask);
  for (const Permutation& g : group.generators) {
    CHECK(!g.is_identity());
    CHECK(is_automorphism(mask, g));
  }
  return group.log2_count();
}

using Gather = std::vector<std::int64_t>;

std::set<Gather> by_brute_force(const Tensor& mask) {
  Gather p(static_cast<std::size_t>(mask.size(-1)));
  std::iota(p.begin(), p.end(), std::int64_t{0});
  std::set<Gather> all;
  do
    if (is_automorphism(mask, Permutation(p))) all.insert(p);
  while (std::next_permutation(p.begin(), p.end()));
  return all;
}

/// Everything that the generators make.
std::set<Gather> closure(const PermutationGroup& group) {
  const Permutation one = Permutation::identity(group.degree);
  std::set<Gather> all{one.gather()};
  std::vector<Permutation> next{one};
  while (!next.empty()) {
    const Permutation p = next.back();
    next.pop_back();
    for (const Permutation& g : group.generators)
      if (const Permutation q = p.then(g); all.insert(q.gather()).second) next.push_back(q);
  }
  return all;
}

} // namespace

TEST_CASE("automorphisms: of random relations of up to seven points, as brute force finds them") {
  RandomStream random({.seed = 77, .stream = 0});
  std::set<std::size_t> orders;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const auto n = static_cast<std::int64_t>(1 + random.below(round % 50 == 0 ? 7 : 6));
    const std::uint64_t colours = 1 + random.below(3);
    const bool both_ways = random.below(2) == 0;
    std::vector<double> values(static_cast<std::size_t>(n * n));
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        values[static_cast<std::size_t>(i * n + j)] = both_ways && j < i ? values[static_cast<std::size_t>(j * n + i)]
                                                                         : static_cast<double>(random.below(colours));
    const Tensor mask = Tensor::from<double>(values, {n, n});
    const PermutationGroup group = automorphisms(mask);
    const std::set<Gather> wanted = by_brute_force(mask);
    CHECK(closure(group) == wanted);
    CHECK(std::exp2(group.log2_count()) == doctest::Approx(static_cast<double>(wanted.size())));
    orders.insert(wanted.size());
  }
  CHECK(orders.size() >= 8); // trivial groups alone would prove little
}

TEST_CASE("automorphisms: masks of attention at their real sizes") {
  using I = std::int64_t;
  const auto open = [](bool seen) { return seen ? 0.0 : -1e9; };
  CHECK(bits(Tensor::zeros({197, 197})) == doctest::Approx(log2_factorial(197)));
  CHECK(bits(mask_of(128, [&](I i, I j) { return open(j <= i); })) == 0.0);
  CHECK(bits(mask_of(64, [&](I i, I j) { return open(j < 24 || j <= i); })) == doctest::Approx(log2_factorial(24)));
  CHECK(bits(mask_of(128, [&](I, I j) { return open(j < 100); })) ==
        doctest::Approx(log2_factorial(100) + log2_factorial(28)));
  CHECK(bits(mask_of(98, [&](I i, I j) { return open(i / 49 == j / 49); })) ==
        doctest::Approx(2 * log2_factorial(49) + 1.0));
  CHECK(bits(mask_of(60, [&](I i, I j) { return open(i / 5 == j / 5 && j <= i); })) ==
        doctest::Approx(log2_factorial(12)));
  CHECK(bits(mask_of(50, [](I i, I j) { return -0.5 * static_cast<double>(std::abs(i - j)); })) == 1.0);
  CHECK(bits(mask_of(48, [&](I i, I j) { return open((i - j + 49) % 48 <= 2); })) == doctest::Approx(std::log2(96.0)));
  CHECK(bits(mask_of(36, [](I i, I j) { return static_cast<double>((i - j + 36) % 36); })) ==
        doctest::Approx(std::log2(36.0)));
}

TEST_CASE("automorphisms: graphs that have no exchangeable points and do not refine") {
  using I = std::int64_t;
  // Tokens of a torus that see their four neighbours: (D_5 x D_5) with both axes exchanged.
  const auto step = [](I a, I b, I n) { return (a - b + n) % n == 1 || (b - a + n) % n == 1; };
  CHECK(bits(mask_of(25, [&](I i, I j) {
          const bool same_row = i / 5 == j / 5, same_column = i % 5 == j % 5;
          return (same_row && step(i % 5, j % 5, 5)) || (same_column && step(i / 5, j / 5, 5)) ? 0.0 : -1.0;
        })) == doctest::Approx(std::log2(200.0)));
  // The cube, and the graph of Petersen: pairs of five things, joined where they share none.
  CHECK(bits(mask_of(8, [](I i, I j) {
          const I d = i ^ j;
          return d == 1 || d == 2 || d == 4 ? 1.0 : 0.0;
        })) == doctest::Approx(std::log2(48.0)));
  std::vector<I> pairs;
  for (I a = 0; a < 5; ++a)
    for (I b = a + 1; b < 5; ++b) pairs.push_back(I{1} << a | I{1} << b);
  CHECK(bits(mask_of(10, [&](I i, I j) {
          return (pairs[static_cast<std::size_t>(i)] & pairs[static_cast<std::size_t>(j)]) == 0 ? 1.0 : 0.0;
        })) == doctest::Approx(std::log2(120.0)));
}

TEST_CASE("automorphisms: slices count together, orbits and factors") {
  using I = std::int64_t;
  const Tensor ring = mask_of(6, [](I i, I j) { return (i - j + 7) % 6 <= 2 ? 0.0 : -1.0; });
  const Tensor first = mask_of(6, [](I, I j) { return j == 0 ? 0.0 : -1.0; });
  const PermutationGroup both = automorphisms(stack({ring, first}, 0));
  CHECK(both.factors == std::vector<I>{2}); // the reflection that keeps token 0
  CHECK(both.orbits() == std::vector<std::vector<I>>{{0}, {1, 5}, {2, 4}, {3}});
  CHECK(automorphisms(stack({ring, ring}, 0)).factors == automorphisms(ring).factors);
  CHECK(automorphisms(Tensor::zeros({0, 0})).generators.empty());
  CHECK(automorphisms(Tensor::zeros({3, 0, 0})).factors.empty());
  CHECK(automorphisms(Tensor::zeros({1, 1})).log2_count() == 0.0);
  CHECK(automorphisms(Tensor::from<double>({0.0, -0.0, -0.0, 0.0}, {2, 2})).factors == std::vector<I>{2});
}

TEST_CASE("automorphisms: a masked attention commutes with them, forward and backward, and not with others") {
  using I = std::int64_t;
  const I n = 12, d = 6;
  const Tensor mask = mask_of(n, [](I i, I j) { return i / 4 == j / 4 && (j < i || i % 4 < 2) ? 0.0 : -1e9; });
  const PermutationGroup group = automorphisms(mask);
  CHECK(group.log2_count() > 2.0);
  const auto normal = [](const Shape& shape, std::uint64_t seed) {
    return random_normal(shape, {seed, 0}, 0.0, 1.0, DType::f64);
  };
  const Tensor x = normal({n, d}, 1), wq = normal({d, d}, 2), wk = normal({d, d}, 3), wv = normal({d, d}, 4);
  // [output, gradient by x, gradient by the queries' weights] for a cotangent of the output
  const auto f = [&](const Tensor& z, const Tensor& cotangent) {
    Tape tape;
    const Tensor y = matmul(softmax(matmul(linear(z, wq), linear(z, wk), false, true) * 0.4 + mask), linear(z, wv));
    std::vector<Tensor> all = tape.gradient(y, {z, wq}, cotangent);
    all.insert(all.begin(), y);
    return all;
  };
  const Tensor g = normal({n, d}, 5);
  const std::vector<Tensor> plain = f(x, g);
  const auto difference = [&](const Permutation& p) {
    const std::vector<Tensor> moved = f(p.apply(x, 0), p.apply(g, 0));
    return std::max({relative_error(moved[0], p.apply(plain[0], 0)), relative_error(moved[1], p.apply(plain[1], 0)),
                     relative_error(moved[2], plain[2])});
  };
  for (const Permutation& p : group.generators) CHECK(difference(p) < 1e-13);
  int others = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    if (const Permutation p = Permutation::random(n, {seed, 9}); !is_automorphism(mask, p)) {
      ++others;
      CHECK(difference(p) > 1e-3);
    }
  CHECK(others > 10);
}

TEST_CASE("automorphisms: of a mask as softmax sees it, as brute force on attention finds them") {
  RandomStream random({.seed = 78, .stream = 0});
  const double never = -std::numeric_limits<double>::infinity();
  int larger = 0; // masks whose group is missed when numbers added to rows are not taken away
  for (std::uint64_t round = 0; round < 60; ++round) {
    CAPTURE(round);
    const auto n = static_cast<std::int64_t>(round % 20 == 0 ? 6 : 3 + random.below(3));
    const bool both_ways = random.below(2) == 0;
    std::vector<double> rows, drawn(static_cast<std::size_t>(n * n));
    for (std::int64_t i = 0; i < n; ++i) rows.push_back(0.25 * static_cast<double>(random.below(8)));
    for (double& entry : drawn) entry = std::array{0.0, 0.0, -2.0, never}[random.below(4)];
    const Tensor mask = mask_of(n, [&](std::int64_t i, std::int64_t j) {
      const auto at = static_cast<std::size_t>(both_ways ? std::min(i, j) * n + std::max(i, j) : i * n + j);
      return drawn[at] + rows[static_cast<std::size_t>(i)];
    });
    const auto normal = [&](std::uint64_t stream) {
      return random_normal({n, 8}, {round, stream}, 0.0, 1.0, DType::f64);
    };
    const Tensor q = normal(1), k = normal(2), v = normal(3);
    const auto f = [&](const Permutation& p) {
      return attention_explicit(p.apply(q, 0), p.apply(k, 0), p.apply(v, 0), {.mask = mask}).output;
    };
    std::set<Gather> commuting;
    const Permutation one = Permutation::identity(n);
    const Tensor plain = f(one);
    Gather p = one.gather();
    do
      if (max(abs((f(Permutation(p)) - Permutation(p).apply(plain, 0)).reshape({-1})), 0).item() < 1e-8)
        commuting.insert(p);
    while (std::next_permutation(p.begin(), p.end()));
    CHECK(closure(automorphisms(softmax_form(mask))) == commuting);
    larger += closure(automorphisms(mask)).size() < commuting.size() ? 1 : 0;
  }
  CHECK(larger > 5);
}

TEST_CASE("automorphisms: softmax_form takes row maxima away without rounding") {
  using I = std::int64_t;
  CHECK(bits(softmax_form(mask_of(6, [](I i, I) { return 0.3 * static_cast<double>(i); }))) ==
        doctest::Approx(std::log2(720.0)));
  CHECK(bits(mask_of(6, [](I i, I) { return 0.3 * static_cast<double>(i); })) == 0.0);
  // 0 and 0.5 differ, though their distances from 2^60 round to one number.
  const Tensor near = Tensor::from<double>({0x1p60, 0.0, 0.5, 0x1p60}, {2, 2});
  CHECK(automorphisms(softmax_form(near)).factors.empty());
  const Tensor form = softmax_form(near);
  CHECK(form.shape() == Shape{2, 2, 2});
  CHECK(form.to_vector<double>() == std::vector<double>{0.0, -0x1p60, -0x1p60, 0.0, 0.0, 0.0, 0.5, 0.0});
  // A row that sees nothing is unlike one that sees all; booleans are as they are.
  const double never = -std::numeric_limits<double>::infinity();
  CHECK(automorphisms(softmax_form(Tensor::from<double>({never, never, 0.0, 0.0}, {2, 2}))).factors.empty());
  CHECK(automorphisms(softmax_form(Tensor::from<double>({-1e9, -1e9, 0.0, 0.0}, {2, 2}))).factors == std::vector<I>{2});
  CHECK(softmax_form(Tensor::zeros({2, 2}, DType::boolean)).dtype() == DType::boolean);
  CHECK_THROWS_AS(softmax_form(Tensor::full({2, 2}, -never)), ValueError);
  CHECK_THROWS_AS(softmax_form(Tensor::full({2, 2}, std::nan(""))), ValueError);
  CHECK_THROWS_AS(softmax_form(Tensor::zeros({2, 3})), ShapeError);
}

TEST_CASE("automorphisms: what is no mask is refused") {
  CHECK_THROWS_AS(automorphisms(Tensor::zeros({2, 3})), ShapeError);
  CHECK_THROWS_AS(automorphisms(Tensor::zeros({4})), ShapeError);
  CHECK_THROWS_AS(automorphisms(Tensor::full({2, 2}, std::nan(""))), ValueError);
  CHECK_THROWS_AS(automorphisms(Tensor::zeros({2, 2}, DType::i64)), DTypeError);
  CHECK_THROWS_AS(automorphisms(Tensor::zeros({2049, 2049}, DType::boolean)), ValueError);
  CHECK_THROWS_AS(is_automorphism(Tensor::zeros({3, 3}), Permutation::identity(2)), ShapeError);
}
