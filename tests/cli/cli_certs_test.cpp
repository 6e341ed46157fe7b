// equigrad certs: all the files or none, whatever comes between.

#include "cli/program.h"

#include <csignal>
#include <doctest/doctest.h>
#include <filesystem>

using namespace eg::test;

namespace {

using Words = std::vector<std::string>;

std::string edges(int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += (i == 0 ? "e" : ",e") + std::to_string(i);
  return list;
}

bool has_certs() { return run_program({"certs", "--help"}).code == 0; }

} // namespace

TEST_CASE("certs: a host that is no address and no name is refused before anything is written") {
  if (!has_certs()) return;
  const TemporaryFolder folder;
  for (const auto& [hosts, said] : std::vector<std::pair<std::string, std::string>>{
           {"1.2.3.4.5", "host '1.2.3.4.5' is not an address of IPv4, nor a name"},
           {"localhost,1.2.3", "host '1.2.3' is not an address of IPv4"},
           {"256.0.0.1", "host '256.0.0.1' is not an address of IPv4"},
           {"1:2", "host '1:2' is not an address of IPv6"}}) {
    const Outcome got = run_program({"certs", "--out", "C", "--host", hosts}, folder.path());
    CHECK(got.code == 2);
    CHECK_MESSAGE(got.err.find(said) != std::string::npos, got.err);
    CHECK(folder.names().empty());
  }
  const Outcome right = run_program({"certs", "--out", "C", "--host", "1.2.3.4,::1,a-b.example"}, folder.path());
  CHECK_MESSAGE(right.code == 0, right.err);
}

TEST_CASE("certs: killed at any time, it leaves all files or none, and runs again") {
  if (!has_certs()) return;
  const TemporaryFolder folder;
  constexpr int count = 40;
  const std::string out = folder.path("C");
  const auto files = [](const std::string& path) {
    std::error_code gone; // the folder may get its name meanwhile
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(path, gone), {}));
  };
  constexpr int whole = 2 * (count + 2);
  int killed = 0;
  for (int i = 0; i < 20; ++i) {
    const Words words = {"certs", "--out", out, "--edge", edges(count), "--quiet"};
    {
      RunningProgram program(words, folder.path());
      // While it works, more or less far: a file has appeared, or as many as i * 4.
      program.wait_until([&] {
        int most = 0;
        for (const std::string& name : folder.names())
          most = std::max(most, files(folder.path(name + "/equigrad-unfinished")));
        return most > 4 * i;
      });
      program.signal(SIGKILL);
      if (program.wait().code == 128 + SIGKILL) ++killed;
    }
    if (std::filesystem::exists(out)) {
      CHECK(files(out) == whole);
    } else {
      const Outcome again = run_program(words, folder.path());
      CHECK_MESSAGE(again.code == 0, again.err);
      CHECK(files(out) == whole);
      CHECK(folder.names() == Words{"C"}); // what was left has gone
    }
    std::filesystem::remove_all(out);
  }
  CHECK(killed > 0);
}

TEST_CASE("certs: in a folder that is there, a file in the way is named and nothing is written") {
  if (!has_certs()) return;
  const TemporaryFolder folder;
  write_text(folder.path("C/e3.key"), "kept");
  const Words words = {"certs", "--out", "C", "--edge", edges(6)};
  const Outcome got = run_program(words, folder.path());
  CHECK(got.code == 2);
  CHECK_MESSAGE(got.err == "equigrad: C/e3.key: exists already; keys and certificates are never overwritten\n",
                got.err);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path("C")), {}) == 1);
  std::filesystem::rename(folder.path("C/e3.key"), folder.path("C/notes.txt"));
  CHECK(run_program(words, folder.path()).code == 0);
  CHECK(read_text(folder.path("C/notes.txt")) == "kept");
}
