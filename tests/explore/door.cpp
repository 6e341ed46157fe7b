// Answers questions of the explorer natively: a line of JSON in, a line out, tensors written out with 17 digits. The
// browser's tests compare pages with it.

#include "apps/explore/door.h"

#include <fmt/format.h>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: explore_door FOLDER < questions\n");
    return 2;
  }
  eg::explore::Door door(argv[1]);
  for (std::string line; std::getline(std::cin, line);) {
    const eg::explore::Answer answer = door.ask(line);
    std::cout << nlohmann::json{{"answer", nlohmann::json::parse(answer.json)}, {"numbers", answer.numbers}}.dump()
              << std::endl;
  }
}
