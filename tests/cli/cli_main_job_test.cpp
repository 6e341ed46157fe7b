// The main job as a person meets it; slow, because it checks every theorem each time.

#include "cli/program.h"

#include <csignal>
#include <doctest/doctest.h>
#include <filesystem>

using namespace eg::test;

namespace {

std::vector<std::string> main_job(const std::string& out, const std::string& data, const std::string& steps) {
  return {"run", "--quiet", "--steps", steps, "--data-dir", data, "--out", out, "--json", out + ".json"};
}

} // namespace

TEST_CASE("Ctrl-C during the main job: the same command goes on and comes to the same results") {
  const TemporaryFolder folder;
  const std::string out = folder.path("out"), metrics = out + "/run/metrics.jsonl";
  const auto json = [](const std::string& path) { return nlohmann::json::parse(read_text(path)); };
  CHECK(run_program(main_job(folder.path("whole"), folder.path(), "25")).code == 0);
  RunningProgram program(main_job(out, folder.path(), "25"), ".");
  REQUIRE(program.wait_until([&] { return read_text(metrics).find("\"step\":7,") != std::string::npos; }));
  program.signal(SIGINT);
  const Outcome outcome = program.wait();
  INFO(outcome.err);
  CHECK(outcome.code == 130);
  CHECK(outcome.err.find("the same command goes on from there: equigrad run --out " + out + " --steps 25 --data-dir " +
                         folder.path()) != std::string::npos);
  CHECK(!std::filesystem::exists(out + "/report.html"));
  const std::string before = read_text(metrics);
  const Outcome resumed = run_program(main_job(out, folder.path(), "25"));
  INFO(resumed.err);
  CHECK(resumed.code == 0);
  CHECK(read_text(metrics).starts_with(before)); // it went on and did not begin anew
  CHECK(json(out + ".json")["training"] == json(folder.path("whole.json"))["training"]);
  CHECK(std::filesystem::exists(out + "/report.html"));
}
