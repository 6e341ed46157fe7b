// The first sentence of every header: a verb first, at most 25 words, none of the words that only this project used.

#include "core/base/bytes.h"

#include <cctype>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr std::string_view folders[] = {"apps", "autograd", "core",    "data",   "include",
                                        "nn",   "optim",    "permute", "python", "training"};

constexpr std::string_view private_words[] = {
    "told",    "tells", "lie",     "lies",  "hear",  "hears",  "stand",  "stands",  "somebody", "nobody", "obey",
    "nowhere", "anew",  "goes on", "go on", "is no", "are no", "who is", "who has", "way back", "kin"};

std::string text_of(const std::string& path) {
  const eg::Bytes bytes = eg::read_file(path);
  return {bytes.begin(), bytes.end()};
}

/// The comment that opens a header, in one line: the one right below `#pragma once`, or at the top where a header is
/// included several times; "" when there is none.
std::string opening_comment(std::string_view header) {
  constexpr std::string_view once = "#pragma once\n";
  if (header.starts_with(once)) header.remove_prefix(once.size());
  std::istringstream lines{std::string(header)};
  std::string comment;
  for (std::string line; std::getline(lines, line) && line.starts_with("// ");)
    comment += (comment.empty() ? "" : " ") + line.substr(3);
  return comment;
}

/// Up to the first full stop before a blank.
std::string first_sentence(const std::string& comment) { return comment.substr(0, comment.find(". ")); }

/// The words in lower case, without punctuation, between blanks: " reads a file ".
std::string plain_words(const std::string& sentence) {
  std::string words = " ";
  for (const char c : sentence) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0 || c == '\'' || c == '-') words += static_cast<char>(std::tolower(letter));
    if (c == ' ') words += c;
  }
  return words + " ";
}

/// What is wrong with the first sentence of a header; "" where nothing is.
std::string fault_of(std::string_view header) {
  const std::string sentence = first_sentence(opening_comment(header));
  if (sentence.empty()) return "no comment at the beginning";
  std::istringstream blanks(sentence);
  const std::vector<std::string> words{std::istream_iterator<std::string>(blanks), {}};
  if (words.size() > 25) return fmt::format("{} words in the first sentence", words.size());
  if (std::isupper(static_cast<unsigned char>(sentence[0])) == 0 || !words[0].ends_with('s'))
    return fmt::format("begins with '{}', not with a verb such as Reads", words[0]);
  for (const std::string_view word : private_words)
    if (plain_words(sentence).find(fmt::format(" {} ", word)) != std::string::npos) return fmt::format("'{}'", word);
  return "";
}

TEST_CASE("headers: the first sentence of each says what it does in at most 25 words") {
  std::size_t read = 0;
  for (const std::string_view folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(EQUIGRAD_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".h") continue;
      const std::string path = fs::relative(entry.path(), EQUIGRAD_SOURCE_DIR).generic_string();
      ++read;
      CHECK_MESSAGE(fault_of(text_of(entry.path().string())) == "", path);
    }
  CHECK(read > 200);
}

TEST_CASE("headers: each fault of a first sentence is noticed") {
  CHECK(fault_of("#pragma once\n// Reads a file,\n// line by line. What is told here is not looked at.\n") == "");
  CHECK(fault_of("// Widens vectors of numbers.\n\n#include \"core/bf16.h\"\n") == "");
  CHECK(fault_of("#pragma once\n\n// Reads a file.\n") == "no comment at the beginning");
  CHECK(fault_of("#pragma once\n#include <string>\n") == "no comment at the beginning");
  CHECK(fault_of("#pragma once\n// What a reader sees.\n") == "begins with 'What', not with a verb such as Reads");
  CHECK(fault_of("#pragma once\n// reads a file.\n") == "begins with 'reads', not with a verb such as Reads");
  CHECK(fault_of("#pragma once\n// Says where a file lies, and more.\n") == "'lies'");
  CHECK(fault_of("#pragma once\n// Runs the way\n// back.\n") == "'way back'");
  std::string counts = "Counts";
  for (int i = 2; i <= 25; ++i) counts += " one";
  CHECK(fault_of("#pragma once\n// " + counts + ".\n") == "");
  CHECK(fault_of("#pragma once\n// " + counts + " more.\n") == "26 words in the first sentence");
}

} // namespace
