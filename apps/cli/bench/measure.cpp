#include "apps/cli/bench/measure.h"

#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/gemm/blas.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fmt/format.h>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

namespace eg::cli::bench {
namespace {

/// Milliseconds that a clock of the system shows.
double clock_ms(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

/// Of one repetition among `times`.
struct Elapsed {
  double wall, cpu;
};
Elapsed elapsed(FunctionRef<void()> work, int times) {
  throw_if_stopped();
  const double wall = clock_ms(CLOCK_MONOTONIC), cpu = clock_ms(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < times; ++i) work();
  return {(clock_ms(CLOCK_MONOTONIC) - wall) / times, (clock_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu) / times};
}

int times_for_a_millisecond(double ms) {
  return std::clamp(static_cast<int>(std::ceil(1.0 / std::max(ms, 1e-6))), 1, 10000);
}

Timing summarize(const std::vector<Elapsed>& runs) {
  std::vector<double> wall, cpu;
  for (const Elapsed& run : runs) {
    wall.push_back(run.wall);
    cpu.push_back(run.cpu);
  }
  std::sort(wall.begin(), wall.end());
  std::sort(cpu.begin(), cpu.end());
  const std::size_t middle = runs.size() / 2;
  return {wall[middle], wall.front(), cpu[middle], static_cast<int>(runs.size())};
}

} // namespace

Timing measure(FunctionRef<void()> work, double seconds, int warmup, int least) {
  for (int i = 0; i < warmup; ++i) work();
  const int times = times_for_a_millisecond(elapsed(work, 1).wall);
  std::vector<Elapsed> runs;
  for (double spent = 0; spent < 1e3 * seconds || static_cast<int>(runs.size()) < least;
       spent += runs.back().wall * times)
    runs.push_back(elapsed(work, times));
  return summarize(runs);
}

PairedTiming measure_in_turn(FunctionRef<void()> a, FunctionRef<void()> b, double seconds, int rest_ms) {
  const auto rest = [&] { std::this_thread::sleep_for(std::chrono::milliseconds(rest_ms)); };
  // Threads that slept wake on any processor and are moved apart only after some milliseconds: a turn is long enough
  // for that not to count, and its first call is not measured.
  constexpr double turn_ms = 40.0;
  const auto turn = [&](FunctionRef<void()> work, std::vector<Elapsed>& runs) {
    const int times = std::clamp(static_cast<int>(turn_ms / std::max(elapsed(work, 1).wall, 1e-3)), 1, 10000);
    runs.push_back(elapsed(work, times));
    return runs.back().wall * times;
  };
  std::vector<Elapsed> runs_a;
  std::vector<Elapsed> runs_b;
  for (double spent = 0; spent < 1e3 * seconds || runs_a.size() < 5;) {
    spent += turn(a, runs_a);
    spent += turn(b, runs_b);
    rest();
  }
  return {summarize(runs_a), summarize(runs_b)};
}

double peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024.0 / 1e6;
}

Output::Output(std::string json, bool table) : path_(std::move(json)), table_(table) {}

Output::~Output() {
  try {
    finish();
  } catch (const Error&) { // what ends the bench is reported; so is this, where finish() was called
  }
}

void Output::finish() {
  if (file_) file_->commit();
  file_.reset();
}

void Output::write(const Line& line) {
  const double per_s = line.items * 1e3 / line.timing.median_ms;
  const double gflops = line.work_flops / line.timing.median_ms / 1e6;
  if (!path_.empty()) {
    const std::string text = fmt::format(
        R"({{"bench": "{}", "engine": "{}", "case": "{}", "threads": {}, "batch": {}, "ms": {:.6g}, )"
        R"("ms_best": {:.6g}, "cpu_ms": {:.6g}, "per_s": {:.6g}, "gflops": {}, "rss_mb": {:.1f}, )"
        R"("products": "{}"{}}})"
        "\n",
        line.bench, line.engine, line.name, parallel::threads(), line.batch, line.timing.median_ms, line.timing.best_ms,
        line.timing.cpu_ms, per_s, line.work_flops > 0 ? fmt::format("{:.6g}", gflops) : "null", line.rss_mb,
        line.engine == "openblas" ? "OpenBLAS" : blas::engine(), line.extra);
    const StopScope stopping; // a pipe whose reader does not come
    if (path_ != "-" && !file_) file_ = std::make_unique<AtomicFile>(path_);
    if (file_)
      file_->write(text);
    else
      say(text);
  }
  if (!table_) return;
  if (!header_written_)
    say(fmt::format("{:<34} {:>6} {:>12} {:>12} {:>12} {:>9} {:>8}{}\n", "case", "batch", "ms", "ms best", "per second",
                    "GFLOP/s", "RSS MB", line.device_mb > 0 ? " device MB" : ""));
  header_written_ = true;
  say(fmt::format("{:<34} {:>6} {:>12.4f} {:>12.4f} {:>12.1f} {:>9.1f} {:>8.0f}{}\n",
                  line.engine == "equigrad" ? line.name : fmt::format("{} ({})", line.name, line.engine), line.batch,
                  line.timing.median_ms, line.timing.best_ms, per_s, gflops, line.rss_mb,
                  line.device_mb > 0 ? fmt::format(" {:>9.1f}", line.device_mb) : ""));
  require_output();
}

} // namespace eg::cli::bench
