#include "fuzz/inference/survey.h"

#include "core/base/error.h"
#include "core/ops/list.h"
#include "fuzz/inference/shrink.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace eg::fuzz {
namespace {

using Outcome = BruteForce::Outcome;

/// The operations of a program, each once, in the order of the alphabet.
std::string operations_of(const Program& program) {
  std::set<std::string_view> names;
  for (const ProgramStep& step : program.steps) names.insert(step.op->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// What the inference says of axes of leaves that it fixed, each reason once, without extents.
std::string reasons_of(const permute::ModelSymmetries& claims) {
  std::set<std::string> reasons;
  for (const permute::SymmetryGroup& g : claims.groups()) {
    const bool fixes_a_leaf = std::any_of(g.axes.begin(), g.axes.end(), [](const permute::AxisUse& use) {
      return use.role != permute::TensorRole::output;
    });
    if (g.kind == permute::GroupKind::trivial && fixes_a_leaf) reasons.insert(g.because);
  }
  return fmt::format("{}", fmt::join(reasons, "; "));
}

class Run {
public:
  explicit Run(const SurveyOptions& options) : options_(options) {}

  Survey result() {
    for (std::int64_t i = 0; i < options_.programs; ++i) {
      one(options_.first + i);
      if (options_.go_on && !options_.go_on(survey_)) break;
      if (options_.brute_forced_at_most >= 0 && survey_.all.compared() >= options_.brute_forced_at_most) break;
    }
    return std::move(survey_);
  }

private:
  void one(std::int64_t number) {
    const Program program = program_of(options_, number, &survey_.rows);
    const CheckResult result = check_program(program, options_.check);
    ++survey_.programs;
    ++survey_.findings[result.finding];
    survey_.elements += result.elements;
    survey_.with_elements += result.elements > 0 ? 1 : 0;
    survey_.with_gradients += result.gradients ? 1 : 0;
    if (result.finding == Finding::sound) survey_.largest_error = std::max(survey_.largest_error, result.error);
    if (result.finding == Finding::unsound || result.finding == Finding::thrown)
      report(number, program, result);
    else if (options_.brute_force && result.finding != Finding::not_run)
      brute_force(number, program);
  }

  /// The failure without what varies: extents in messages.
  static std::string kind_of(const CheckResult& result) {
    constexpr std::size_t shared_words = 24;
    return result.finding == Finding::thrown ? result.what.substr(0, shared_words) : name_of(result.finding);
  }

  void report(std::int64_t number, const Program& program, const CheckResult& result) {
    const auto fails = [&](const Program& p) { return kind_of(check_program(p, options_.check)) == kind_of(result); };
    const Program small = options_.shrink ? shrunk(program, fails) : program;
    const CheckResult own = check_program(small, options_.check);
    survey_.counterexamples.push_back(fmt::format("seed {} program {}: {}, {} ({:.1e})\n{}", options_.seed, number,
                                                  name_of(own.finding), own.what, own.error, text_of(small)));
  }

  BruteForce tried(const Program& program) const { return try_all(program, claims_of(program), options_.brute); }

  void brute_force(std::int64_t number, const Program& program) {
    const BruteForce result = tried(program);
    if (result.outcome == Outcome::skipped) return;
    const bool degenerate = !degenerate_reason(program).empty();
    count(survey_.all, result.outcome);
    if (!degenerate) count(survey_.plain, result.outcome);
    if (result.outcome == Outcome::smaller) note_missed(number, program, degenerate);
  }

  static void count(WholeGroups& groups, Outcome outcome) {
    ++(outcome == Outcome::whole ? groups.whole : outcome == Outcome::smaller ? groups.smaller : groups.beyond);
  }

  /// A program that is not degenerate is shrunk to another one that is not.
  void note_missed(std::int64_t number, const Program& program, bool degenerate) {
    const Program small = !options_.shrink ? program : shrunk(program, [&](const Program& p) {
      return (degenerate || degenerate_reason(p).empty()) && tried(p).outcome == Outcome::smaller;
    });
    const BruteForce own = tried(small);
    survey_.missed.push_back({static_cast<std::uint64_t>(number), text_of(small), operations_of(small),
                              reasons_of(claims_of(small)), degenerate, own.inferred, own.found});
  }

  const SurveyOptions& options_;
  Survey survey_;
};

} // namespace

double WholeGroups::share() const {
  return compared() == 0 ? 0.0 : static_cast<double>(whole) / static_cast<double>(compared());
}

Program program_of(const SurveyOptions& options, std::int64_t number, RowUses* uses) {
  return random_program(RandomKey{options.seed, 11}.fold(static_cast<std::uint64_t>(number)), options.limits, uses);
}

Survey survey(const SurveyOptions& options) { return Run(options).result(); }

std::string summary_of(const Survey& s) {
  const auto count = [&](Finding f) {
    const auto found = s.findings.find(f);
    return found == s.findings.end() ? 0 : found->second;
  };
  std::string text = fmt::format(
      "{} programs over {} rows: {} sound, {} unsound, {} thrown, {} with rounding alone, {} not run; {} have "
      "symmetries, {} gradients; {} elements, largest error {:.1e}\n",
      s.programs, s.rows.used.size(), count(Finding::sound), count(Finding::unsound), count(Finding::thrown),
      count(Finding::rounding), count(Finding::not_run), s.with_elements, s.with_gradients, s.elements,
      s.largest_error);
  if (s.all.compared() > 0)
    text += fmt::format("{} brute-forced: {} whole ({:.1f} %), {} smaller, {} beyond; not degenerate {}: "
                        "{} whole ({:.1f} %), {} smaller, {} beyond\n",
                        s.all.compared(), s.all.whole, 100 * s.all.share(), s.all.smaller, s.all.beyond,
                        s.plain.compared(), s.plain.whole, 100 * s.plain.share(), s.plain.smaller, s.plain.beyond);
  return text;
}

std::string causes_of(const Survey& s) {
  struct Cause {
    std::int64_t plain = 0, degenerate = 0;
    std::string because;
  };
  std::map<std::string, Cause> causes;
  for (const Missed& m : s.missed) {
    Cause& cause = causes[m.operations];
    ++(m.degenerate ? cause.degenerate : cause.plain);
    if (cause.because.empty()) cause.because = m.because;
  }
  std::vector<std::pair<std::string, Cause>> list(causes.begin(), causes.end());
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.plain, a.second.degenerate) > std::pair(b.second.plain, b.second.degenerate);
  });
  std::string text = "| operations of the shrunk program | not degenerate | degenerate | what the inference says "
                     "of one |\n|---|--:|--:|---|\n";
  for (const auto& [operations, cause] : list)
    text += fmt::format("| {} | {} | {} | {} |\n", operations, cause.plain, cause.degenerate, cause.because);
  return text;
}

} // namespace eg::fuzz
