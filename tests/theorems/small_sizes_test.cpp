// Every row of the catalogue at the smallest sizes: it holds and its control fails, or it says what it needs. And
// explain(): the numbers that the errors come from.

#include "permute/catalogue/explain.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <nlohmann/json.hpp>

namespace {

using namespace eg::permute;

VerifyOptions sized(std::int64_t tokens, std::int64_t dim, std::int64_t heads, std::int64_t hidden = 4,
                    std::int64_t batch = 1, std::int64_t layers = 1) {
  VerifyOptions options;
  options.tokens = tokens;
  options.dim = dim;
  options.heads = heads;
  options.hidden = hidden;
  options.batch = batch;
  options.layers = layers;
  options.steps = 4;
  return options;
}

/// True when the row was measured.
bool check_row(const Identity& row, const VerifyOptions& options) {
  const VerifyResult r = verify(row, options);
  INFO(r.id, " ", std::string(eg::name_of(options.dtype)), " tokens ", options.tokens, " dim ", options.dim, " heads ",
       options.heads, " hidden ", options.hidden, " batch ", options.batch, " layers ", options.layers, ": error ",
       r.error, " (", r.detail, "), control \"", r.control.what, "\" ", r.control.error, ", draws ", r.draws);
  CHECK(r.skipped == what_is_missing(row, options));
  CHECK_FALSE(r.failed());
  CHECK(r.pass == r.skipped.empty());
  if (!r.skipped.empty()) CHECK(r.skipped.starts_with("needs at least "));
  return r.skipped.empty();
}

TEST_CASE("small sizes: every row holds with a control that fails, or says what it needs") {
  for (const Identity& row : catalogue()) {
    int measured = 0;
    for (std::int64_t tokens = 1; tokens <= 4; ++tokens)
      for (std::int64_t dim = 1; dim <= 4; ++dim)
        for (std::int64_t heads = 1; heads <= std::min<std::int64_t>(2, dim); ++heads) {
          if (dim % heads != 0) continue;
          for (const eg::DType dtype : {eg::DType::f64, eg::DType::f32}) {
            VerifyOptions options = sized(tokens, dim, heads);
            options.dtype = dtype;
            measured += check_row(row, options) ? 1 : 0;
          }
        }
    CHECK_MESSAGE(measured >= 1, row.id);
  }
}

TEST_CASE("small sizes: hidden features, samples and blocks") {
  for (const Identity& row : catalogue()) {
    if (row.sharp) continue; // searches, whose sizes are their own
    for (const VerifyOptions& options :
         {sized(3, 4, 2, 1), sized(3, 4, 2, 2), sized(2, 4, 2, 3, 2), sized(3, 4, 2, 4, 1, 2), sized(4, 6, 3, 2, 3, 2)})
      check_row(row, options);
  }
}

TEST_CASE("small sizes: two tokens and two features are enough for most rows, and four for all in f64") {
  std::ptrdiff_t two = 0;
  for (const Identity& row : catalogue()) {
    two += what_is_missing(row, sized(2, 2, 1, 2)).empty() ? 1 : 0;
    CHECK_MESSAGE(what_is_missing(row, sized(4, 4, 2)).empty(), row.id);
  }
  CHECK(two > static_cast<std::ptrdiff_t>(catalogue().size()) / 2);
}

const Identity& row_of(const char* id) {
  return *std::find_if(catalogue().begin(), catalogue().end(), [&](const Identity& row) { return row.id == id; });
}

TEST_CASE("small sizes: what is missing is said in words") {
  CHECK(what_is_missing(row_of("thm4.4"), sized(1, 2, 1)) == "needs at least 2 tokens and 2 heads");
  CHECK(what_is_missing(row_of("thm4.4"), sized(3, 2, 2)) == "needs at least 2 features a head");
  CHECK(what_is_missing(row_of("lem9.1"), sized(2, 2, 1)).empty());
  VerifyOptions narrow = sized(3, 4, 2);
  narrow.dtype = eg::DType::f32;
  CHECK(what_is_missing(row_of("thm4.4"), narrow) == "needs at least 4 tokens in f32 and 8 features in f32");
}

double largest(const std::vector<double>& values) {
  double most = 0.0;
  for (const double x : values) most = std::max(most, std::abs(x));
  return most;
}

TEST_CASE("explain: both sides of every row at its small sizes, with the errors that verify reports") {
  for (const Identity& row : catalogue()) {
    INFO(row.id);
    const VerifyOptions options = small_sizes(row);
    const Explanation e = explain(row, options);
    CHECK(e.result.pass);
    CHECK(e.statement == row.statement);
    CHECK(e.tex == row.tex);
    REQUIRE_FALSE(e.holds.empty());
    REQUIRE_FALSE(e.control.empty());
    double worst = 0.0, control = 0.0;
    for (const Comparison& c : e.holds) {
      const std::vector<double> left = elements_of(c.value), right = elements_of(c.expected);
      std::vector<double> difference;
      for (std::size_t i = 0; i < left.size(); ++i) difference.push_back(left[i] - right[i]);
      // The printed numbers give the printed error.
      const double error = scale_of(c) == 0.0 ? 0.0 : largest(difference) / scale_of(c);
      if (std::isfinite(c.error)) CHECK(error == doctest::Approx(c.error).epsilon(1e-6).scale(1e-15));
      worst = std::max(worst, c.error);
    }
    for (const Comparison& c : e.control) control = std::max(control, c.error);
    CHECK(control == e.result.control.error);
    if (e.result.draws == 1) CHECK(worst == e.result.error);
    const auto json = nlohmann::json::parse(to_json(std::vector<Explanation>{e}));
    const auto& result = json.at("results").at(0);
    CHECK(result.at("status") == "pass");
    CHECK(result.at("formula") == row.tex);
    CHECK(result.at("comparisons").size() == e.holds.size());
    CHECK(result.at("control").at("comparisons").size() == e.control.size());
  }
}

TEST_CASE("explain: JSON holds the matrices as nested lists") {
  const auto json =
      nlohmann::json::parse(to_json(std::vector<Explanation>{explain(row_of("toy"), small_sizes(row_of("toy")))}));
  const auto& first = json.at("results").at(0).at("comparisons").at(0);
  CHECK(first.at("left") == nlohmann::json::parse("[[5,6,7,8],[9,10,11,12],[1,2,3,4]]"));
  CHECK(first.at("right") == first.at("left"));
  CHECK(first.at("difference") == nlohmann::json::parse("[[0,0,0,0],[0,0,0,0],[0,0,0,0]]"));
  CHECK(first.at("shape") == nlohmann::json::parse("[3,4]"));
  CHECK(first.at("scale") == 12);
  CHECK(json.at("summary").at("skip") == 0);
}

TEST_CASE("explain: a skipped row has no sides") {
  const Explanation e = explain(row_of("gqa"), sized(2, 2, 1));
  CHECK(e.result.skipped == "needs at least 2 heads");
  CHECK(e.holds.empty());
  CHECK_FALSE(e.result.pass);
  CHECK_FALSE(e.result.failed());
  const auto json = nlohmann::json::parse(to_json(std::vector<Explanation>{e}));
  CHECK(json.at("results").at(0).at("status") == "skip");
  CHECK(json.at("summary").at("skip") == 1);
  CHECK(json.at("summary").at("fail") == 0);
}

TEST_CASE("small sizes: a control that never differs is drawn five times and fails") {
  const Identity row{"test", "a row of the test", "", "", ClaimKind::identity, Gate::one_pass, "", "", [](Case&) {
                       const eg::Tensor one = eg::Tensor::ones({3}, eg::DType::f64);
                       Claim claim;
                       claim.equal("same", one, one);
                       claim.differs("no control", one, one);
                       return claim;
                     }};
  const VerifyResult r = verify(row, sized(2, 2, 1));
  CHECK(r.failed());
  CHECK(r.draws == 5);
}

} // namespace
