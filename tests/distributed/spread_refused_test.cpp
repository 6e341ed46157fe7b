// Commands that one process does, under a launcher.

#include "distributed/launched.h"

#include <doctest/doctest.h>

using namespace eg::test;

TEST_CASE("a verb that does not spread is refused once, by the process that speaks, and all end") {
  for (const Launcher& launcher : launchers()) {
    CAPTURE(launcher.name);
    const Launched got = run_processes(&launcher, 3, {"tokenize", "--tokenizer", "no-such-folder", "text"});
    CHECK_FALSE(got.timed_out);
    CHECK(got.code == 2);
    CHECK(got.out.empty());
    // Others may say it too, with their names.
    const std::size_t at = got.err.find("equigrad: tokenize works in one process");
    CHECK(at != std::string::npos);
    CHECK(got.err.find("equigrad: tokenize works in one process", at + 1) == std::string::npos);
  }
}

TEST_CASE("a verb that does not spread runs under a launcher of one process") {
  for (const Launcher& launcher : launchers()) {
    CAPTURE(launcher.name);
    const Launched got = run_processes(&launcher, 1, {"certs", "--help"});
    CHECK(got.code == 0);
    CHECK(got.out.find("certificates") != std::string::npos);
  }
}
