#include "core/registry.h"
#include "golden/counterparts.h"
#include "golden/run.h"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

using namespace eg;

namespace {

constexpr std::size_t wanted_cases = 20;

/// What one row's cases came to.
struct Tally {
  std::size_t cases = 0;
  bool differentiated = false;
  bool twice = false;
  golden::Errors f64;
  golden::Errors f32;
};

void widen(golden::Errors& most, const golden::Errors& e) {
  most.values = std::max(most.values, e.values);
  most.gradients = std::max(most.gradients, e.gradients);
  most.second = std::max(most.second, e.second);
}

const std::vector<golden::Case>& all_cases() {
  static const std::vector<golden::Case> cases = golden::read(EQUIGRAD_SOURCE_DIR "/tests/golden/pytorch.golden");
  return cases;
}

std::string number(double x, bool there) {
  if (!there) return "-";
  return x == 0.0 ? std::string("0") : fmt::format("{:.1e}", x);
}

std::string table(const std::map<std::string, Tally>& tallies) {
  std::size_t cases = 0;
  for (const auto& [op, t] : tallies) cases += t.cases;
  std::string text = fmt::format(
      "# Agreement with PyTorch\n\n"
      "Written by the test `golden_test` (run it with EQUIGRAD_WRITE_DOCS=1). {} calls of {} operations, computed by\n"
      "PyTorch 1.13.1 in float64; tests/golden/README.md says how they were drawn and compared. Largest difference of "
      "any\n"
      "entry, relative to the largest entry of its tensor. The f64 columns show what the file keeps of a number (31 "
      "bits\n"
      "below the largest entry of a tensor): up to 9.3e-10. Inputs are multiples of small powers of two, so products "
      "and "
      "sums\n"
      "of few terms are exact in f32 too: a 0 there says that the formula is right; what rounding does is in ulp.md "
      "and "
      "laws.md.\n\n"
      "| operation | calls | values f64 | gradients f64 | second f64 | values f32 | gradients f32 | second f32 |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|\n",
      cases, tallies.size());
  for (const auto& [op, t] : tallies)
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", op, t.cases, number(t.f64.values, true),
                        number(t.f64.gradients, t.differentiated), number(t.f64.second, t.twice),
                        number(t.f32.values, true), number(t.f32.gradients, t.differentiated),
                        number(t.f32.second, t.twice));
  text += "\nRows that PyTorch has no counterpart for:\n\n";
  for (const golden::NoCounterpart& row : golden::no_counterparts())
    text += fmt::format("- `{}`: {}\n", row.op, row.reason);
  if (!golden::exceptions().empty()) text += "\nRows with wider bounds in f32:\n\n";
  for (const golden::Exception& e : golden::exceptions())
    text += fmt::format("- `{}`: {:.0e}, {:.0e}, {:.0e}: {}\n", e.op, e.f32.values, e.f32.gradients, e.f32.second,
                        e.reason);
  return text;
}

} // namespace

TEST_CASE("every call agrees with PyTorch in values, gradients and second derivatives") {
  std::map<std::string, Tally> tallies;
  for (const golden::Case& c : all_cases()) {
    Tally& t = tallies[c.op];
    ++t.cases;
    t.differentiated = t.differentiated || c.depth == golden::Depth::first || c.depth == golden::Depth::second;
    t.twice = t.twice || c.depth == golden::Depth::second;
    for (const DType dtype : {DType::f64, DType::f32}) {
      const golden::Outcome outcome = golden::run(c, find_op(c.op), dtype);
      for (const std::string& failure : outcome.failures) FAIL_CHECK(failure);
      widen(dtype == DType::f64 ? t.f64 : t.f32, outcome.errors);
    }
  }
  CHECK(all_cases().size() > 1000);
  if (std::getenv("EQUIGRAD_WRITE_DOCS") != nullptr)
    std::ofstream(EQUIGRAD_SOURCE_DIR "/docs/numerics/golden.md", std::ios::binary) << table(tallies);
}

TEST_CASE("every row has golden cases or a reason why PyTorch has no counterpart") {
  std::map<std::string, std::size_t> count;
  for (const golden::Case& c : all_cases()) ++count[c.op];
  std::set<std::string> excused;
  for (const golden::NoCounterpart& row : golden::no_counterparts()) {
    CHECK_MESSAGE(excused.insert(row.op).second, "listed twice: ", std::string(row.op));
    CHECK_MESSAGE(!count.contains(row.op), "has cases and a reason to have none: ", std::string(row.op));
    CHECK_NOTHROW(find_op(row.op));
    CHECK(std::string(row.reason).size() > 20);
  }
  for (const OpDef* op : registry()) {
    const std::string name(op->name);
    if (excused.contains(name)) continue;
    CHECK_MESSAGE(count[name] >= wanted_cases, name, " has ", count[name],
                  " golden cases: add it to tests/golden/make.py and run that");
  }
}

TEST_CASE("every attribute is given in a golden case, every optional input in one and left out in another") {
  std::map<std::string, std::set<std::string>> given;
  std::map<std::string, std::set<std::string>> left_out;
  for (const golden::Case& c : all_cases()) {
    for (const auto& item : c.attrs.items()) given[c.op].insert(item.first);
    const OpDef& op = find_op(c.op);
    for (std::size_t i = 0; i < op.inputs.size() && !op.variadic; ++i) {
      const bool there = i < c.inputs.size() && c.inputs[i].given;
      (there ? given : left_out)[c.op].emplace(op.inputs[i].name);
    }
  }
  for (const auto& row : given) {
    const OpDef& op = find_op(row.first);
    for (const AttrSpec& a : op.attributes)
      CHECK_MESSAGE(row.second.contains(std::string(a.name)), row.first, ": no case gives ", std::string(a.name));
    for (const InputSpec& x : op.inputs) {
      if (!x.optional) continue;
      CHECK_MESSAGE(row.second.contains(std::string(x.name)), row.first, ": no case gives ", std::string(x.name));
      CHECK_MESSAGE(left_out[row.first].contains(std::string(x.name)), row.first, ": no case without ",
                    std::string(x.name));
    }
  }
}

TEST_CASE("rows with gradients have golden derivatives") {
  std::set<std::string> twice;
  for (const golden::Case& c : all_cases())
    if (c.depth == golden::Depth::second) twice.insert(c.op);
  for (const golden::Case& c : all_cases()) {
    if (!has_gradient(find_op(c.op))) {
      const bool values_alone = c.depth == golden::Depth::values || c.depth == golden::Depth::extremes;
      CHECK_MESSAGE(values_alone, c.op, " has no gradient but derivatives in the golden file");
    } else {
      CHECK_MESSAGE(twice.contains(c.op), c.op, " has a gradient but no second derivatives in the golden file");
    }
  }
}

TEST_CASE("docs/numerics/golden.md names every row with cases") {
  std::ifstream file(EQUIGRAD_SOURCE_DIR "/docs/numerics/golden.md", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  std::map<std::string, std::size_t> count;
  for (const golden::Case& c : all_cases()) ++count[c.op];
  for (const auto& row : count) { // no structured binding: a lambda of doctest reads it, which clang 14 refuses
    INFO("run the golden tests with EQUIGRAD_WRITE_DOCS=1 and commit docs/numerics/golden.md");
    const bool found = text.str().find(fmt::format("| {} | {} |", row.first, row.second)) != std::string::npos;
    CHECK_MESSAGE(found, row.first);
  }
}
