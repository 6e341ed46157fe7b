// Products of exact mode against their definition (core/ops/matmul/exact.h), whose sums are made here one by one.
#include "core/ops.h"
#include "core/reduction.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>
#include <random>
#include <vector>

using namespace eg;

namespace {

using Numbers = std::vector<double>;

/// The slices of one line, each below 1, and the power of two that it was divided by.
struct Line {
  std::vector<Numbers> slices;
  int exponent = 0;
};

Line cut(const Numbers& x, int count, int bits) {
  double largest = 0.0;
  for (const double v : x) largest = std::max(largest, std::abs(v));
  Line line;
  std::frexp(largest, &line.exponent);
  line.slices.assign(static_cast<std::size_t>(count), Numbers(x.size()));
  for (std::size_t j = 0; j < x.size(); ++j) {
    double rest = std::ldexp(x[j], -line.exponent);
    for (int s = 0; s < count; ++s) {
      const double rounder = std::ldexp(1.5, 52 - (s + 1) * bits);
      const double part = (rest + rounder) - rounder;
      line.slices[static_cast<std::size_t>(s)][j] = part;
      rest -= part;
    }
  }
  return line;
}

/// The slices that a product of T takes of a line.
template <class T> Line cut(const Numbers& x) {
  int log_terms = 2;
  while ((std::size_t{4} << (log_terms - 2)) < 4 * x.size()) ++log_terms;
  return cut(x, sizeof(T) == sizeof(float) ? 3 : 4, (53 - log_terms) / 2);
}

template <class T> T defined(const Line& a, const Line& b) {
  double total = 0.0;
  for (std::size_t order = a.slices.size(); order-- > 0;) {
    double sum = 0.0;
    for (std::size_t s = 0; s <= order; ++s) {
      const Numbers &left = a.slices[s], &right = b.slices[order - s];
      const double* const other = right.data();
      for (std::size_t p = 0; const double x : left) sum += x * other[p++];
    }
    total += sum;
  }
  return static_cast<T>(std::ldexp(total, a.exponent + b.exponent));
}
template <class T> T defined(const Numbers& row, const Numbers& column) {
  return defined<T>(cut<T>(row), cut<T>(column));
}

/// Numbers of many kinds: normal ones, few among zeros, integers, magnitudes of many powers of two, sums near a tie.
double drawn(std::mt19937_64& random, int kind) {
  const double x = std::normal_distribution<double>()(random);
  switch (kind) {
  case 0:
    return x;
  case 1:
    return random() % 8 == 0 ? x : 0.0;
  case 2:
    return static_cast<double>(static_cast<int>(random() % 9) - 4);
  case 3:
    return std::ldexp(x, -static_cast<int>(random() % 60));
  case 4:
    return random() % 16 == 0 ? 1.0 + std::ldexp(1.0, -12) : std::ldexp(x, -36);
  case 5:
    return random() % 32 == 0 ? 1e4 * x : x; // a few large ones
  case 6:
    return std::ldexp(static_cast<double>(random() % 4096), -12);
  default: { // sums that lie between two floats but for their last terms
    constexpr int exponents[] = {0, 0, -12, -24, -24, -44, -46};
    const double power = std::ldexp(1.0, exponents[random() % std::size(exponents)]);
    return random() % 4 == 0 ? -power : power;
  }
  }
}
constexpr int kinds = 8;

template <class T = float> Tensor of(const Numbers& x, const Shape& shape) {
  Tensor t = Tensor::empty(shape, sizeof(T) == sizeof(float) ? DType::f32 : DType::f64);
  for (std::size_t i = 0; i < x.size(); ++i) t.template mutable_data<T>()[i] = static_cast<T>(x[i]);
  return t;
}

template <class T>
void compare(std::mt19937_64& random, std::int64_t m, std::int64_t n, std::int64_t k, int a_kind, int b_kind) {
  const auto numbers = [&](std::int64_t count, int kind) {
    Numbers list(static_cast<std::size_t>(count));
    for (double& v : list) v = static_cast<double>(static_cast<T>(drawn(random, kind)));
    return list;
  };
  const Numbers a = numbers(m * k, a_kind), b = numbers(k * n, b_kind);
  const Tensor x = of<T>(a, {m, k}), y = of<T>(b, {k, n});
  const Tensor y_turned = y.transpose(0, 1).contiguous(), x_turned = x.transpose(0, 1).contiguous();
  const ReductionScope exact(Reduction::exact);
  const Tensor c = matmul(x, y);
  CHECK(same_bits(c, matmul(x, y_turned, false, true)));
  CHECK(same_bits(c, matmul(x_turned, y, true, false)));
  CHECK(same_bits(c, matmul(x_turned, y_turned, true, true)));
  const auto line = [&](const Numbers& from, std::int64_t first, std::int64_t step) {
    Numbers terms;
    for (std::int64_t p = 0; p < k; ++p) terms.push_back(from[static_cast<std::size_t>(first + p * step)]);
    return cut<T>(terms);
  };
  std::vector<Line> columns;
  for (std::int64_t j = 0; j < n; ++j) columns.push_back(line(b, j, n));
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < m; ++i) {
    const Line row = line(a, i * k, 1);
    for (std::int64_t j = 0; j < n; ++j) {
      const T wanted = defined<T>(row, columns[static_cast<std::size_t>(j)]), found = c.template data<T>()[i * n + j];
      different += std::memcmp(&wanted, &found, sizeof(T)) == 0 ? 0 : 1;
    }
  }
  CHECK_MESSAGE(different == 0, m, "x", k, "x", n, " kinds ", a_kind, ", ", b_kind);
}

} // namespace

TEST_CASE("every kind of numbers has the defined bits, in every layout") {
  std::mt19937_64 random(7);
  for (int a = 0; a < kinds; ++a)
    for (int b = 0; b < kinds; ++b)
      for (const std::int64_t k : {1, 2, 3, 17, 64, 65, 200}) {
        compare<float>(random, 1 + static_cast<std::int64_t>(random() % 9),
                       1 + static_cast<std::int64_t>(random() % 20), k, a, b);
        compare<double>(random, 1 + static_cast<std::int64_t>(random() % 5),
                        1 + static_cast<std::int64_t>(random() % 9), k, a, b);
      }
}

TEST_CASE("the last slices of either side decide where a sum is rounded") {
  const std::int64_t k = 512; // 21 bits a slice
  for (const double sign : {1.0, -1.0}) {
    // 1 + 2^-24 lies between two floats; the first two slices of all are on one side of it, the last ones cross it.
    Numbers picks(static_cast<std::size_t>(k), 0.0), between(picks.size(), 0.0);
    picks[3] = picks[100] = between[3] = 1.0;
    between[100] = 0x1p-24 - sign * 0x1p-41;
    for (std::size_t j = 200; j < 216; ++j) {
      picks[j] = 1.0;
      between[j] = sign * 0x1p-44;
    }
    const float wanted = sign > 0.0 ? 1.0F + 0x1p-23F : 1.0F;
    CHECK(defined<float>(picks, between) == wanted);
    CHECK(defined<float>(between, picks) == wanted);
    const Tensor x = of(picks, {1, k}), y = of(between, {k, 1});
    const ReductionScope exact(Reduction::exact);
    CHECK(matmul(x, y).item() == wanted);
    CHECK(matmul(y, x, true, true).item() == wanted);
  }
}

TEST_CASE("terms too small for an addition in double decide where a sum is rounded") {
  const Numbers ones(512, 1.0);
  for (const double sign : {1.0, -1.0}) {
    Numbers tie(ones.size(), sign * 0x1p-54); // 1 + 2^-24 lies between two floats
    tie[0] = 1.0;
    tie[1] = 0x1p-24;
    const float wanted = sign > 0.0 ? 1.0F + 0x1p-23F : 1.0F;
    CHECK(defined<float>(ones, tie) == wanted);
    const ReductionScope exact(Reduction::exact);
    CHECK(matmul(of(ones, {1, 512}), of(tie, {512, 1})).item() == wanted);
    CHECK(matmul(of(tie, {1, 512}), of(ones, {512, 1})).item() == wanted);
  }
}

TEST_CASE("what the definition drops is dropped where it would decide") {
  // 16 bits a slice: the product of a second and a third slice is left out, 2^-50 for each term, 2^-33 in all.
  const std::int64_t k = 140000;
  Numbers small(static_cast<std::size_t>(k), 0x1p-17), smaller(small.size(), 0x1p-33);
  small[0] = small[1] = smaller[0] = 1.0;
  smaller[1] = 0x1p-24;
  CHECK(defined<float>(small, smaller) == 1.0F);
  double whole = 0.0;
  for (std::size_t p = small.size(); p > 0; --p) whole += small[p - 1] * smaller[p - 1];
  CHECK(static_cast<float>(whole) == 1.0F + 0x1p-23F);
  const ReductionScope exact(Reduction::exact);
  CHECK(matmul(of(small, {1, k}), of(smaller, {k, 1})).item() == 1.0F);
  CHECK(matmul(of(smaller, {1, k}), of(small, {k, 1})).item() == 1.0F);
}

TEST_CASE("products of several tiles have the defined bits") {
  std::mt19937_64 random(11);
  compare<float>(random, 301, 140, 33, 0, 0);
  compare<float>(random, 300, 131, 512, 0, 5); // lines 4096 bytes apart
  compare<float>(random, 37, 290, 40, 3, 3);
  compare<float>(random, 4200, 515, 5, 0, 0); // parts of rows
  compare<float>(random, 515, 4200, 5, 0, 7); // and of columns
  compare<float>(random, 60, 70, 100, 7, 7);  // sums near ties
  compare<float>(random, 90, 80, 50, 2, 2);   // integers: sums of 0, which has two signs
  compare<double>(random, 300, 130, 20, 5, 3);
}

TEST_CASE("sums beyond the largest float are infinite, and those next to it are not") {
  const ReductionScope exact(Reduction::exact);
  const float most = std::numeric_limits<float>::max(), infinity = std::numeric_limits<float>::infinity();
  for (const float sign : {1.0F, -1.0F}) {
    const auto product = [&](double a, double b, double c, double d) {
      return matmul(of({a, b}, {1, 2}), of({c, d}, {2, 1})).item() * static_cast<double>(sign);
    };
    const double s = static_cast<double>(sign);
    CHECK(product(s * 0x1p100, 0.0, 0x1p100, 0.0) == static_cast<double>(infinity));
    CHECK(product(s * 0x1p100, s * 0x1p100, 0x1p28, -0x1p3) == static_cast<double>(infinity)); // a tie
    CHECK(product(s * 0x1p100, s * 0x1p100, 0x1p28, -0x1p4) == static_cast<double>(most));
    CHECK(product(s * static_cast<double>(most), s * 0x1p100, 1.0, 0x1p3) == static_cast<double>(infinity));
    CHECK(product(s * static_cast<double>(most), s * 0x1p100, 1.0, 0x1p2) == static_cast<double>(most));
  }
}

TEST_CASE("long sums have the defined bits") {
  std::mt19937_64 random(12);
  for (const auto& [a, b] : {std::pair(0, 0), std::pair(3, 0), std::pair(7, 7), std::pair(5, 1)})
    compare<float>(random, 3, 5, 70001, a, b);
}
