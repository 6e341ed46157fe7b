// A write that is interrupted at any point leaves the old file, or the new one, never anything else.

#include "core/base/bytes.h"
#include "data/safetensors.h"
#include "faults/faulty_process.h"
#include "support/message.h"
#include "support/temporary_folder.h"

#include <cerrno>
#include <chrono>
#include <cmath>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <string>
#include <thread>
#include <vector>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

/// Starts the writer; `fault` as the shim reads it.
class Writer : public FaultyProcess {
public:
  Writer(const std::string& kind, const std::string& path, int version, const std::string& fault = "",
         const std::string& calls = "", rlim_t largest = RLIM_INFINITY)
      : FaultyProcess({FAULT_WRITER, kind, path, std::to_string(version)},
                      {.fault = fault, .calls = calls, .largest = largest}) {}
};

int write_version(const std::string& kind, const std::string& path, int version, const std::string& fault = "") {
  return Writer(kind, path, version, fault).wait();
}

} // namespace

TEST_CASE("faults: every call that can fail or be the last, for every kind of file") {
  for (const std::string kind : {"safetensors", "npy", "npz", "json"}) {
    const TemporaryFolder folder;
    const std::string path = folder.path("file");
    REQUIRE(write_version(kind, path, 2) == finished);
    const Bytes after = read_file(path);
    REQUIRE(write_version(kind, path, 1) == finished);
    const Bytes before = read_file(path);
    REQUIRE(before != after);
    int faults = 0;
    int kept = 0;
    for (const std::string call : {"write", "fsync", "rename"})
      for (const std::string& what : {std::to_string(EIO), std::to_string(ENOSPC), std::string("kill"),
                                      std::string("half"), std::string("after")})
        for (int n = 1;; ++n) {
          if (what == "half" && call != "write") break;
          const std::string fault = fmt::format("{} {} {}", call, n, what);
          CAPTURE(kind);
          CAPTURE(fault);
          const int code = write_version(kind, path, 2, fault);
          if (code == finished) { // there is no such call any more
            REQUIRE(n > 1);
            REQUIRE(read_file(path) == after);
            REQUIRE(write_version(kind, path, 1) == finished);
            break;
          }
          ++faults;
          CHECK(code == (std::isdigit(what[0]) != 0 ? reported : died));
          const Bytes left = read_file(path);
          CHECK((left == before || left == after));
          kept += left == before ? 1 : 0;
          if (code == reported) CHECK(folder.names() == std::vector<std::string>{"file"}); // cleaned up
          if (call == "write") CHECK(left == before); // nothing is seen before the rename
          for (const std::string& name : folder.names())
            if (name != "file") std::filesystem::remove(folder.path(name));
          if (left != before) REQUIRE(write_version(kind, path, 1) == finished);
        }
    CHECK(faults > 15);
    CHECK(kept > 10);
    CHECK(kept < faults); // some came after the rename
  }
}

TEST_CASE("faults: the values are on the disk before they have the name, and the name before the writer returns") {
  for (const std::string kind : {"safetensors", "npy", "npz", "json"}) {
    const TemporaryFolder folder;
    CHECK(Writer(kind, folder.path("file"), 1, "", folder.path("calls")).wait() == finished);
    const std::vector<std::string> calls = lines_of(folder.path("calls"));
    CAPTURE(kind);
    REQUIRE(calls.size() >= 4);
    for (std::size_t i = 0; i + 3 < calls.size(); ++i) CHECK(calls[i] == "write");
    CHECK(std::vector<std::string>(calls.end() - 3, calls.end()) ==
          std::vector<std::string>{"fsync", "rename", "fsync"});
  }
}

TEST_CASE("faults: writes that do less than asked are continued") {
  const TemporaryFolder folder;
  REQUIRE(write_version("safetensors", folder.path("whole"), 3) == finished);
  for (int n = 1; n <= 4; ++n) {
    REQUIRE(write_version("safetensors", folder.path("parts"), 3, fmt::format("write {} short", n)) == finished);
    CHECK(read_file(folder.path("parts")) == read_file(folder.path("whole")));
  }
}

TEST_CASE("faults: a full disk") {
  const TemporaryFolder folder;
  const std::string path = folder.path("file");
  REQUIRE(write_version("safetensors", path, 1) == finished);
  const Bytes before = read_file(path);
  for (const rlim_t room : {0U, 1U, 8U, 100U, 10000U, 24000U}) {
    CAPTURE(room);
    CHECK(Writer("safetensors", path, 2, "", "", room).wait() == reported);
    CHECK(read_file(path) == before);
    CHECK(folder.names() == std::vector<std::string>{"file"});
  }
  CHECK(Writer("safetensors", path, 2, "", "", 100000).wait() == finished);
  CHECK(load_safetensors(path).metadata.at("version") == "2");
}

TEST_CASE("faults: a writer that is killed at any time") {
  const TemporaryFolder folder;
  const std::string path = folder.path("file");
  REQUIRE(write_version("large", path, 0) == finished);
  int killed = 0;
  for (int round = 1; round <= 40; ++round) {
    CAPTURE(round);
    const Writer writer("large", path, round);
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * round));
    writer.kill();
    killed += writer.wait() == died ? 1 : 0;
    const TensorFile file = load_safetensors(path);
    REQUIRE(file.tensors.size() == 1);
    const auto values = file.tensors[0].second.to_vector<double>();
    REQUIRE(values.size() == 4'000'000);
    bool same = values[0] == std::floor(values[0]);
    for (const double value : values) same = same && value == values[0];
    CHECK(same);
    for (const std::string& name : folder.names())
      if (name != "file") std::filesystem::remove(folder.path(name));
  }
  CHECK(killed > 5);
}

TEST_CASE("faults: a sharded set that is not finished has no index, and cannot be mistaken for one") {
  int died_before_index = 0;
  for (int n = 1; n < 100; ++n) {
    const TemporaryFolder folder;
    CAPTURE(n);
    const int code = write_version("sharded", folder.path(), 1, fmt::format("write {} half", n));
    if (code == finished) {
      CHECK(open_tensors(folder.path()).tensors().size() == 3);
      break;
    }
    REQUIRE(code == died);
    CHECK(message_of<FileError>([&] {
            open_tensors(folder.path());
          }).starts_with(folder.path() + ": the folder holds neither"));
    ++died_before_index;
    // What is left over does not stop the next attempt.
    CHECK(write_version("sharded", folder.path(), 2) == finished);
    CHECK(open_tensors(folder.path()).read("b").at({0}) == 2.0);
  }
  CHECK(died_before_index > 5);
}
