// Random programs: whatever group is inferred, its elements commute with the program, and gradients move as leaves do.

#include "core/ops/list.h"
#include "fuzz/inference/shrink.h"
#include "fuzz/inference/survey.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace eg;
using namespace eg::fuzz;

namespace {

constexpr std::uint64_t seed = 20261125;

ProgramStep step_of(const OpDef& op, std::vector<std::optional<ValueRef>> in, Attrs attrs = {}) {
  return {&op, std::move(in), std::move(attrs)};
}

/// y = softmax over rows of (x W^T), cumulated along them: the columns of x and W go together, all rows of x move.
Program two_steps() {
  Program p;
  p.leaves = {{{3, 4}}, {{3, 4}}};
  p.steps = {step_of(linear_op, {leaf_ref(0), leaf_ref(1)}),
             step_of(cumsum_op, {step_ref(0)}, {{"axis", std::int64_t{1}}}),
             step_of(softmax_op, {step_ref(1)}, {{"axis", std::int64_t{0}}})};
  p.outputs = {step_ref(2)};
  return p;
}

std::string all_of(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& one : list) text += "\n" + one;
  return text;
}

} // namespace

TEST_CASE("random programs commute with what is inferred of them, and so do their gradients") {
  SurveyOptions options;
  options.seed = seed;
  options.programs = 1000;
  const Survey found = survey(options);
  MESSAGE(summary_of(found));
  CHECK_MESSAGE(found.counterexamples.empty(), all_of(found.counterexamples));
  CHECK(found.programs == options.programs);
  // It must have asked something: many programs have symmetries and gradients, over most rows.
  CHECK(found.with_elements > 600);
  CHECK(found.with_gradients > 500);
  CHECK(found.rows.used.size() > 120);
}

TEST_CASE("a program is the same from the same key, on shapes and on values") {
  SurveyOptions options;
  options.seed = seed;
  for (std::int64_t number = 0; number < 50; ++number) {
    const Program program = program_of(options, number);
    CHECK(text_of(program) == text_of(program_of(options, number)));
    const std::vector<Tensor> values = run(program, leaf_values(program, {5, 1}));
    CHECK(values.size() == program.outputs.size());
  }
}

TEST_CASE("control: a leaf that stays where it is, is noticed") {
  const Program program = two_steps();
  CHECK(check_program(program, {}).finding == Finding::sound);
  CHECK(check_program(program, {}).elements > 0);
  for (const std::size_t leaf : {0U, 1U}) {
    CheckOptions wrong;
    wrong.unmoved_leaf = leaf;
    CHECK(check_program(program, wrong).finding == Finding::unsound);
  }
}

TEST_CASE("control: the inference of a program without one of its steps is noticed") {
  const Program program = two_steps();
  const std::vector<Program> others = without_step(program, 1); // rows of W would move, were they not cumulated
  REQUIRE(others.size() == 1);
  const CheckResult wrong = check_claims(program, claims_of(without_unused(others.front())), {});
  CHECK(wrong.finding == Finding::unsound);
  CHECK(wrong.error > 1e-3);
}

TEST_CASE("control: wrong inferences of random programs are noticed") {
  SurveyOptions options;
  options.seed = seed + 1;
  int unmoved = 0, unmoved_noticed = 0, shorter = 0, shorter_noticed = 0;
  for (std::int64_t number = 0; number < 200; ++number) {
    const Program program = program_of(options, number);
    if (check_program(program, {}).elements == 0) continue;
    CheckOptions wrong;
    wrong.unmoved_leaf = 0;
    ++unmoved;
    unmoved_noticed += check_program(program, wrong).finding == Finding::unsound ? 1 : 0;
    for (std::size_t s = 0; s < program.steps.size(); ++s)
      for (const Program& other : without_step(program, s)) {
        ++shorter;
        shorter_noticed +=
            check_claims(program, claims_of(without_unused(other)), {}).finding == Finding::unsound ? 1 : 0;
      }
  }
  MESSAGE("noticed: ", unmoved_noticed, " of ", unmoved, " leaves that stayed, ", shorter_noticed, " of ", shorter,
          " inferences of programs without a step (most of the steps forbid nothing)");
  CHECK(unmoved_noticed > unmoved / 3);
  CHECK(shorter_noticed > shorter / 20);
}

TEST_CASE("a failure is shrunk to the steps that matter") {
  Program program = two_steps();
  program.steps.push_back(step_of(tanh_op, {step_ref(2)}));
  program.steps.push_back(step_of(mul_op, {step_ref(3), step_ref(3)}));
  program.outputs = {step_ref(4), step_ref(0)};
  const Fails cumulates = [](const Program& p) {
    return std::any_of(p.steps.begin(), p.steps.end(), [](const ProgramStep& s) { return s.op == &cumsum_op; });
  };
  const Program small = shrunk(program, cumulates);
  CHECK(small.steps.size() == 1);
  CHECK(cumulates(small));
  CHECK(small.leaves.size() == 1);
}
