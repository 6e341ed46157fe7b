// Many random programs, for as long as one likes:
//   inference_programs PROGRAMS [SEED] [--brute [COMBINATIONS]] [--from FIRST] [--causes] [--examples]
//   inference_programs SEED program NUMBER
// The first prints counterexamples, shrunk, as it finds them, and counts at the end or when it is interrupted. The
// second prints one program and what is inferred of it. The exit status is 1 when something was wrong.

#include "core/threads/parallel.h"
#include "fuzz/inference/survey.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>

namespace {

using namespace eg::fuzz;

volatile std::sig_atomic_t interrupted = 0; // what a signal handler may write
void on_interrupt(int) { interrupted = 1; }

std::int64_t number_in(const char* word) { return std::strtoll(word, nullptr, 10); }

struct Options {
  SurveyOptions survey;
  bool causes = false, examples = false;
};

Options options_of(std::span<char*> words) {
  Options options;
  std::size_t positional = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const bool has_number = i + 1 < words.size() && words[i + 1][0] != '-';
    if (word == "--brute") {
      options.survey.brute_force = true;
      if (has_number) options.survey.brute.most_combinations = number_in(words[++i]);
    } else if (word == "--from" && has_number) {
      options.survey.first = number_in(words[++i]);
    } else if (word == "--causes") {
      options.causes = true;
    } else if (word == "--examples") {
      options.examples = true;
    } else if (positional++ == 0) {
      options.survey.programs = number_in(words[i]);
    } else {
      options.survey.seed = static_cast<std::uint64_t>(number_in(words[i]));
    }
  }
  return options;
}

/// Progress on a terminal, counterexamples as they come.
class Reporter {
public:
  explicit Reporter(std::int64_t programs) : programs_(programs), terminal_(isatty(STDERR_FILENO) == 1) {}
  bool operator()(const Survey& survey) {
    for (; printed_ < survey.counterexamples.size(); ++printed_) {
      fmt::print("{}\n", survey.counterexamples[printed_]);
      std::fflush(stdout);
    }
    if (terminal_ && survey.programs % 50 == 0)
      fmt::print(stderr, "\r{} of {} programs, {} counterexamples", survey.programs, programs_, printed_);
    return interrupted == 0;
  }
  void end() const {
    if (terminal_) fmt::print(stderr, "\n");
  }

private:
  std::int64_t programs_;
  bool terminal_;
  std::size_t printed_ = 0;
};

void print_groups(const eg::permute::ModelSymmetries& claims) {
  for (const eg::permute::SymmetryGroup& g : claims.groups()) {
    fmt::print("{}: {} size {} copies {} log2 {:.2f}", g.name, name_of(g.kind), g.size, g.copies, g.log2_count);
    for (const eg::permute::AxisUse& use : g.axes)
      fmt::print(" {}.{}{}", use.tensor, use.axis, use.whole ? "" : " in part");
    fmt::print("{}{}\n", g.because.empty() ? "" : "; ", g.because);
  }
}

int one_program(std::uint64_t seed, std::int64_t number) {
  SurveyOptions options;
  options.seed = seed;
  options.brute.most_combinations = 50000;
  const Program program = program_of(options, number);
  fmt::print("{}{}\n", text_of(program), degenerate_reason(program));
  const eg::permute::ModelSymmetries claims = claims_of(program);
  print_groups(claims);
  const CheckResult result = check_claims(program, claims, options.check);
  const BruteForce brute = try_all(program, claims, options.brute);
  fmt::print("{} {} ({:.1e}, {} elements{}); brute force: {} combinations, {} inferred, {} commute\n",
             name_of(result.finding), result.what, result.error, result.elements,
             result.gradients ? ", with gradients" : "", brute.combinations, brute.inferred, brute.found);
  return result.finding == Finding::sound ? 0 : 1;
}

} // namespace

int main(int count, char** words) {
  eg::parallel::set_threads(1);
  const std::span<char*> arguments(words + 1, static_cast<std::size_t>(count - 1));
  if (arguments.size() == 3 && std::string_view(arguments[1]) == "program")
    return one_program(static_cast<std::uint64_t>(number_in(arguments[0])), number_in(arguments[2]));
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  Options options = options_of(arguments);
  Reporter reporter(options.survey.programs);
  options.survey.go_on = [&](const Survey& s) { return reporter(s); };
  options.survey.shrink = !options.survey.brute_force || options.causes || options.examples;
  const Survey result = survey(options.survey);
  reporter.end();
  fmt::print("{}", summary_of(result));
  if (options.causes) fmt::print("\n{}", causes_of(result));
  if (options.examples)
    for (const Missed& m : result.missed)
      fmt::print("\nprogram {}{}: {} of {} inferred; {}\n{}", m.number, m.degenerate ? " (degenerate)" : "", m.inferred,
                 m.found, m.because, m.program);
  return result.counterexamples.empty() ? 0 : 1;
}
