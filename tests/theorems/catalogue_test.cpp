// Every row of the catalogue, in both precisions, for several seeds and sizes; and the catalogue itself: its gates must
// catch what is wrong.

#include "core/threads/parallel.h"
#include "permute/catalogue/case.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

namespace {

using namespace eg::permute;

VerifyOptions sized(std::int64_t tokens, std::int64_t dim, std::int64_t heads, std::int64_t hidden,
                    std::int64_t layers) {
  VerifyOptions options;
  options.tokens = tokens;
  options.dim = dim;
  options.heads = heads;
  options.hidden = hidden;
  options.layers = layers;
  return options;
}

void check_row(const Identity& identity, VerifyOptions options) {
  for (const eg::DType dtype : {eg::DType::f64, eg::DType::f32}) {
    options.dtype = dtype;
    const VerifyResult r = verify(identity, options);
    INFO(r.id, " ", std::string(eg::name_of(dtype)), " seed ", r.seed, ": error ", r.error, " (", r.detail,
         "), tolerance ", r.tolerance, "; control \"", r.control.what, "\" ", r.control.error);
    CHECK(r.pass);
    CHECK(r.draws == 1); // at these sizes no control agrees by chance
    CHECK_FALSE(r.control.what.empty());
  }
}

TEST_CASE("catalogue: every row holds, and its negative control fails") {
  for (const Identity& identity : catalogue()) {
    SUBCASE(identity.id.c_str()) {
      for (const std::uint64_t seed : {1U, 2U, 3U}) {
        VerifyOptions options;
        options.seed = seed;
        check_row(identity, options);
      }
    }
  }
}

TEST_CASE("catalogue: other sizes") {
  for (const Identity& identity : catalogue()) {
    SUBCASE(identity.id.c_str()) {
      VerifyOptions wide = sized(17, 24, 2, 40, 1);
      wide.seed = 11;
      wide.steps = 20;
      check_row(identity, wide);
      VerifyOptions narrow = sized(5, 8, 4, 5, 3);
      narrow.seed = 12;
      narrow.steps = 20;
      check_row(identity, narrow);
    }
  }
}

Identity row(Gate gate, std::function<Claim(Case&)> run) {
  return {"test", "a row of the test", "", "", ClaimKind::identity, gate, "", "", std::move(run)};
}

TEST_CASE("catalogue: what is wrong is reported as failure") {
  const eg::Tensor one = eg::Tensor::ones({3}, eg::DType::f64), two = eg::Tensor::full({3}, 2.0, eg::DType::f64);
  const VerifyOptions options;
  const auto result = [&](auto fill) {
    return verify(row(Gate::one_pass,
                      [&](Case&) {
                        Claim claim;
                        fill(claim);
                        return claim;
                      }),
                  options);
  };
  CHECK(result([&](Claim& c) { c.equal("same", one, one), c.differs("other", one, two); }).pass);
  // a control that does not fail
  CHECK_FALSE(result([&](Claim& c) { c.equal("same", one, one), c.differs("no control", one, one); }).pass);
  CHECK_FALSE(result([&](Claim& c) { c.equal("same", one, one), c.differs("too near", one + 5e-4, one); }).pass);
  // no control, nothing compared
  CHECK_FALSE(result([&](Claim& c) { c.equal("same", one, one); }).pass);
  CHECK_FALSE(result([&](Claim& c) { c.differs("other", one, two); }).pass);
  // an identity that does not hold
  const VerifyResult off = result([&](Claim& c) { c.equal("near", one + 1e-9, one), c.differs("other", one, two); });
  CHECK_FALSE(off.pass);
  CHECK(off.detail == "near");
  CHECK(off.error == doctest::Approx(1e-9).epsilon(1e-3));
  // not a number, and shapes that do not fit
  CHECK_FALSE(result([&](Claim& c) { c.equal("nan", eg::log(one * -1.0), one), c.differs("other", one, two); }).pass);
  const VerifyResult shapes = result(
      [&](Claim& c) { c.equal("shapes", one, eg::Tensor::ones({4}, eg::DType::f64)), c.differs("other", one, two); });
  CHECK_FALSE(shapes.pass);
  CHECK(shapes.detail == "verify: shapes: one side is [3], the other [4]");
  // one bit is enough where bits are promised
  CHECK_FALSE(result([&](Claim& c) {
                c.equal_bits("bits", one + 1e-16 * 4, one), c.differs("other", one, two);
              }).bitwise.value());
  CHECK_FALSE(verify(row(Gate::bits,
                         [&](Case&) {
                           Claim c;
                           c.equal_bits("bits", one + 4e-16, one);
                           c.differs("other", one, two);
                           return c;
                         }),
                     options)
                  .pass);
}

TEST_CASE("catalogue: ids are unique, complete and explained in docs/catalogue.md") {
  std::set<std::string> ids;
  std::ostringstream page;
  page << std::ifstream(EQUIGRAD_SOURCE_DIR "/docs/catalogue.md").rdbuf();
  const std::string text = page.str();
  for (const Identity& identity : catalogue()) {
    INFO(identity.id);
    CHECK(ids.insert(identity.id).second);
    CHECK_FALSE(identity.title.empty());
    CHECK_FALSE(identity.statement.empty());
    CHECK_FALSE(identity.tex.empty());
    CHECK(text.find("`" + identity.id + "`") != std::string::npos);
    CHECK(text.find(identity.tex) != std::string::npos);
  }
  for (const char* id :
       {"toy",          "perm-orth",     "fwd-defs",   "eq22",      "eq23",         "eq24",         "eq25",
        "eq26",         "eq27",          "eq28",       "eq29",      "eq30",         "eq31",         "eq32",
        "eq33",         "eq34",          "lem9.1",     "eq36",      "lem9.2",       "lem9.3",       "lem9.4",
        "lem9.5",       "lem9.5-bn",     "lem9.6",     "mh-valid",  "mh-decoupled", "thm4.1",       "thm4.2",
        "cor4.3",       "thm4.4",        "eq5",        "eq6",       "thm4.5",       "cor4.6",       "thm4.7",
        "lem4.8",       "eq12",          "eq13",       "eq45",      "eq46",         "eq47",         "eq52",
        "eq56",         "eq60",          "eq61",       "eq62",      "eq63",         "eq64",         "eq65",
        "eq66",         "eq67",          "eq68",       "eq69",      "eq70",         "eq71",         "eq72",
        "eq73",         "eq74",          "eq75",       "eq76-q",    "eq76-k",       "eq76-v",       "eq77-w1",
        "eq77-w2",      "grads-rest",    "thm10.1",    "eq78",      "eq79",         "eq80",         "thm10.2",
        "eq81",         "eq82",          "eq83",       "eq84",      "eq85",         "eq86",         "alg1",
        "pma",          "mask-aut",      "cls-note",   "s1-conv",   "s1-reenc",     "s2-matrix",    "s2-order",
        "s2-pe",        "s3-w",          "s3-mha",     "stip-thm1", "stip-llama",   "stip-rms",     "stip-swiglu",
        "swiglu-scale", "stip-dec-row",  "stip-scope", "rope",      "rope-scale",   "gqa",          "kv-cache",
        "rms-orth",     "ln-orth",       "moe",        "dropout",   "pe-order",     "s1-thm1",      "s1-thm2",
        "s1-thm3",      "s1-thm4",       "s1-thm5",    "s1-eq10",   "s1-eq11",      "s1-sigma",     "s1-C.4",
        "s1-eq83",      "s1-eq97",       "s2-list",    "s3-kv",     "s3-eq",        "s3-self",      "stip-ln",
        "stip-enc-row", "stip-sec",      "stip-alg1",  "eq58",      "eq59",         "moe-capacity", "drop-path",
        "quant-blocks", "grad-covector", "ln-sign",    "bk-rotary", "train-orth",   "train-sign",   "ms-def"})
    CHECK_MESSAGE(ids.contains(id), id);
}

TEST_CASE("catalogue: filters") {
  const auto count = [](const char* filter) {
    return std::count_if(catalogue().begin(), catalogue().end(),
                         [&](const Identity& identity) { return matches(identity, filter); });
  };
  CHECK(count("lem9.1") == 1);
  CHECK(count("eq35") == 1); // the number of lemma 9.1's equation
  CHECK(count("eq9") == 2);  // within 8-11: theorem 4.7 and lemma 4.8
  CHECK(count("cor4.6*") == 6);
  CHECK(count("nothing") == 0);
  VerifyOptions options;
  options.filter = "nothing";
  CHECK_THROWS_WITH_AS(run_catalogue(options), "verify: no identity fits the filter \"nothing\"", eg::ValueError);
  options.filter = "lem9.[";
  CHECK_THROWS_AS(run_catalogue(options), eg::ValueError);
  options.filter = "toy";
  int calls = 0;
  CHECK(run_catalogue(options, [&](const VerifyResult&) { ++calls; }).size() == 1);
  CHECK(calls == 1);
}

TEST_CASE("catalogue: refuses sizes that are none") {
  const auto refuses = [](auto change, const char* words) {
    VerifyOptions options;
    change(options);
    CHECK_THROWS_WITH_AS(check(options), doctest::Contains(words), eg::Error);
  };
  refuses([](VerifyOptions& o) { o.heads = 0; }, "heads must be between 1 and 4096: 0");
  refuses([](VerifyOptions& o) { o.tokens = -3; }, "tokens");
  refuses([](VerifyOptions& o) { o.dim = 13; }, "dim 13 must be a multiple of heads 3");
  refuses([](VerifyOptions& o) { o.hidden = 1000000; }, "hidden");
  refuses([](VerifyOptions& o) { o.dtype = eg::DType::i64; }, "dtype must be f32 or f64: i64");
}

TEST_CASE("catalogue: the same seed gives the same numbers, another seed others") {
  VerifyOptions options;
  const Identity& identity =
      *std::find_if(catalogue().begin(), catalogue().end(), [](const Identity& i) { return i.id == "mh-decoupled"; });
  const VerifyResult a = verify(identity, options), b = verify(identity, options);
  CHECK(a.error == b.error);
  CHECK(a.control.error == b.control.error);
  options.seed = 99;
  CHECK(verify(identity, options).control.error != a.control.error);
}

TEST_CASE("catalogue: the same numbers for any number of threads, whole training runs among them") {
  VerifyOptions options = sized(33, 48, 3, 96, 2);
  options.steps = 8;
  options.batch = 4;
  for (const eg::DType dtype : {eg::DType::f32, eg::DType::f64}) {
    options.dtype = dtype;
    for (const char* id : {"mh-decoupled", "cor4.6-adam", "alg1"}) {
      INFO(id);
      const Identity& identity =
          *std::find_if(catalogue().begin(), catalogue().end(), [&](const Identity& i) { return i.id == id; });
      std::vector<std::vector<eg::Tensor>> results;
      for (const int threads : {1, 2, 3}) {
        eg::parallel::set_threads(threads);
        Case c(options, identity.id, dtype, true);
        const Claim claim = identity.run(c);
        results.emplace_back();
        for (const auto* list : {&claim.holds, &claim.fails})
          for (const Comparison& one : *list)
            results.back().insert(results.back().end(), {one.value.clone(), one.expected.clone()});
      }
      eg::parallel::set_threads(0);
      REQUIRE(results.front().size() >= 4);
      for (const std::vector<eg::Tensor>& tensors : results) {
        REQUIRE(tensors.size() == results.front().size());
        for (std::size_t i = 0; i < tensors.size(); ++i) CHECK(eg::same_bits(tensors[i], results.front()[i]));
      }
    }
  }
}

TEST_CASE("catalogue: exact reductions give both sides the same bits, ordinary ones do not") {
  std::int64_t compared = 0, ordinary = 0;
  for (const Identity& identity : catalogue()) {
    VerifyOptions options;
    options.exact = true;
    options.steps = 20;
    for (const eg::DType dtype : {eg::DType::f64, eg::DType::f32}) {
      options.dtype = dtype;
      const VerifyResult r = verify(identity, options);
      INFO(r.id, " ", std::string(eg::name_of(dtype)), ": ", r.differing_exact.value_or(-1), " of ", r.compared);
      CHECK(r.pass);
      CHECK((identity.two_formulas || r.differing_exact == 0));
      compared += r.compared;
      ordinary += r.differing;
    }
  }
  CHECK(compared > 50000);
  CHECK(ordinary > compared / 4);
}

/// The ids between "(" and ")" of the paragraph that begins "**`--exact`**"; "`eq14` to `eq21`" stands for all of them.
std::set<std::string> two_formulas_of(const std::string& page) {
  const std::size_t start = page.find("**`--exact`**"), open = page.find('(', start), close = page.find(')', open);
  std::istringstream words(page.substr(open + 1, close - open - 1));
  std::set<std::string> ids;
  std::string word, last;
  bool range = false;
  while (words >> word) {
    if (word == "to") {
      range = true;
      continue;
    }
    const std::string id = word.substr(1, word.rfind('`') - 1);
    if (range)
      for (int n = std::stoi(last.substr(2)); n < std::stoi(id.substr(2)); ++n) ids.insert("eq" + std::to_string(n));
    range = false;
    ids.insert(last = id);
  }
  return ids;
}

TEST_CASE("catalogue: docs/catalogue.md lists the rows whose sides are two formulas") {
  std::ostringstream page;
  page << std::ifstream(EQUIGRAD_SOURCE_DIR "/docs/catalogue.md").rdbuf();
  std::set<std::string> rows;
  for (const Identity& identity : catalogue())
    if (identity.two_formulas) rows.insert(identity.id);
  CHECK(two_formulas_of(page.str()) == rows);
  CHECK(two_formulas_of("**`--exact`** (`a`, `eq3` to `eq5`)") == std::set<std::string>{"a", "eq3", "eq4", "eq5"});
}

TEST_CASE("catalogue: JSON has the promised fields") {
  VerifyOptions options;
  options.filter = "lem9.5*";
  std::vector<VerifyResult> results = run_catalogue(options);
  results.front().control.error = std::numeric_limits<double>::infinity();
  const std::string json = to_json(results);
  for (const char* field : {"\"results\"", "\"summary\"", "\"pass\": 6", "\"fail\": 0", "\"id\": \"lem9.5\"",
                            "\"title\"", "\"paper\"", "\"equation\": \"40\"", "\"kind\": \"erratum\"",
                            "\"dtype\": \"f64\"", "\"sizes\"", "\"seed\": 1", "\"error\": null", "\"tolerance\"",
                            "\"control\"", "\"must_exceed\": 0.001", "\"bitwise\"", "\"status\": \"pass\"", "\"ms\""})
    CHECK_MESSAGE(json.find(field) != std::string::npos, field);
}

TEST_CASE("catalogue: entries are counted by paper, once for both precisions") {
  VerifyOptions options;
  options.filter = "s3*";
  std::vector<VerifyResult> results = run_catalogue(options);
  const auto notes = static_cast<std::int64_t>(results.size());
  options.filter = "rope*";
  const std::vector<VerifyResult> own = run_catalogue(options);
  results.insert(results.end(), own.begin(), own.end());
  options.dtype = eg::DType::f32;
  const std::vector<VerifyResult> again = run_catalogue(options);
  results.insert(results.end(), again.begin(), again.end());
  const auto entries = entries_by_paper(results);
  REQUIRE(entries.size() == 2);
  CHECK(entries.at("003") == notes);
  CHECK(entries.at("new") == static_cast<std::int64_t>(own.size()));
  CHECK(to_json(results).find("\"papers\"") != std::string::npos);
}

} // namespace
