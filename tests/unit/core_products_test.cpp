// Products of many numbers: rows and columns against plain loops, far beyond the range of a double on the way.

#include "core/ops.h"
#include "core/ops/reduce/products.h"
#include "core/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

using namespace eg;

namespace {

/// [rows, columns], each factor up to 2^powers larger or smaller than 1.
template <class T> std::vector<T> factors(std::int64_t rows, std::int64_t columns, double powers, std::uint64_t seed) {
  const Tensor x = random_uniform({rows, columns}, RandomKey{seed, 7}, -1.0, 1.0, DType::f64);
  std::vector<T> values;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const double at = x.data<double>()[i];
    values.push_back(static_cast<T>((at < 0 ? -1.0 : 1.0) * std::exp2(powers * (2 * std::abs(at) - 1))));
  }
  return values;
}

/// Largest relative error of the products of all but one factor of each column, by `run`.
template <class T> double error_of_columns(std::int64_t rows, std::int64_t columns, double powers) {
  const std::vector<T> x = factors<T>(rows, columns, powers, 11);
  std::vector<T> y(x.size());
  std::vector<double> mantissa(static_cast<std::size_t>(rows * reduce::scratch_columns));
  std::vector<std::int64_t> exponent(mantissa.size());
  const auto marks = std::make_unique<bool[]>(static_cast<std::size_t>(columns));
  reduce::others_of_columns(x.data(), rows, columns, columns, y.data(), mantissa.data(), exponent.data(), marks.get());
  REQUIRE(std::count(marks.get(), marks.get() + columns, true) == 0);
  double worst = 0;
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r) {
      long double others = 1; // of 64 bits' mantissa and 2^16384
      for (std::int64_t i = 0; i < rows; ++i)
        if (i != r) others *= static_cast<long double>(x[static_cast<std::size_t>(i * columns + c)]);
      const T want = static_cast<T>(others);
      const T got = y[static_cast<std::size_t>(r * columns + c)];
      if (got == want) continue;
      worst = std::max(worst, std::abs(static_cast<double>(got) - static_cast<double>(want)) /
                                  std::max(std::abs(static_cast<double>(want)), 1e-300));
    }
  return worst;
}

template <class T> double error_of_row(std::int64_t n, double powers) {
  const std::vector<T> x = factors<T>(1, n, powers, 13);
  std::vector<T> y(x.size());
  std::vector<double> mantissa(static_cast<std::size_t>(n + reduce::most_lanes));
  std::vector<std::int64_t> exponent(mantissa.size());
  REQUIRE(reduce::others_of_row(x.data(), n, y.data(), mantissa.data(), exponent.data()));
  double worst = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    long double others = 1;
    for (std::int64_t j = 0; j < n; ++j)
      if (j != i) others *= static_cast<long double>(x[static_cast<std::size_t>(j)]);
    const T want = static_cast<T>(others);
    const T got = y[static_cast<std::size_t>(i)];
    if (got == want) continue;
    worst = std::max(worst, std::abs(static_cast<double>(got) - static_cast<double>(want)) /
                                std::max(std::abs(static_cast<double>(want)), 1e-300));
  }
  return worst;
}

} // namespace

TEST_CASE("products of others of rows and columns agree with plain loops") {
  for (const std::int64_t n : {1, 2, 3, 7, 8, 9, 31, 64}) {
    CAPTURE(n);
    CHECK(error_of_row<float>(n, 1.0) < 1e-6);
    CHECK(error_of_row<double>(n, 1.0) < 1e-13);
    CHECK(error_of_row<double>(n, 200.0) < 1e-13);          // up to 2^12800 on the way
    for (const std::int64_t columns : {1, 3, 8, 17, 150}) { // one vector at a time, and many
      CHECK(error_of_columns<float>(n, columns, 1.0) < 1e-6);
      CHECK(error_of_columns<float>(n, columns, 120.0) < 1e-6);
      CHECK(error_of_columns<double>(n, columns, 200.0) < 1e-13);
    }
  }
}

TEST_CASE("products of columns agree with those of rows, and a factor of 0, infinity or NaN is told") {
  const std::int64_t rows = 25, columns = 37;
  const std::vector<float> x = factors<float>(rows, columns, 120.0, 17);
  std::vector<double> mantissa(static_cast<std::size_t>(columns));
  std::vector<std::int64_t> exponent(static_cast<std::size_t>(columns));
  bool marks[columns];
  reduce::column_products(x.data(), rows, columns, columns, mantissa.data(), exponent.data(), marks);
  REQUIRE(std::count(marks, marks + columns, true) == 0);
  const std::vector<double> all_normal = mantissa;
  for (std::int64_t c = 0; c < columns; ++c) {
    std::vector<float> column;
    for (std::int64_t r = 0; r < rows; ++r) column.push_back(x[static_cast<std::size_t>(r * columns + c)]);
    const reduce::RowProduct row = reduce::row_product(column.data(), rows);
    const auto at = static_cast<std::size_t>(c);
    CHECK(row.exponent - exponent[at] == 0);
    CHECK(std::abs(mantissa[at] / row.mantissa - 1) < 1e-14);
    column[3] *= 2.0F; // the check sees a wrong factor
    CHECK(reduce::row_product(column.data(), rows).exponent != exponent[at]);
  }
  std::vector<double> scratch(static_cast<std::size_t>(rows * std::max(columns, reduce::scratch_columns)));
  std::vector<std::int64_t> powers(scratch.size());
  std::vector<float> y(x.size());
  for (const float odd : {0.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    for (const std::size_t place : {std::size_t{0}, std::size_t{36}, x.size() - 1}) {
      std::vector<float> with = x;
      with[place] = odd;
      reduce::column_products(with.data(), rows, columns, columns, mantissa.data(), exponent.data(), marks);
      for (std::size_t c = 0; c < all_normal.size(); ++c) { // the others keep their bits
        CHECK(marks[c] == (c == place % all_normal.size()));
        CHECK((marks[c] || mantissa[c] == all_normal[c]));
      }
      reduce::others_of_columns(with.data(), rows, columns, columns, y.data(), scratch.data(), powers.data(), marks);
      for (std::size_t c = 0; c < all_normal.size(); ++c) CHECK(marks[c] == (c == place % all_normal.size()));
      CHECK(!reduce::others_of_row(with.data(), rows * columns, y.data(), scratch.data(), powers.data()));
      CHECK(!reduce::row_product(with.data(), rows * columns).normal);
    }
}

TEST_CASE_TEMPLATE("products of a column's others do not depend on zeros in other columns", T, float, double) {
  const Shape shape{61, 300}; // several blocks of columns, and a rest
  const Tensor x = random_uniform(shape, {7, 1}, 0.8, 1.25, dtype_of<T>);
  const Tensor want = prod_of_others(x, 0);
  for (const std::int64_t every : {1, 2, 16, 70}) {
    Tensor with = x.clone();
    for (std::int64_t c = 0; c < shape[1]; c += every) with.mutable_data<T>()[c] = 0;
    const Tensor got = prod_of_others(with, 0);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const std::int64_t row = i / shape[1], column = i % shape[1];
      if (column % every != 0 || row == 0)
        REQUIRE(got.data<T>()[i] == want.data<T>()[i]);
      else
        REQUIRE(got.data<T>()[i] == 0);
    }
  }
}

TEST_CASE("prod and its gradient along the first axis take zeros, infinities and NaN as the plain product does") {
  const Tensor x =
      Tensor::from<float>({2, 0, 0, 3, 1, 5, 0, 2, 4, -1, 7, 2}, {3, 4}); // columns with 0, 1, 2 and 0 zeros
  const Tensor others = prod_of_others(x, 0);
  const std::vector<float> want = {4, -5, 0, 4, 8, 0, 0, 6, 2, 0, 0, 6};
  for (std::size_t i = 0; i < want.size(); ++i) CHECK(others.data<float>()[i] == want[i]);
  const Tensor y = prod(x, {0});
  for (const auto& [place, value] : {std::pair{0, 8.0F}, {1, 0.0F}, {2, 0.0F}, {3, 12.0F}})
    CHECK(y.data<float>()[place] == value);
}
