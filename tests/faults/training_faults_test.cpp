// Training while the system fails: every call that writes, flushes or renames, one after another. What was whole stays
// whole, the error names the file, and the run that is started again ends in the bytes of one that was left alone.

#include "core/base/bytes.h"
#include "faults/faulty_process.h"
#include "support/temporary_folder.h"
#include "training/checkpoint.h"
#include "training/metrics.h"

#include <cerrno>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

using namespace eg;
using namespace eg::test;

namespace {

constexpr std::int64_t between = 2; ///< steps between checkpoints
/// Every kind of fault at every call (EQUIGRAD_FAULTS=all, some minutes), or each call with one of them.
const bool every_kind = std::getenv("EQUIGRAD_FAULTS") != nullptr;

/// A run of some milliseconds, with tests, checkpoints and all kinds of metrics.
class SmallRun {
public:
  explicit SmallRun(const TemporaryFolder& folder) : run(folder.path("run")), err(folder.path("err")) {
    std::string text;
    for (int i = 0; i < 20; ++i) text += fmt::format("{} sheep, {} goats.\n", i * i, i);
    write_file(folder.path("story.txt"), std::string_view(text));
    command_ = {EQUIGRAD_PROGRAM,
                "train",
                "gpt2",
                "--data",
                folder.path("story.txt"),
                "--context",
                "8",
                "--dim",
                "8",
                "--layers",
                "1",
                "--heads",
                "2",
                "--batch",
                "2",
                "--warmup",
                "0",
                "--steps",
                "6",
                "--checkpoint-every",
                std::to_string(between),
                "--evaluate-every",
                "3",
                "--threads",
                "1",
                "--quiet",
                "--out",
                run};
  }
  int start(const std::string& fault = "", const std::string& calls = "") const {
    return FaultyProcess(command_, {.fault = fault, .calls = calls, .err = err}).wait();
  }
  /// What a person would do: go on, or begin anew where there is nothing to go on from.
  int start_again() const {
    if (training::checkpoint_steps(run).empty()) return start();
    return FaultyProcess({EQUIGRAD_PROGRAM, "train", "gpt2", "--resume", run, "--threads", "1", "--quiet"},
                         {.err = err})
        .wait();
  }
  Bytes weights() const { return read_file(run + "/model/model.safetensors"); }
  /// The last step that metrics.jsonl holds.
  std::int64_t last_step() const {
    std::int64_t step = 0;
    training::each_metrics_line(run + "/metrics.jsonl", std::numeric_limits<std::int64_t>::max(),
                                [&](std::string_view, const nlohmann::ordered_json& record) {
                                  step = std::max(step, record["step"].get<std::int64_t>());
                                });
    return step;
  }
  /// Lines of steps and of tests.
  std::ptrdiff_t records() const { return static_cast<std::ptrdiff_t>(lines_of(run + "/metrics.jsonl").size()); }
  void clear() const { std::filesystem::remove_all(run); }

  const std::string run, err;

private:
  std::vector<std::string> command_;
};

/// Of the checkpoints that were complete before the last step, the newest is there.
void check_newest(const SmallRun& small) {
  const std::vector<std::int64_t> steps = training::checkpoint_steps(small.run);
  const std::int64_t newest = steps.empty() ? 0 : steps.back();
  CHECK(newest >= (std::max<std::int64_t>(small.last_step(), 1) - 1) / between * between);
}

void check_error(const SmallRun& small) {
  const std::vector<std::string> lines = lines_of(small.err);
  REQUIRE(lines.size() == 1);
  CAPTURE(lines[0]);
  CHECK(lines[0].find(small.run) != std::string::npos); // which file
  CHECK((lines[0].find("No space left on device") != std::string::npos ||
         lines[0].find("Input/output error") != std::string::npos)); // and why
}

/// Files and folders that only a run which is at work may have.
std::vector<std::string> temporaries(const std::string& run) {
  std::vector<std::string> found;
  if (!std::filesystem::exists(run)) return found; // nothing was begun
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run))
    if (entry.path().filename().string().find(".tmp-") != std::string::npos) found.push_back(entry.path().string());
  return found;
}

/// One run with a fault in it and what becomes of it; whether there was such a call.
bool check_fault(const SmallRun& small, const std::string& fault, bool survives, const Bytes& whole,
                 std::ptrdiff_t records) {
  CAPTURE(fault);
  small.clear();
  const int code = small.start(fault);
  if (code == finished) {
    CHECK(small.weights() == whole);
    CHECK(small.records() == records);
    return survives;
  }
  REQUIRE_FALSE(survives);
  CHECK((code == died || code == reported));
  if (code == reported) {
    check_error(small);
    CHECK(temporaries(small.run).empty());
  }
  check_newest(small);
  REQUIRE(small.start_again() == finished);
  CHECK(small.weights() == whole);
  CHECK(small.records() == records);
  CHECK(temporaries(small.run).empty());
  return true;
}

} // namespace

TEST_CASE("training faults: every write, flush and renaming fails, stops half-way or is the last thing done") {
  const TemporaryFolder folder;
  const SmallRun small(folder);
  REQUIRE(small.start("", folder.path("calls")) == finished);
  const Bytes whole = small.weights();
  const std::ptrdiff_t records = small.records();
  REQUIRE(records == 6 + 2);
  const std::vector<std::string> calls = lines_of(folder.path("calls"));
  for (const std::string call : {"write", "fsync", "rename"}) {
    const auto count = std::count(calls.begin(), calls.end(), call);
    REQUIRE(count > 10);
    std::vector<std::string> kinds = {std::to_string(ENOSPC), std::to_string(EIO), "kill"};
    if (call == "write") kinds.emplace_back("half");
    for (std::ptrdiff_t n = 1; n <= count; ++n)
      for (std::size_t k = 0; k < kinds.size(); ++k)
        if (every_kind || static_cast<std::size_t>(n) % kinds.size() == k)
          CHECK(check_fault(small, fmt::format("{} {} {}", call, n, kinds[k]), false, whole, records));
  }
}

TEST_CASE("training faults: a step whose line of metrics cannot be written is not lost") {
  const TemporaryFolder folder;
  const SmallRun small(folder);
  REQUIRE(small.start("", folder.path("calls")) == finished);
  const std::ptrdiff_t records = small.records();
  const std::vector<std::string> calls = lines_of(folder.path("calls"));
  std::ptrdiff_t rescued = 0;
  for (std::ptrdiff_t n = 1; n <= std::count(calls.begin(), calls.end(), "write"); ++n) {
    CAPTURE(n);
    small.clear();
    REQUIRE(small.start(fmt::format("write {} {}", n, EIO)) == reported);
    const std::string said = lines_of(small.err).at(0);
    const std::int64_t before = small.last_step();
    if (said.find("; checkpoint ") == std::string::npos) continue;
    ++rescued;
    CHECK(said.find("metrics") + said.find("events") != 2 * std::string::npos);
    CHECK(training::checkpoint_steps(small.run).back() >= before);
    REQUIRE(small.start_again() == finished);
    CHECK(small.records() == records);
  }
  CHECK(rescued >= 6); // of six steps
}

TEST_CASE("training faults: writes that do less than asked change nothing") {
  const TemporaryFolder folder;
  const SmallRun small(folder);
  REQUIRE(small.start() == finished);
  const Bytes whole = small.weights();
  const std::ptrdiff_t records = small.records();
  CHECK(check_fault(small, "write 1 short lasting", true, whole, records));
}

TEST_CASE("training faults: a disk that is full stays full") {
  const TemporaryFolder folder;
  const SmallRun small(folder);
  REQUIRE(small.start("", folder.path("calls")) == finished);
  const Bytes whole = small.weights();
  const std::ptrdiff_t records = small.records();
  const std::vector<std::string> calls = lines_of(folder.path("calls"));
  const auto writes = std::count(calls.begin(), calls.end(), "write");
  for (std::ptrdiff_t n = 1; n <= writes; n += 5)
    CHECK(check_fault(small, fmt::format("write {} {} lasting", n, ENOSPC), false, whole, records));
}
