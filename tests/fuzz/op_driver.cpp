// The same calls without libFuzzer, for any compiler and any sanitizer:
//   op_calls SECONDS [SEED]       rounds until the time is over; findings are printed, once for each row and kind
//   op_calls SEED round ROUND     one round again
// A crash or a round of more than 20 seconds of own processor time ends the program with the number of the round.

#include "core/memory/allocator.h"
#include "fuzz/op_calls.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <sys/time.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t round_now = 0; // what a signal handler may read

void on_signal(int number) {
  char text[] = "op_calls: signal in round 000000000000\n";
  unsigned long round = static_cast<unsigned long>(round_now);
  for (std::size_t at = sizeof text - 3; round > 0; --at, round /= 10) text[at] = static_cast<char>('0' + round % 10);
  if (write(2, text, sizeof text - 1) < 0) _exit(3);
  std::signal(number, SIG_DFL);
  std::raise(number);
}

/// Processor time outside the kernel, so that a busy machine is no finding.
void limit_round(int seconds) {
  const itimerval limit{{0, 0}, {seconds, 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
}

struct Totals {
  long rounds = 0, ran = 0, backward = 0, second = 0, too_large = 0;
  std::set<std::string> findings;
  std::map<std::string, double> slowest; // seconds, by row
};

void one_round(std::uint64_t seed, long round, bool loud, Totals& totals) {
  round_now = static_cast<std::sig_atomic_t>(round);
  const Clock::time_point begin = Clock::now();
  std::string name;
  try {
    const std::vector<std::uint8_t> bytes = eg::fuzz::random_bytes(seed, static_cast<std::uint64_t>(round));
    const eg::fuzz::OpCall call = eg::fuzz::decode_op_call(bytes);
    name = call.op->name;
    if (loud) fmt::print("{}\n", described(call));
    const eg::fuzz::OpOutcome outcome = eg::fuzz::run_op_call(call);
    totals.ran += outcome.ran ? 1 : 0;
    totals.backward += outcome.backward ? 1 : 0;
    totals.second += outcome.second ? 1 : 0;
    totals.too_large += outcome.too_large ? 1 : 0;
  } catch (const eg::fuzz::Finding& finding) {
    const std::string text = finding.what();
    const std::string kind = name + text.substr(std::min(text.size(), text.rfind("): ")), 40);
    if (totals.findings.insert(kind).second) fmt::print("round {}: {}\n", round, text);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  double& slowest = totals.slowest[name];
  slowest = std::max(slowest, seconds);
  if (seconds > 5.0) fmt::print("round {}: {} took {:.1f} s\n", round, name, seconds);
}

} // namespace

int main(int count, char** words) {
  for (const int number : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL, SIGVTALRM}) std::signal(number, on_signal);
  eg::fuzz::prepare_op_calls();
  Totals totals;
  if (count == 4 && std::string_view(words[2]) == "round") {
    one_round(std::strtoull(words[1], nullptr, 10), std::strtol(words[3], nullptr, 10), true, totals);
    return totals.findings.empty() ? 0 : 1;
  }
  const double seconds = count > 1 ? std::strtod(words[1], nullptr) : 5.0;
  const std::uint64_t seed = count > 2 ? std::strtoull(words[2], nullptr, 10) : 1;
  const Clock::time_point begin = Clock::now();
  double elapsed = 0;
  std::size_t live = eg::allocator::stats().live_bytes;
  for (; elapsed < seconds; ++totals.rounds) {
    limit_round(20);
    one_round(seed, totals.rounds, false, totals);
    elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
    if (totals.rounds == 2000) live = eg::allocator::stats().live_bytes; // rows have made what they keep
  }
  limit_round(0);
  const std::size_t kept = eg::allocator::stats().live_bytes;
  fmt::print("{} calls in {:.1f} s: {} ran, {} with gradient, {} with second derivative, {} left out as too large; "
             "{} rows; {} findings; {} bytes live at the end, {} after the first rounds\n",
             totals.rounds, elapsed, totals.ran, totals.backward, totals.second, totals.too_large,
             totals.slowest.size(), totals.findings.size(), kept, live);
  return totals.findings.empty() ? 0 : 1;
}
