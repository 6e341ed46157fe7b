// equigrad explore: what it puts into the page, and what it refuses.

#include "program.h"

#include "core/base/bytes.h"
#include "data/encode.h"
#include "nn/hub/folder.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

using namespace eg;
using nlohmann::json;
using test::Outcome;
using test::read_text;
using test::run_program;
using test::TemporaryFolder;
using test::write_text;

namespace {

constexpr const char* page = "<html><!-- model --><script>start()</script></html>";

void save_small_model(const std::string& folder) {
  const json config{{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
                    {"n_embd", 8},          {"n_layer", 1},
                    {"n_head", 2},          {"n_positions", 8},
                    {"vocab_size", 11}};
  hub::save_model(*hub::make_model(config, {.seed = 1}), folder);
}

/// The text between two marks, the first of them once in `text`.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t at = text.find(begin);
  REQUIRE(at != std::string::npos);
  CHECK(text.find(begin, at + 1) == std::string::npos);
  return text.substr(at + begin.size(), text.find(end, at) - at - begin.size());
}

} // namespace

TEST_CASE("explore: the page holds the model's files and no key file") {
  const TemporaryFolder folder;
  write_text(folder.path("page.html"), page);
  save_small_model(folder.path("m"));
  write_text(folder.path("m/vocab.txt"), "a\n</script>\n");
  for (const char* name : {"m/secret.txt", "m/secret.safetensors"})
    CHECK(run_program({"keygen", "--out", name}, folder.path()).code == 0);
  const Outcome got = run_program(
      {"explore", "--model", "m", "--page", "page.html", "--out", "e.html", "--json", "e.json"}, folder.path());
  REQUIRE_MESSAGE(got.code == 0, got.err);
  const std::string made = read_text(folder.path("e.html"));
  const std::string text = between(made, "<script type=\"application/json\" id=\"model\">", "</script>");
  const json model = json::parse(text);
  CHECK(model["name"] == "m");
  CHECK(model["files"].size() == 3);
  for (const char* name : {"config.json", "model.safetensors", "vocab.txt"}) {
    const Bytes bytes = read_file(folder.path(std::string("m/") + name));
    CHECK(model["files"][name] == data::base64(bytes));
  }
  CHECK(json::parse(read_text(folder.path("e.json")))["bytes"] == made.size());
}

TEST_CASE("explore: a key in the place of a model's file is refused") {
  const TemporaryFolder folder;
  write_text(folder.path("page.html"), page);
  save_small_model(folder.path("m"));
  CHECK(run_program({"keygen", "--out", "key"}, folder.path()).code == 0);
  std::filesystem::create_symlink("../key", folder.path("m/vocab.txt"));
  const Outcome got = run_program({"explore", "--model", "m", "--page", "page.html", "--out", "e.html"}, folder.path());
  // Left out or refused: it is not in the page.
  if (got.code == 0)
    CHECK(read_text(folder.path("e.html")).find("vocab.txt") == std::string::npos);
  else
    CHECK_MESSAGE(got.err.find("secret key") != std::string::npos, got.err);
}

TEST_CASE("explore: without a model the page is as it was") {
  const TemporaryFolder folder;
  write_text(folder.path("page.html"), page);
  REQUIRE(run_program({"explore", "--page", "page.html", "--out", "e.html"}, folder.path()).code == 0);
  CHECK(read_text(folder.path("e.html")) == page);
}

TEST_CASE("explore: refusals say what is wrong, and write nothing") {
  const TemporaryFolder folder;
  write_text(folder.path("page.html"), page);
  write_text(folder.path("other.html"), "<html></html>");
  write_text(folder.path("empty/notes.txt"), "");
  const auto refused = [&](const std::vector<std::string>& words, const std::string& why) {
    const Outcome got = run_program(words, folder.path());
    CHECK(got.code == 2);
    CHECK_MESSAGE(got.err.find(why) != std::string::npos, got.err);
    CHECK_FALSE(file_exists(folder.path("e.html")));
  };
  refused({"explore", "--page", "other.html", "--out", "e.html"}, "is no page of ./scripts/explorer.sh");
  refused({"explore", "--page", "none.html", "--out", "e.html"}, "none.html");
  refused({"explore", "--page", "page.html", "--model", "empty", "--out", "e.html"}, "config.json");
  refused({"explore", "--page", "page.html"}, "--out");
}
