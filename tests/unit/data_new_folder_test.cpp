// Folders that appear complete or not at all, and what is left of those that did not.

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/new_folder.h"
#include "data_samples.h"
#include "support/message.h"
#include "support/temporary_folder.h"

#include <csignal>
#include <doctest/doctest.h>
#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>

using namespace eg;
using namespace eg::test;

namespace {

using Names = std::vector<std::string>;

void fill(const NewFolder& folder) { write_file(folder.file("file"), std::string_view("whole")); }

/// A process that fills a folder of that name, and is killed before it keeps it.
void leave(const std::string& path) {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    const NewFolder folder(path);
    fill(folder);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFSIGNALED(status));
}

} // namespace

TEST_CASE("new folder: whole under its name, or gone") {
  const TemporaryFolder folder;
  { const NewFolder given_up(folder.path("a")); }
  CHECK(folder.names().empty());
  NewFolder made(folder.path("deep/er/a/"));
  fill(made);
  write_file(join_path(made.make_folder("in"), "file"), std::string_view("too"));
  CHECK_FALSE(std::filesystem::exists(folder.path("deep/er/a")));
  made.keep();
  CHECK(std::filesystem::exists(folder.path("deep/er/a/in/file")));
  CHECK(message_of<FileError>([&] { const NewFolder again(folder.path("deep/er/a")); }) ==
        folder.path("deep/er/a") + ": is there already; nothing is overwritten");
}

TEST_CASE("new folder: the longest name that a file system takes") {
  const TemporaryFolder folder;
  for (const std::size_t bytes : {std::size_t{250}, std::size_t{255}}) {
    const std::string name(bytes, 'n');
    leave(folder.path(name));
    NewFolder made(folder.path(name));
    fill(made);
    made.keep();
    CHECK(folder.names() == Names{name});
    std::filesystem::remove_all(folder.path(name));
  }
}

TEST_CASE("new folder: what a killed process left goes with the next of that name, and nothing else") {
  const TemporaryFolder folder;
  leave(folder.path("a"));
  leave(folder.path("a"));
  leave(folder.path("b"));
  const Names left = folder.names();
  REQUIRE(left.size() == 2); // the second of "a" has removed the first
  for (const char* other : {"a.tmp-x", "a.tmp-1", "a.tmp-1-", "aa.tmp-1-0", "a.tmp-1-0.old", "a.tmp-2024-02"})
    std::filesystem::create_directory(folder.path(other));
  write_file(folder.path("a.tmp-2-0"), std::string_view("a file"));
  std::filesystem::create_directory(folder.path("far"));
  std::filesystem::create_directory_symlink("far", folder.path("a.tmp-3-0"));
  NewFolder made(folder.path("a"));
  fill(made);
  made.keep();
  Names expected = {"a",         "a.tmp-x",    "a.tmp-1",       "a.tmp-1-",      "a.tmp-2-0",
                    "a.tmp-3-0", "aa.tmp-1-0", "a.tmp-1-0.old", "a.tmp-2024-02", "far"};
  for (const std::string& name : left)
    if (name.starts_with("b.tmp-")) expected.push_back(name);
  Names found = folder.names();
  std::sort(found.begin(), found.end());
  std::sort(expected.begin(), expected.end());
  CHECK(found == expected);
}

TEST_CASE("new folder: a user's folder whose name is that of a leftover stays with its files") {
  const TemporaryFolder folder;
  const std::string thesis = folder.path("a.tmp-2024-01/thesis.txt", true);
  write_file(thesis, std::string_view("a thesis"));
  leave(folder.path("a"));
  for (const std::string& name : folder.names()) // put beside what was left, as by somebody who looked into it
    if (name != "a.tmp-2024-01") write_file(folder.path(name + "/notes.txt"), std::string_view("notes"));
  NewFolder made(folder.path("a"));
  fill(made);
  made.keep();
  CHECK(read_file(thesis) == text("a thesis"));
  REQUIRE(folder.names().size() == 3);
  for (const std::string& name : folder.names()) {
    CHECK_FALSE(std::filesystem::exists(folder.path(name + "/equigrad-unfinished")));
    if (name != "a" && name != "a.tmp-2024-01") CHECK(file_exists(folder.path(name + "/notes.txt")));
  }
}

TEST_CASE("new folder: one that is being filled stays, also beside another of that name") {
  const TemporaryFolder folder;
  NewFolder first(folder.path("a"));
  fill(first);
  NewFolder second(folder.path("a"));
  fill(second);
  CHECK(folder.names().size() == 2);
  first.keep();
  CHECK(message_of<FileError>([&] { second.keep(); }).starts_with(folder.path("a") + ": cannot be made: "));
  CHECK(file_exists(folder.path("a/file")));
}
