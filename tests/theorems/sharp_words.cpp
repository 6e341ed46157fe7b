#include "theorems/sharp_words.h"

#include <doctest/doctest.h>
#include <fstream>
#include <regex>
#include <sstream>

namespace eg::permute {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string trimmed(const std::string& text) {
  static const std::regex outside("^\\s+|\\s+$"), inside("\\s+");
  return std::regex_replace(std::regex_replace(text, outside, ""), inside, " ");
}

std::vector<SharpSentence> sharp_sentences() {
  std::istringstream lines(text_of(EQUIGRAD_SOURCE_DIR "/tests/theorems/sharp_words.txt"));
  std::vector<SharpSentence> list;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    const std::size_t first = line.find(" | "), last = line.rfind(" | ");
    REQUIRE_MESSAGE(first < last, line);
    const std::string backing = trimmed(line.substr(last + 3));
    const std::size_t space = backing.find(' ');
    list.push_back({line.substr(0, first), trimmed(line.substr(first + 3, last - first - 3)), backing.substr(0, space),
                    space == std::string::npos ? "" : backing.substr(space + 1)});
  }
  return list;
}

std::vector<std::string> ids_of(const SharpSentence& sentence) {
  std::istringstream words(sentence.what);
  std::vector<std::string> ids;
  for (std::string id; words >> id;) ids.push_back(id);
  return ids;
}

} // namespace eg::permute
