// equigrad verify --report: the page says what --json says, and is written whole or not at all.

#include "cli/program.h"

#include "nn/hub/folder.h"
#include "support/markup.h"

#include <csignal>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>

#include <map>

using namespace eg::test;
using nlohmann::json;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The values of <data value="..."> in one row of a card's table.
std::vector<std::string> values(const std::string& row) {
  std::vector<std::string> found;
  for (const std::string& data : elements(row, "data")) {
    const std::size_t start = data.find("value=\"") + 7;
    found.push_back(data.substr(start, data.find('"', start) - start));
  }
  return found;
}

/// The rows of all cards, by id and dtype.
std::map<std::pair<std::string, std::string>, std::string> measured(const std::string& html) {
  std::map<std::pair<std::string, std::string>, std::string> rows;
  for (const std::string& card : elements(html, "article")) {
    const std::size_t start = card.find(" id=\"") + 5;
    const std::string id = card.substr(start, card.find('"', start) - start);
    for (const std::string& row : elements(card, "tr"))
      if (row.starts_with("<tr class=\"measured\">")) rows[{id, without_tags(elements(row, "td").front())}] = row;
  }
  return rows;
}

/// Every result is there with its very numbers.
void check_agrees(const std::string& html, const json& result) {
  const auto rows = measured(html);
  CHECK(rows.size() == result["results"].size());
  for (const json& r : result["results"]) {
    const std::string id = r["id"], dtype = r["dtype"];
    CAPTURE(id);
    REQUIRE(rows.contains({id, dtype}));
    const std::string& row = rows.at({id, dtype});
    const std::vector<std::string> numbers = values(row);
    REQUIRE(numbers.size() == 4);
    CHECK(std::stod(numbers[0]) == r["error"].get<double>());
    CHECK(std::stod(numbers[1]) == r["tolerance"].get<double>());
    CHECK(std::stod(numbers[2]) == r["control"]["error"].get<double>());
    CHECK(std::stod(numbers[3]) == r["control"]["must_exceed"].get<double>());
    std::string bits = std::to_string(r["differing"].get<int>()) + " of " + std::to_string(r["compared"].get<int>());
    if (!r["differing_exact"].is_null()) bits += "; exact: " + std::to_string(r["differing_exact"].get<int>());
    CHECK(without_tags(elements(row, "td").back()) == bits);
  }
  CHECK(has(html, "<b>" + std::to_string(result["summary"]["pass"].get<int>()) + "</b>measurements pass"));
  CHECK(has(html, "<b>" + std::to_string(result["summary"]["fail"].get<int>()) + "</b>fail"));
}

} // namespace

TEST_CASE("verify --report: the page shows every row with the numbers of --json, and fits in 3 MB") {
  const TemporaryFolder folder;
  const std::string page = folder.path("report.html"), result = folder.path("result.json");
  const Outcome got = run_program({"verify", "--quiet", "--report", page, "--json", result});
  CHECK_MESSAGE(got.code == 0, got.err);
  CHECK(got.err.empty()); // no progress in a pipe
  const std::string html = read_text(page);
  CHECK(fault_of_markup(html) == "");
  CHECK(html.size() < 3u << 20);
  check_agrees(html, json::parse(read_text(result)));
}

TEST_CASE("verify --report: with --filter, --dtype and --exact it holds what was asked for") {
  const TemporaryFolder folder;
  const std::string page = folder.path("report.html"), result = folder.path("result.json");
  const Outcome got = run_program({"verify", "--filter", "eq4*", "--dtype", "f32", "--exact", "--report", page,
                                   "--json", result, "--data-dir", folder.path()});
  CHECK_MESSAGE(got.code == 0, got.err);
  const std::string html = read_text(page);
  check_agrees(html, json::parse(read_text(result)));
  CHECK(has(html, "Sums were exact"));
  CHECK(has(html, "shapes images")); // no cifar10 there
  CHECK(!has(html, "id=\"alg1\""));
}

TEST_CASE("verify --report: the blocks of a model folder") {
  const TemporaryFolder folder;
  const json config = {
      {"model_type", "vit"},      {"architectures", {"ViTModel"}}, {"hidden_size", 12},     {"num_hidden_layers", 2},
      {"num_attention_heads", 3}, {"intermediate_size", 10},       {"image_size", {8, 12}}, {"patch_size", 4}};
  const std::string model = folder.path("model"), page = folder.path("report.html"), result = folder.path("r.json");
  eg::hub::save_model(*eg::hub::make_model(config, {6, 0}), model);
  const Outcome got =
      run_program({"verify", "--model", model, "--report", page, "--json", result, "--data-dir", folder.path()});
  CHECK_MESSAGE(got.code == 0, got.err);
  const std::string html = read_text(page);
  check_agrees(html, json::parse(read_text(result)));
  CHECK(has(html, "the weights of " + model));
  CHECK(has(html, "embeddings.cls_token</text>")); // the axes are the folder's own
  CHECK(has(html, " tensors of " + model));
}

TEST_CASE("verify --report: places that cannot be written, two results in one place, options without effect") {
  const TemporaryFolder folder;
  const std::string page = folder.path("r.html");
  const auto refused = [](const std::vector<std::string>& arguments, const std::string& words) {
    std::vector<std::string> all = {"verify", "--filter", "eq45"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome got = run_program(all);
    CHECK(got.code == 2);
    CHECK(got.out.empty());
    CHECK_MESSAGE(has(got.err, words), got.err);
  };
  refused({"--report", folder.path("missing/r.html")}, "missing/r.html: cannot be written");
  refused({"--report", folder.path()}, "cannot be written");
  refused({"--report", page, "--json", page}, "another result goes there");
  refused({"--data-dir", folder.path()}, "--data-dir has no effect without --report");
  refused({"--report", page, "--data-dir", folder.path("none")}, "no such folder (--data-dir)");
  CHECK(!std::filesystem::exists(page));
}

TEST_CASE("verify --report: Ctrl-C leaves the page that was there, and no part of a new one") {
  const TemporaryFolder folder;
  const std::string page = folder.path("r.html"), result = folder.path("result.json");
  write_text(page, "what was there");
  RunningProgram program(
      {"verify", "--quiet", "--filter", "eq45", "--report", page, "--json", result, "--data-dir", folder.path()}, ".");
  REQUIRE(program.wait_until([&] { return std::filesystem::exists(result); })); // the rows are done, the figures begin
  program.signal(SIGINT);
  const Outcome outcome = program.wait();
  CHECK(outcome.code == 130);
  CHECK(read_text(page) == "what was there");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("verify --report: a terminal sees how far it is") {
  const TemporaryFolder folder;
  const std::string seen = run_program_on_terminal(
      {"verify", "--filter", "eq45", "--report", folder.path("r.html"), "--data-dir", folder.path()}, 100);
  CHECK(has(seen, "report: error at depth"));
  CHECK(has(seen, "report: position embeddings, step"));
}
