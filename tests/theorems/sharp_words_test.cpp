// Whoever writes "exactly", "only", "any", "no" or "whole" about the mathematics must have tried to falsify it: every
// such sentence of the documentation and of permute's headers is in sharp_words.txt with what backs it.

#include "core/random.h"
#include "permute/catalogue/catalogue.h"
#include "theorems/sharp_words.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using namespace eg::permute;

const std::string root = EQUIGRAD_SOURCE_DIR "/";

/// The text between `open` and `close` taken out, or replaced.
std::string without(std::string text, const std::string& open, const std::string& close, const std::string& instead) {
  for (std::size_t begin = 0; (begin = text.find(open, begin)) != std::string::npos; begin += instead.size()) {
    const std::size_t end = text.find(close, begin + open.size());
    if (end == std::string::npos) break;
    text.replace(begin, end + close.size() - begin, instead);
  }
  return text;
}

/// The comments of a header.
std::string comments_of(const std::string& header) {
  std::istringstream lines(header);
  std::string all;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find("//");
    if (begin == std::string::npos) continue;
    const std::size_t text = line.find_first_not_of("/<! ", begin);
    if (text != std::string::npos) all += line.substr(text) + "\n";
  }
  return all;
}

/// Sentences, clauses and cells of tables that hold one of the words. Programs and quotations are left out.
std::vector<std::string> sentences_of(const std::string& path, std::string text) {
  text = path.ends_with(".h") ? comments_of(text) : without(std::move(text), "```", "```", "");
  text = without(std::move(text), "\"", "\"", "(quoted)");
  static const std::regex words("\\b(exactly|only|any|no|whole)\\b", std::regex::icase);
  std::vector<std::string> found;
  std::string sentence;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const bool ends =
        i == text.size() || (std::string(".:;|").find(text[i]) != std::string::npos &&
                             (i + 1 == text.size() || std::isspace(static_cast<unsigned char>(text[i + 1]))));
    if (i < text.size()) sentence += text[i];
    if (!ends) continue;
    if (std::regex_search(sentence, words)) found.push_back(trimmed(sentence));
    sentence.clear();
  }
  return found;
}

std::vector<std::string> searched_files() {
  std::vector<std::string> files{"README.md",      "permute/README.md",  "docs/catalogue.md",
                                 "docs/theory.md", "docs/symmetries.md", "docs/training-equivalence.md"};
  for (const auto& [folder, ending] : {std::pair{"docs/theorems", ".md"}, std::pair{"permute", ".h"}})
    for (const fs::directory_entry& e : fs::recursive_directory_iterator(root + folder))
      if (e.path().extension() == ending) files.push_back(fs::relative(e.path(), root));
  std::sort(files.begin(), files.end());
  return files;
}

const Identity* row_of(const std::string& id) {
  for (const Identity& identity : catalogue())
    if (identity.id == id) return &identity;
  return nullptr;
}

} // namespace

TEST_CASE("sharp words: sentences are found in text, tables and comments") {
  CHECK(sentences_of("a.md", "It holds. It holds for any P; nothing else.\n| only | b |\n```\nno\n```\n") ==
        std::vector<std::string>{"It holds for any P;", "only |"});
  CHECK(sentences_of("a.h", "int no; // exactly\nint any;\n/// One\n/// whole page.\n") ==
        std::vector<std::string>{"exactly One whole page."});
  CHECK(sentences_of("a.md", "They say \"for any P\". Nothing, anywhere, manyonly.").empty());
}

TEST_CASE("sharp words: every sentence says what backs it") {
  const std::vector<SharpSentence> list = sharp_sentences();
  std::vector<bool> used(list.size(), false);
  for (const std::string& file : searched_files())
    for (const std::string& sentence : sentences_of(file, text_of(root + file))) {
      int lines = 0;
      for (std::size_t i = 0; i < list.size(); ++i) {
        // One word, which many sentences hold, is a whole cell of a table.
        const bool is_word = list[i].words.find(' ') == list[i].words.rfind(' ') && list[i].words.ends_with("|");
        const bool fits = is_word ? sentence == list[i].words : sentence.find(list[i].words) != std::string::npos;
        if (list[i].file != file || !fits) continue;
        used[i] = true;
        ++lines;
      }
      INFO("lines of tests/theorems/sharp_words.txt for it: ", lines, ": ", file, ": ", sentence);
      CHECK(lines == 1);
    }
  for (std::size_t i = 0; i < list.size(); ++i) {
    INFO("no sentence of ", list[i].file, " holds: ", list[i].words);
    CHECK(used[i]);
  }
}

TEST_CASE("sharp words: what backs a sentence is there") {
  for (const SharpSentence& e : sharp_sentences()) {
    INFO(e.file, ": ", e.words, ": ", e.kind, " ", e.what);
    const Identity* const row = row_of(e.what);
    if (e.kind == "row")
      CHECK((row != nullptr && row->sharp));
    else if (e.kind == "drawn")
      for (const std::string& id : ids_of(e)) CHECK(row_of(id) != nullptr);
    else if (e.kind == "test")
      CHECK(fs::exists(root + e.what));
    else if (e.kind == "proof")
      CHECK(text_of(root + e.file).find("\n## " + e.what + "\n") != std::string::npos);
    else
      CHECK(e.kind == "-");
  }
}

TEST_CASE("sharp words: statements for all permutations hold for many, with many weights and shapes") {
  std::set<std::string> ids;
  for (const SharpSentence& e : sharp_sentences())
    if (e.kind == "drawn")
      for (const std::string& id : ids_of(e)) ids.insert(id);
  for (const std::string& id : ids) {
    const Identity* const row = row_of(id);
    REQUIRE(row != nullptr);
    eg::RandomStream random({20261125, 7});
    const auto between = [&](std::int64_t least, std::int64_t most) {
      return least + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most - least + 1)));
    };
    for (std::int64_t draw = 0; draw < draws_of_a_statement; ++draw) {
      VerifyOptions options;
      options.seed = static_cast<std::uint64_t>(1000 + draw);
      options.tokens = between(4, 9);
      options.heads = between(2, 4);
      options.dim = options.heads * 2 * between(1, 3);
      options.hidden = between(3, 24);
      options.layers = between(1, 2);
      options.batch = between(1, 3);
      options.steps = 4;
      const VerifyResult result = verify(*row, options);
      INFO(id, " at seed ", options.seed, ", tokens ", options.tokens, ", dim ", options.dim, ", heads ", options.heads,
           ", hidden ", options.hidden, ", layers ", options.layers, ", batch ", options.batch, ": ", result.detail,
           ", error ", result.error, ", control ", result.control.error);
      CHECK(result.pass);
    }
  }
}
