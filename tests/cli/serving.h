#pragma once
// Programs that listen, for tests of those that connect.

#include "cli/program.h"

#include <csignal>
#include <cstddef>
#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace eg::test {

/// False, and said, in a build that has no sockets.
inline bool has_net() {
  const bool built = run_program({"certs", "--help"}).code == 0;
  if (!built) MESSAGE("this build has no sockets: libasio-dev or libssl-dev is missing");
  return built;
}

inline std::vector<std::string> with(std::vector<std::string> args, const std::vector<std::string>& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

/// A program that listens, in a process of its own.
class ServingProgram {
public:
  explicit ServingProgram(const std::vector<std::string>& args, const std::string& folder = ".")
      : program_(args, folder) {
    const std::string words = "listening on ";
    REQUIRE(program_.wait_until(
        [&] { return program_.err().find(words) != std::string::npos && program_.err().back() == '\n'; }));
    const std::string err = program_.err();
    const std::size_t at = err.find(words) + words.size();
    place_ = err.substr(at, err.find_first_of(" \n", at) - at);
  }
  const std::string& place() const { return place_; }
  RunningProgram& program() { return program_; }
  Outcome stop() {
    program_.signal(SIGINT);
    return program_.wait();
  }

private:
  RunningProgram program_;
  std::string place_;
};

} // namespace eg::test
