// Random programs, all permutations of all axes of their leaves: how often what is inferred is all there is.

#include "core/ops/list.h"
#include "fuzz/inference/survey.h"

#include <doctest/doctest.h>

using namespace eg;
using namespace eg::fuzz;

namespace {

Program one_step(const std::vector<ProgramLeaf>& leaves, const OpDef& op, Attrs attrs = {}) {
  Program p;
  p.leaves = leaves;
  ProgramStep step{&op, {}, std::move(attrs)};
  for (std::size_t i = 0; i < leaves.size(); ++i) step.in.emplace_back(leaf_ref(i));
  p.steps = {step};
  p.outputs = {step_ref(0)};
  return p;
}

} // namespace

TEST_CASE("brute force counts what is known") {
  // x W^T: the rows of both, and their columns together.
  const Program product = one_step({{{3, 2}}, {{3, 2}}}, linear_op);
  const BruteForce linear = try_all(product, claims_of(product));
  CHECK(linear.combinations == 6 * 2 * 6 * 2);
  CHECK(linear.found == 6 * 6 * 2);
  CHECK(linear.outcome == BruteForce::Outcome::whole);
  // Rows that are looked up: those of the table with the numbers, and the places of the numbers.
  const Program lookup = one_step({{{3, 2}}, {{2}, 3}}, embedding_op);
  const BruteForce rows = try_all(lookup, claims_of(lookup));
  CHECK(rows.combinations == 6 * 2 * 2 * 6);
  CHECK(rows.found == 6 * 2 * 2);
  CHECK(rows.outcome == BruteForce::Outcome::whole);
  // The sum of all: the rows in any order, each with its own; no permutation of axes, so nothing to compare.
  const Program total = one_step({{{3, 2}}}, sum_op);
  CHECK(try_all(total, claims_of(total)).outcome == BruteForce::Outcome::skipped);
  // A flipped axis moves the other way round.
  Program turned = one_step({{{3}}, {{3}}}, add_op);
  turned.steps.insert(turned.steps.begin(), {&flip_op, {leaf_ref(0)}, {{"axes", std::vector<std::int64_t>{0}}}});
  turned.steps[1].in[0] = step_ref(0);
  turned.outputs = {step_ref(1)};
  const BruteForce flipped = try_all(turned, claims_of(turned));
  CHECK(flipped.found == 6);
  CHECK(flipped.outcome == BruteForce::Outcome::whole);
}

TEST_CASE("control: brute force denies a group that is too large, and notices one that is too small") {
  const Program without = one_step({{{3, 2}}, {{3, 2}}}, linear_op);
  Program program = without;
  program.steps.push_back({&cumsum_op, {step_ref(0)}, {{"axis", std::int64_t{0}}}});
  program.outputs = {step_ref(1)};
  CHECK(try_all(program, claims_of(program)).outcome == BruteForce::Outcome::whole);
  CHECK(try_all(program, claims_of(without)).outcome == BruteForce::Outcome::larger);
  const BruteForce small = try_all(without, claims_of(program));
  CHECK(small.outcome == BruteForce::Outcome::smaller);
  CHECK(small.inferred == 6 * 2);
  CHECK(small.found == 6 * 6 * 2);
}

TEST_CASE("most groups that are inferred of random programs are whole") {
  SurveyOptions options;
  options.seed = 20261125;
  options.programs = 3000;
  options.brute_force = true;
  options.brute_forced_at_most = 150;
  options.shrink = false;
  const Survey found = survey(options);
  MESSAGE(summary_of(found));
  CHECK(found.counterexamples.empty());
  CHECK(found.all.compared() > 120);
  CHECK(found.plain.compared() > 40);
  CHECK(found.all.share() > 0.85);
  CHECK(found.plain.share() > 0.9);
}
