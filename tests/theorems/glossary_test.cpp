// docs/glossary.md: in order, one sentence a word, and found from the list of documents.

#include "theorems/sharp_words.h"

#include <algorithm>
#include <cctype>
#include <doctest/doctest.h>
#include <sstream>
#include <string>
#include <vector>

namespace {

/// Letters and digits of a text, small.
std::string folded(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

} // namespace

TEST_CASE("glossary: sixty to a hundred words in order, one sentence each") {
  const std::string root = EQUIGRAD_SOURCE_DIR "/docs/";
  std::istringstream lines(eg::permute::text_of(root + "glossary.md"));
  std::vector<std::string> words;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("- **")) continue;
    INFO(line);
    const std::size_t end = line.find("**: ");
    REQUIRE(end != std::string::npos);
    words.push_back(folded(line.substr(4, end - 4)));
    const std::string sentence = line.substr(end + 4);
    CHECK(sentence.size() > 12);
    CHECK(sentence.ends_with("."));
    CHECK(sentence.find(". ") == std::string::npos);
  }
  CHECK(words.size() >= 60);
  CHECK(words.size() <= 100);
  CHECK(std::is_sorted(words.begin(), words.end()));
  CHECK(std::adjacent_find(words.begin(), words.end()) == words.end());
  for (const char* page : {"README.md", "theory.md", "theorems/README.md"})
    CHECK(eg::permute::text_of(root + page).find("glossary.md)") != std::string::npos);
}
