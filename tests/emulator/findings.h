#pragma once
// Checks that a call is refused in the words of a finding: the kernel, the file and the line that is marked as wrong.

#include "core/cuda/emulator/emulator.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fstream>
#include <string>
#include <vector>

namespace eg::test {

/// "planted.cu:12", where the line of planted.cu or refused.cu ends by "// WRONG name"; "" where there is none.
inline std::string wrong_line(const std::string& name) {
  for (const char* const file : {"planted.cu", "refused.cu"}) {
    std::ifstream text(std::string(EQUIGRAD_SOURCE_DIR "/tests/emulator/") + file);
    int number = 0;
    for (std::string line; std::getline(text, line);) {
      ++number;
      if (line.ends_with("// WRONG " + name)) return fmt::format("{}:{}", file, number);
    }
  }
  return "";
}

/// What f() says when it is refused; "" where it is not.
template <class F> std::string finding_of(F f) {
  try {
    f();
  } catch (const emulator::Error& e) {
    return e.what();
  }
  return "";
}

/// The words that a finding lacks.
inline std::vector<std::string> missing_words(const std::string& finding, const std::vector<std::string>& words) {
  std::vector<std::string> missing;
  for (const std::string& word : words)
    if (word.empty() || finding.find(word) == std::string::npos) missing.push_back(word);
  return missing;
}

template <class F> void must_find(F f, const std::vector<std::string>& words) {
  const std::string finding = finding_of(f);
  CHECK_MESSAGE(missing_words(finding, words) == std::vector<std::string>{}, finding);
}

} // namespace eg::test
