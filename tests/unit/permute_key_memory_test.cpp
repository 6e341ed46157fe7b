// What a core dump of a process that holds a key would show: its memory without the mappings that are left out of
// dumps.

#include "permute/key.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace eg;
using permute::SecretKey;

namespace {

/// A mapping of a process; dumped: a core dump would hold it.
struct Mapping {
  std::uint64_t begin = 0, end = 0;
  bool dumped = false;
};

std::vector<Mapping> mappings(pid_t pid) {
  std::ifstream smaps("/proc/" + std::to_string(pid) + "/smaps");
  std::vector<Mapping> all;
  bool readable = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long begin = 0, end = 0;
    char flags[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, flags) == 3) {
      readable = flags[0] == 'r';
      if (readable) all.push_back({begin, end, true});
    } else if (readable && line.starts_with("VmFlags:")) {
      all.back().dumped = line.find(" dd") == std::string::npos;
    }
  }
  return all;
}

/// How often `secret` lies in the memory of a process, in what would be dumped and in what would not.
struct Copies {
  int dumped = 0, kept_out = 0;
  std::uint64_t bytes = 0; ///< looked at
};

Copies copies_in(pid_t pid, const std::string& secret) {
  Copies found;
  const int memory = ::open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
  if (memory < 0) return found;
  for (const Mapping& m : mappings(pid)) {
    constexpr std::uint64_t most = std::uint64_t{1} << 28; // beyond: a sanitizer's shadow
    if (m.end - m.begin > most) continue;
    std::string bytes(m.end - m.begin, '\0');
    const ssize_t n = ::pread(memory, bytes.data(), bytes.size(), static_cast<off_t>(m.begin));
    if (n <= 0) continue;
    bytes.resize(static_cast<std::size_t>(n));
    found.bytes += bytes.size();
    for (std::size_t at = bytes.find(secret); at != std::string::npos; at = bytes.find(secret, at + 1))
      ++(m.dumped ? found.dumped : found.kept_out);
  }
  ::close(memory);
  return found;
}

/// Half of the key's bytes.
std::string secret_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str().substr(16, 16);
}

} // namespace

TEST_CASE("a core dump of a process that has loaded a key and drawn from it does not hold the key") {
  const test::TemporaryFolder place;
  const std::string path = place.path("a.key");
  // The key is made by another process: nothing of it is in this one's memory when the children are made.
  const pid_t maker = ::fork();
  if (maker == 0) {
    SecretKey::generate("a label").save(path);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(maker, &status, 0) == maker);
  REQUIRE(status == 0);
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    const SecretKey key = SecretKey::load(path);
    [[maybe_unused]] const auto drawn = key.permutation(100, {"m", "s"});
    [[maybe_unused]] const std::string name = key.fingerprint();
    [[maybe_unused]] const ssize_t told = ::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  const std::string secret = secret_of(path);
  const Copies found = copies_in(holder, secret);
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  if (found.bytes == 0) {
    MESSAGE("this system does not let a process look into its children: nothing was checked");
    return;
  }
  CHECK(found.dumped == 0);
  CHECK(found.kept_out >= 1); // the search finds what is there
  CHECK(found.bytes > 100000);
}
