// verify, attack and reproduce on several processes: what one process gives, whoever computed it.

#include "distributed/launched.h"
#include "support/skip.h"

#include "core/tensor.h"
#include "nn/hub/folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

using namespace eg::test;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Without what a clock or the launcher decides: times, and the note that processes share a host.
Json timeless(Json json) {
  for (Json& row : json["results"]) {
    row.erase("ms");
    row.erase("seconds");
    if (row.contains("remarks"))
      std::erase_if(row["remarks"].get_ref<Json::array_t&>(),
                    [](const Json& r) { return r.get<std::string>().find("times are longer") != std::string::npos; });
  }
  return json;
}
std::string timeless(const std::string& text) {
  static const std::regex note("note: [^\n]*times are longer[^\n]*\n"), seconds("\n[0-9]+ s\n"),
      in_markdown("[0-9]+ s([. ])"), in_page("[0-9]+ s<");
  std::string out = std::regex_replace(text, note, "");
  out = std::regex_replace(out, seconds, "\n");
  out = std::regex_replace(out, in_page, "<");
  return std::regex_replace(out, in_markdown, "$1");
}

/// Runs the command alone, then on `counts` processes of every MPI, each with `{}` in its words replaced by a folder of
/// its own; `look` sees that folder and what was printed, and returns what must be the same.
void same_on_all(const Words& words, int code,
                 const std::function<std::string(const std::string& folder, const Launched& got)>& look,
                 const std::vector<int>& counts = {2, 3}) {
  const auto run = [&](const Launcher* launcher, int processes) {
    const TemporaryFolder folder;
    Words mine = words;
    for (std::string& word : mine)
      if (const std::size_t at = word.find("{}"); at != std::string::npos) word.replace(at, 2, folder.path("f"));
    const Launched got = run_processes(launcher, processes, mine);
    CHECK_FALSE(got.timed_out);
    CHECK_MESSAGE(got.code == code, got.out, got.err);
    std::string seen = look(folder.path("f"), got);
    for (std::size_t at = 0; (at = seen.find(folder.path("f"), at)) != std::string::npos;)
      seen.replace(at, folder.path("f").size(), "{}");
    return seen;
  };
  const std::string alone = run(nullptr, 1);
  CHECK(alone.size() > 100);
  for (const Launcher& launcher : launchers())
    for (const int processes : counts) {
      CAPTURE(launcher.name);
      CAPTURE(processes);
      const std::string shared = run(&launcher, processes);
      CHECK(shared == alone);
    }
}

/// True for a process that runs; false for a zombie.
bool alive(int process) {
  const std::string stat = text_of("/proc/" + std::to_string(process) + "/stat");
  const std::size_t name = stat.rfind(") ");
  return name != std::string::npos && stat.size() > name + 2 && stat[name + 2] != 'Z';
}

std::string json_of(const std::string& path) { return timeless(Json::parse(text_of(path))).dump(1); }

} // namespace

TEST_CASE("verify: the same rows and table on 1 to 4 processes, trained rows too") {
  const auto look = [](const std::string& folder, const Launched& got) {
    return timeless(got.out) + json_of(folder + ".json");
  };
  same_on_all({"verify", "--filter", "thm4.*", "--json", "{}.json"}, 0, look, {1, 2, 3, 4});
  same_on_all({"verify", "--filter", "train-b*", "--steps", "4", "--json", "{}.json"}, 0, look);
}

TEST_CASE("verify --exact: the same bits on several processes") {
  same_on_all(
      {"verify", "--filter", "eq4?", "--exact", "--json", "{}.json"}, 0,
      [](const std::string& folder, const Launched& got) { return timeless(got.out) + json_of(folder + ".json"); });
}

TEST_CASE("a row that fails on another process fails for all: text, JSON and exit status") {
  // A weight that is no number: nothing about such blocks can be said to hold.
  const TemporaryFolder models;
  const Json config = {{"model_type", "bert"},     {"architectures", {"BertForMaskedLM"}},
                       {"hidden_size", 12},        {"num_hidden_layers", 2},
                       {"num_attention_heads", 3}, {"intermediate_size", 10},
                       {"vocab_size", 17},         {"max_position_embeddings", 6}};
  const auto model = eg::hub::make_model(config, {6, 0});
  eg::hub::save_model(*model, models.path("sound"));
  for (const eg::nn::Parameter& p : model->module().named_parameters())
    if (p.name.ends_with("fc1.bias")) {
      eg::Tensor weight = p.value;
      weight.fill(std::numeric_limits<double>::quiet_NaN());
    }
  eg::hub::save_model(*model, models.path("spoiled"));
  const auto look = [](const std::string& folder, const Launched& got) {
    return timeless(got.out) + json_of(folder + ".json");
  };
  same_on_all({"verify", "--model", models.path("sound"), "--json", "{}.json"}, 0, look);
  same_on_all({"verify", "--model", models.path("spoiled"), "--json", "{}.json"}, 1,
              [&](const std::string& folder, const Launched& got) {
                CHECK(got.out.find("FAIL") != std::string::npos);
                CHECK(got.out.find("0 of 10 identities hold") != std::string::npos);
                return look(folder, got);
              });
}

TEST_CASE("attack: the same cells and table on several processes") {
  // Each run has another secret key: rates that theory fixes are the same under all.
  same_on_all({"attack", "mask", "--json", "{}.json", "--markdown", "{}.md"}, 0,
              [](const std::string& folder, const Launched& got) {
                return timeless(got.out) + json_of(folder + ".json") + text_of(folder + ".md");
              });
}

TEST_CASE("attack all: every cell once, in the order of one process") {
  const Words words = {"attack", "all", "--scheme", "both", "--base", "published", "--keys", "fixed"};
  const auto cells_of = [&](const Launcher* launcher, int processes) {
    const TemporaryFolder folder;
    Words mine = words;
    mine.insert(mine.end(), {"--json", folder.path("r.json"), "--out", folder.path("page.html")});
    const Launched got = run_processes(launcher, processes, mine);
    CHECK_MESSAGE(got.code == 0, got.out, got.err);
    CHECK(text_of(folder.path("page.html")).find("Main rates") != std::string::npos);
    std::string cells;
    const Json all = Json::parse(text_of(folder.path("r.json")));
    for (const Json& cell : all["results"]) {
      cells += fmt::format("{} {} {} {} {} {}\n", cell["attack"].dump(), cell["scheme"].dump(), cell["base"].dump(),
                           cell["keys"].dump(), cell["model"].dump(), cell["status"].dump());
      for (const Json& finding : cell["findings"])
        cells += fmt::format("  {} {} {}\n", finding["what"].dump(), finding["unit"].dump(), finding["theory"].dump());
    }
    return cells;
  };
  const std::string alone = cells_of(nullptr, 1);
  CHECK(alone.size() > 500);
  for (const Launcher& launcher : launchers())
    for (const int processes : {3}) {
      CAPTURE(launcher.name);
      CAPTURE(processes);
      CHECK(cells_of(&launcher, processes) == alone);
    }
}

TEST_CASE("what a part throws is said once, with its process and host, and all end") {
  for (const Launcher& launcher : launchers()) {
    CAPTURE(launcher.name);
    const Launched got = run_processes(&launcher, 3, {"attack", "vocabulary", "--layer", "99999"});
    CHECK_FALSE(got.timed_out);
    CHECK(got.code == 2);
    const std::regex said("equigrad: process [0-2] \\(pid [0-9]+ on [^)]+\\): [^\n]*not 99999\n");
    CHECK(std::distance(std::sregex_iterator(got.err.begin(), got.err.end(), said), std::sregex_iterator()) == 1);
    CHECK_MESSAGE(got.seconds < 60, got.err);
  }
}

TEST_CASE("processes that were given other commands are refused") {
  for (const Launcher& launcher : launchers()) {
    CAPTURE(launcher.name);
    // Two programs in one job: PROGRAM A : -n 1 PROGRAM B.
    const Launched got = run_processes(
        &launcher, 1, {"verify", "--filter", "eq45", ":", "-n", "1", EQUIGRAD_PROGRAM, "verify", "--filter", "eq46"});
    CHECK_FALSE(got.timed_out);
    CHECK(got.code == 2);
    CHECK_MESSAGE(got.err.find("the command is not that of process 0") != std::string::npos, got.err);
  }
}

TEST_CASE("reproduce: the same experiments, files, page and table on several processes") {
  if (data_or_skip("reproduce on several processes", "criteo").empty()) return;
  same_on_all({"reproduce", "cvpr-F8,s1-C4", "--out", "{}", "--json", "{}.json", "--markdown", "{}.md"}, 0,
              [](const std::string& folder, const Launched& got) {
                std::string seen = timeless(got.out) + json_of(folder + ".json") + timeless(text_of(folder + ".md"));
                seen += timeless(text_of(folder + "/cvpr-F8,s1-C4.html"));
                std::set<std::string> files; // nothing is left beside them
                for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
                  files.insert(entry.path().lexically_relative(folder).string());
                static const std::regex when("tfevents[.][0-9]+");
                for (const std::string& file : files) seen += std::regex_replace(file, when, "tfevents") + "\n";
                Json result = Json::parse(text_of(folder + "/s1-C4-small/result.json"));
                result.erase("seconds");
                return seen + result.dump();
              });
}

TEST_CASE("reproduce: an experiment without its data is told apart, the others are kept, the status says so") {
  const TemporaryFolder data;
  const auto run = [&](const Launcher* launcher, int processes) {
    const TemporaryFolder folder;
    const Launched got = run_processes(launcher, processes,
                                       {"reproduce", "cvpr-T2,cvpr-F8,s1-C1", "--data-dir", data.path(), "--out",
                                        folder.path("out"), "--json", folder.path("r.json")},
                                       {.variables = {{"EQUIGRAD_DATA", data.path()}}});
    CHECK_FALSE(got.timed_out);
    CHECK_MESSAGE(got.code == 2, got.out, got.err);
    CHECK_MESSAGE(got.err.find("equigrad: cvpr-T2: ") != std::string::npos, got.err);
    CHECK_MESSAGE(got.err.find("equigrad: s1-C1: ") != std::string::npos, got.err);
    const Json results = Json::parse(text_of(folder.path("r.json")))["results"];
    REQUIRE(results.size() == 1);
    CHECK(results[0]["id"] == "cvpr-F8");
  };
  run(nullptr, 1);
  for (const Launcher& launcher : launchers())
    for (const int processes : {3}) run(&launcher, processes);
}

TEST_CASE("a signal to the launcher or to one process ends all with the status of an interruption") {
  for (const Launcher& launcher : launchers())
    for (const bool one : {false, true}) {
      CAPTURE(launcher.name);
      CAPTURE(one);
      const TemporaryFolder folder;
      LaunchedProgram running(&launcher, 2,
                              {"verify", "--filter", "train*", "--steps", "4000", "--json", folder.path("r.json")});
      for (int i = 0; i < 600 && running.processes().size() < 2; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      std::this_thread::sleep_for(std::chrono::seconds(2));
      const std::vector<int> processes = running.processes();
      REQUIRE(processes.size() == 2);
      if (one)
        kill(processes.back(), SIGTERM);
      else
        running.signal(SIGTERM);
      const Launched got = running.wait();
      CHECK_FALSE(got.timed_out);
      CHECK_MESSAGE(got.seconds < 120, got.err);
      // MPICH's launcher, when it is signalled itself, does not always wait for what its processes return.
      if (one || launcher.name != "mpich") CHECK(got.code != 0);
      if (one) CHECK_MESSAGE(got.code == 130, got.err);
      CHECK_FALSE(std::filesystem::exists(folder.path("r.json")));
      for (const int process : processes) {
        for (int i = 0; i < 200 && alive(process); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        CHECK_FALSE(alive(process));
      }
    }
}
