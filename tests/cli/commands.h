#pragma once
// Lists the program's own commands and their options, from `help --json`.

#include "cli/program.h"

#include <string>
#include <vector>

namespace eg::test {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// What the program says of its commands and their options.
inline const Json& commands() {
  static const Json all = Json::parse(run_program({"help", "--json"}).out)["commands"];
  return all;
}

/// "train gpt2" -> train, gpt2
inline Words words_of(const Json& command) {
  const auto text = command["command"].get<std::string>();
  const std::size_t space = text.find(' ');
  return space == std::string::npos ? Words{text} : Words{text.substr(0, space), text.substr(space + 1)};
}

} // namespace eg::test
