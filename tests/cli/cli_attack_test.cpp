// equigrad attack.

#include "cli/program.h"
#include "support/skip.h"

#include <doctest/doctest.h>
#include <filesystem>

using namespace eg::test;

TEST_CASE("attacks and schemes are listed") {
  const Outcome list = run_program({"attack", "--list"});
  CHECK(list.code == 0);
  for (const char* word :
       {"vocabulary (atk-vma)", "weights (atk-rowmatch)", "linear (atk-linear)", "stip2", "not encryption"})
    CHECK(list.out.find(word) != std::string::npos);
}

TEST_CASE("an attack says what it recovered, what theory says, and that it is obfuscation") {
  const TemporaryFolder folder;
  const Outcome got =
      run_program({"attack", "weights", "--scheme", "stip2", "--base", "published", "--keys", "fixed", "--json",
                   folder.path("r.json"), "--out", folder.path("page.html"), "--markdown", folder.path("t.md")});
  REQUIRE_MESSAGE(got.code == 0, got.err);
  CHECK(got.out.find("P_C of the residual") != std::string::npos);
  CHECK(got.out.find("100.0 %") != std::string::npos);
  CHECK(got.out.find("obfuscation, not encryption") != std::string::npos);
  const auto json = nlohmann::json::parse(read_text(folder.path("r.json")));
  CHECK(json["results"].size() == 1);
  CHECK(json["results"][0]["status"] == "pass");
  CHECK(json["results"][0]["findings"][0]["value"] == 1.0);
  CHECK(read_text(folder.path("page.html")).find("weights against stip2") != std::string::npos);
  CHECK(read_text(folder.path("t.md")).find("100 %") != std::string::npos);
}

TEST_CASE("a whole attack over all schemes, and one that has nothing to attack") {
  const Outcome all = run_program({"attack", "mask", "--json", "-"});
  REQUIRE_MESSAGE(all.code == 0, all.err);
  std::size_t passed = 0, nothing = 0;
  const auto json = nlohmann::json::parse(all.out);
  for (const auto& r : json["results"]) (r["status"] == "pass" ? passed : nothing) += 1;
  CHECK(passed == 12); // row and both, three bases, fixed and fresh keys
  CHECK(nothing == 48);
}

TEST_CASE("wrong requests are one line") {
  const auto refused = [](const std::vector<std::string>& args, const std::string& words) {
    const Outcome got = run_program(args);
    CAPTURE(got.err);
    CHECK(got.code == 2);
    CHECK(got.err.find(words) != std::string::npos);
  };
  refused({"attack"}, "--list names them");
  refused({"attack", "vocabluary"}, "did you mean vocabulary?");
  refused({"attack", "mask", "--scheme", "rows"}, "there is no scheme 'rows'");
  refused({"attack", "mask", "--base", "public"}, "published, tuned, secret");
  refused({"attack", "mask", "--keys", "old"}, "--keys");
  refused({"attack", "mask", "--tokens", "1"}, "--tokens");
  refused({"attack", "weights", "--model", "no/such/model"}, "no/such/model");
  refused({"attack", "decoder", "--defences", "fog"}, "there is no defence 'fog'");
  refused({"attack", "decoder", "--defences", "noise:loud"}, "its strength is a number");
  refused({"attack", "decoder", "--data", "no/such/folder"}, "no/such/folder");
  refused({"attack", "decoder", "--data", "faces", "--size", "18"}, "do not tile 18 x 18");
  refused({"attack", "vocabulary", "--data", "faces"}, "looks at no pictures");
}

TEST_CASE("an attack that learns: pictures of the data that is named, behind a defence, in the page") {
  const TemporaryFolder folder;
  const Outcome got = run_program({"attack",        "decoder",
                                   "--scheme",      "both",
                                   "--keys",        "fixed",
                                   "--data",        "faces",
                                   "--size",        "16",
                                   "--pictures",    "40",
                                   "--steps",       "5",
                                   "--pretraining", "2",
                                   "--defences",    "none,low-pass:3",
                                   "--json",        "-",
                                   "--out",         folder.path("page.html")});
  REQUIRE_MESSAGE(got.code == 0, got.err);
  const auto json = nlohmann::json::parse(got.out);
  REQUIRE(json["results"].size() == 2); // one base, one kind of keys
  CHECK(json["results"][1]["defence"] == "low-pass:3");
  CHECK(json["results"][0]["findings"][0]["unit"] == "SSIM");
  CHECK(json["results"][0]["findings"].size() == 4);
  const std::string page = read_text(folder.path("page.html"));
  CHECK(page.find("recovered 6") != std::string::npos);
  CHECK(page.find("low-pass:3") != std::string::npos);
}

TEST_CASE("trained weights: a text model's key, text and cache") {
  const auto folder = data_or_skip("cli attack: llama2.c", "weights/llama2c-aidreams260K");
  if (folder.empty()) return;
  const Outcome got = run_program({"attack", "all", "--model", folder.string(), "--scheme", "stip2", "--base",
                                   "published", "--keys", "fixed", "--tokens", "4", "--json", "-"});
  REQUIRE_MESSAGE(got.code == 0, got.err);
  const auto json = nlohmann::json::parse(got.out);
  CHECK(json["results"].size() == 8);
  for (const auto& r : json["results"])
    if (r["attack"] == "weights" || r["attack"] == "vocabulary" || r["attack"] == "cache")
      CHECK(r["findings"][0]["value"] == 1.0);
  const Outcome pictures = run_program({"attack", "positions", "--model", folder.string()});
  CHECK(pictures.code == 2);
  CHECK(pictures.err.find("models of pictures") != std::string::npos);
}
