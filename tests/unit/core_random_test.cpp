#include "core/random.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <numeric>

using namespace eg;

TEST_CASE("Philox 4x32-10 gives the known answers of Random123") {
  using Words = std::array<std::uint32_t, 4>;
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("numbers depend on key and position alone") {
  const RandomKey key{3, 4};
  const Tensor longer = random_normal({1000}, key, 0, 1, DType::f64);
  const Tensor shorter = random_normal({7}, key, 0, 1, DType::f64);
  CHECK(same_bits(longer.slice(0, 0, 7), shorter));
  CHECK_FALSE(same_bits(longer, random_normal({1000}, key.fold(1), 0, 1, DType::f64)));
  CHECK(same_bits(random_normal({1000}, key), longer.to(DType::f32)));
  const Tensor one_thread = random_uniform({100003}, key);
  parallel::set_threads(3);
  CHECK(same_bits(one_thread, random_uniform({100003}, key)));
  parallel::set_threads(0);
}

TEST_CASE("moments are those of the distributions") {
  const std::vector<double> z = random_normal({200000}, {5, 6}, 2.0, 3.0, DType::f64).to_vector<double>();
  const double mean = std::accumulate(z.begin(), z.end(), 0.0) / 2e5;
  double variance = 0;
  for (const double value : z) variance += (value - mean) * (value - mean) / 2e5;
  CHECK(std::abs(mean - 2.0) < 5 * 3.0 / std::sqrt(2e5));
  CHECK(std::abs(variance - 9.0) < 5 * 9.0 * std::sqrt(2.0 / 2e5));
  const std::vector<double> u = random_uniform({200000}, {5, 7}, -1.0, 3.0, DType::f64).to_vector<double>();
  CHECK(*std::min_element(u.begin(), u.end()) >= -1.0);
  CHECK(*std::max_element(u.begin(), u.end()) < 3.0);
  CHECK(std::abs(std::accumulate(u.begin(), u.end(), 0.0) / 2e5 - 1.0) < 5 * 4.0 / std::sqrt(12.0 * 2e5));
}

TEST_CASE("permutations of three are all equally likely") {
  std::array<int, 27> counts{};
  for (std::uint64_t i = 0; i < 6000; ++i) {
    const auto p = random_permutation(3, {8, i}).to_vector<std::int64_t>();
    ++counts[static_cast<std::size_t>(9 * p[0] + 3 * p[1] + p[2])];
  }
  int seen = 0;
  for (const int count : counts) {
    if (count == 0) continue;
    ++seen;
    CHECK(std::abs(count - 1000) < 150);
  }
  CHECK(seen == 6);
}

TEST_CASE("bad requests are refused") {
  CHECK_THROWS_AS(random_normal({2}, {1, 1}, 0, 1, DType::i64), DTypeError);
  CHECK_THROWS_WITH_AS(random_integers({2}, {1, 1}, 4, 4), "random_integers: [4, 4) is empty", ValueError);
}

TEST_CASE("uniform numbers never reach the upper bound, also after rounding") {
  // 2^24 and its neighbour below: half of the draws would round up.
  for (const float x : random_uniform({2000}, {9, 1}, 16777215.0, 16777216.0).to_vector<float>())
    CHECK(x < 16777216.0F);
  for (const double x : random_uniform({2000}, {9, 2}, 1.0, 1.0 + 0x1p-52, DType::f64).to_vector<double>())
    CHECK(x == 1.0);
  CHECK(random_uniform({1}, {9, 3}, 2.0, 2.0).item() == 2.0);
}

TEST_CASE("a folded key is no number that the seed draws") {
  for (const std::uint64_t tag : {0ULL, 1ULL, 77ULL}) {
    const RandomKey child = RandomKey{5, 0}.fold(tag);
    RandomStream drawn(RandomKey{5, tag});
    const std::uint64_t first = drawn.next_u64();
    CHECK(child.seed != first);
    CHECK(child.stream != drawn.next_u64());
  }
}

TEST_CASE("integers of the widest ranges") {
  constexpr std::int64_t least = INT64_MIN;
  constexpr std::int64_t most = INT64_MAX;
  bool negative = false;
  bool positive = false;
  for (const std::int64_t v : random_integers({64}, {10, 1}, least, most).to_vector<std::int64_t>()) {
    CHECK(v < most);
    negative = negative || v < 0;
    positive = positive || v > 0;
  }
  CHECK(negative);
  CHECK(positive);
  for (const std::int64_t v : random_integers({64}, {10, 2}, least, least + 3).to_vector<std::int64_t>())
    CHECK(v <= least + 2);
}
