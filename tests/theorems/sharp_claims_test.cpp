// Statements that say what is all there is search for counterexamples: docs/sharp-claims.md.

#include "permute/catalogue/case.h"
#include "theorems/sharp_words.h"

#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace {

using namespace eg::permute;

/// A statement that is sharp by its words; what stands in quotation marks is the papers'.
bool sounds_sharp(const std::string& statement) {
  static const std::regex quoted("\"[^\"]*\""), words("\\b(exactly|only|any|no|whole)\\b", std::regex::icase);
  return std::regex_search(std::regex_replace(statement, quoted, ""), words);
}

std::string page() {
  std::string text = "# Sharp claims\n\nThese statements say what is all there is. Each row of the catalogue tries "
                     "every element of a group, or drawn candidates, over\ndrawn weights and shapes, "
                     "and fails if one of them contradicts the statement. The tests write this page.\n\n| id | "
                     "statement | candidates tried |\n|---|---|---|\n";
  for (const Identity& identity : catalogue())
    if (identity.sharp)
      text += fmt::format("| `{}` | {} | {} |\n", identity.id, identity.statement, verify(identity, {}).candidates);
  text += fmt::format(
      "\n## Statements for all permutations\n\nThese rows draw their permutations. The tests run each {} times in f64, "
      "with other seeds, weights and shapes.\n[sharp_words.txt](../tests/theorems/sharp_words.txt) lists the sentences "
      "of the documentation that rest on them.\n\n| id | statement |\n|---|---|\n",
      draws_of_a_statement);
  std::set<std::string> drawn;
  for (const SharpSentence& sentence : sharp_sentences())
    if (sentence.kind == "drawn")
      for (const std::string& id : ids_of(sentence)) drawn.insert(id);
  for (const Identity& identity : catalogue())
    if (drawn.contains(identity.id)) text += fmt::format("| `{}` | {} |\n", identity.id, identity.statement);
  return text;
}

TEST_CASE("sharp claims: the words of a statement and its flag agree") {
  CHECK(sounds_sharp("It passes exactly two."));
  CHECK(sounds_sharp("No other passes."));
  CHECK_FALSE(sounds_sharp("\"any P_C\" holds; nothing is anywhere."));
  for (const Identity& identity : catalogue()) {
    INFO(identity.id, ": ", identity.statement);
    CHECK((identity.sharp || !sounds_sharp(identity.statement)));
  }
}

TEST_CASE("sharp claims: a row that searches nothing fails") {
  Identity identity{.id = "test", .title = "a row of the test", .statement = "", .tex = "", .run = {}};
  identity.sharp = true;
  const auto with = [&](std::int64_t candidates) {
    identity.run = [candidates](Case&) {
      const eg::Tensor one = eg::Tensor::ones({3}, eg::DType::f64);
      Claim claim;
      claim.equal("same", one, one);
      claim.differs("other", one, one * 2.0);
      claim.candidates = candidates;
      return claim;
    };
    return verify(identity, {}).pass;
  };
  CHECK_FALSE(with(0));
  CHECK_FALSE(with(719));
  CHECK(with(720));
}

TEST_CASE("sharp claims: docs/sharp-claims.md lists them") {
  const std::string path = EQUIGRAD_SOURCE_DIR "/docs/sharp-claims.md", should = page();
  if (std::getenv("EQUIGRAD_WRITE_DOCS") != nullptr) std::ofstream(path, std::ios::binary) << should;
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  INFO("run this test with EQUIGRAD_WRITE_DOCS=1 and commit docs/sharp-claims.md");
  CHECK(text.str() == should);
}

} // namespace
