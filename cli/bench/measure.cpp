#include "cli/bench/measure.h"

#include "cli/interrupt.h"

#include "core/error.h"
#include "core/parallel.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <sys/resource.h>
#include <thread>
#include <vector>

namespace eg::cli::bench {
namespace {

double milliseconds(FunctionRef<void()> work, int times) {
  throw_if_stopped();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / times;
}

int times_for_a_millisecond(double ms) {
  return std::clamp(static_cast<int>(std::ceil(1.0 / std::max(ms, 1e-6))), 1, 10000);
}

Timing summarize(std::vector<double>& ms) {
  std::sort(ms.begin(), ms.end());
  return {ms[ms.size() / 2], ms.front(), static_cast<int>(ms.size())};
}

int close_unless_stdout(std::FILE* file) { return file == stdout ? std::fflush(file) : std::fclose(file); }

std::FILE* open_output(const std::string& path) {
  if (path.empty()) return nullptr;
  if (path == "-") return stdout;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) throw FileError(fmt::format("{}: cannot be written", path));
  return file;
}

} // namespace

Timing measure(FunctionRef<void()> work, double seconds, int warmup, int least) {
  for (int i = 0; i < warmup; ++i) work();
  const int times = times_for_a_millisecond(milliseconds(work, 1));
  std::vector<double> ms;
  for (double spent = 0; spent < 1e3 * seconds || static_cast<int>(ms.size()) < least; spent += ms.back() * times)
    ms.push_back(milliseconds(work, times));
  return summarize(ms);
}

PairedTiming measure_in_turn(FunctionRef<void()> a, FunctionRef<void()> b, double seconds, int rest_ms) {
  const auto rest = [&] { std::this_thread::sleep_for(std::chrono::milliseconds(rest_ms)); };
  // Threads that slept wake on any processor and are moved apart only after some milliseconds: a turn is long enough
  // for that not to count, and its first call is not measured.
  constexpr double turn_ms = 40.0;
  const auto turn = [&](FunctionRef<void()> work, std::vector<double>& ms) {
    const int times = std::clamp(static_cast<int>(turn_ms / std::max(milliseconds(work, 1), 1e-3)), 1, 10000);
    ms.push_back(milliseconds(work, times));
    return ms.back() * times;
  };
  std::vector<double> ms_a;
  std::vector<double> ms_b;
  for (double spent = 0; spent < 1e3 * seconds || ms_a.size() < 5;) {
    spent += turn(a, ms_a);
    spent += turn(b, ms_b);
    rest();
  }
  return {summarize(ms_a), summarize(ms_b)};
}

double peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024.0 / 1e6;
}

Output::Output(const std::string& json, bool table) : file_(open_output(json), close_unless_stdout), table_(table) {}

void Output::write(const Line& line) {
  const double per_s = line.items * 1e3 / line.timing.median_ms;
  const double gflops = line.work_flops / line.timing.median_ms / 1e6;
  if (file_) {
    fmt::print(file_.get(),
               R"({{"bench": "{}", "engine": "{}", "case": "{}", "threads": {}, "batch": {}, "ms": {:.6g}, )"
               R"("ms_best": {:.6g}, "per_s": {:.6g}, "gflops": {}, "rss_mb": {:.1f}{}}})"
               "\n",
               line.bench, line.engine, line.name, parallel::threads(), line.batch, line.timing.median_ms,
               line.timing.best_ms, per_s, line.work_flops > 0 ? fmt::format("{:.6g}", gflops) : "null", peak_rss_mb(),
               line.extra);
    if (std::fflush(file_.get()) != 0) throw FileError("--json: the result cannot be written");
  }
  if (!table_) return;
  if (!header_written_)
    fmt::print("{:<34} {:>6} {:>12} {:>12} {:>12} {:>9} {:>8}\n", "case", "batch", "ms", "ms best", "per second",
               "GFLOP/s", "RSS MB");
  header_written_ = true;
  fmt::print("{:<34} {:>6} {:>12.4f} {:>12.4f} {:>12.1f} {:>9.1f} {:>8.0f}\n",
             line.engine == "equigrad" ? line.name : fmt::format("{} ({})", line.name, line.engine), line.batch,
             line.timing.median_ms, line.timing.best_ms, per_s, gflops, peak_rss_mb());
  std::fflush(stdout);
}

} // namespace eg::cli::bench
