// The state of one thread is in one variable, so that carrying it forgets no part.

#include "core/base/bytes.h"
#include "support/temporary_folder.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// The code of a source file, comments left out.
std::string code_of(const std::filesystem::path& path) {
  const eg::Bytes bytes = eg::read_file(path.string());
  static const std::regex comment(R"(//[^\n]*)");
  return std::regex_replace(std::string(bytes.begin(), bytes.end()), comment, "");
}

bool is_source(const std::filesystem::path& path) { return path.extension() == ".h" || path.extension() == ".cpp"; }

/// Below a root: the files that declare a variable for each thread, once for each declaration. Tests and builds are not
/// looked at.
std::vector<std::string> declarations(const std::filesystem::path& root, std::size_t* read = nullptr) {
  static const std::regex declared(R"(\b(thread_local|_Thread_local|__thread)\b)");
  std::vector<std::string> found;
  for (auto at = std::filesystem::recursive_directory_iterator(root); at != std::filesystem::end(at); ++at) {
    const std::string name = std::filesystem::relative(at->path(), root).string();
    if (name == "tests" || name == "build" || name == "out" || name.starts_with('.')) {
      if (at->is_directory()) at.disable_recursion_pending();
      continue;
    }
    if (!at->is_regular_file() || !is_source(at->path())) continue;
    if (read != nullptr) ++*read;
    const std::string code = code_of(at->path());
    const auto count = std::distance(std::sregex_iterator(code.begin(), code.end(), declared), std::sregex_iterator());
    found.insert(found.end(), static_cast<std::size_t>(count), name);
  }
  std::ranges::sort(found);
  return found;
}

TEST_CASE("tree: one variable of a thread, its context") {
  std::size_t read = 0;
  CHECK(declarations(EQUIGRAD_SOURCE_DIR, &read) == std::vector<std::string>{"core/base/context.h"});
  CHECK(read > 500);
}

TEST_CASE("tree: another variable of a thread would be noticed") {
  const eg::test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("core/base"));
  std::filesystem::create_directories(folder.path("tests"));
  const auto write = [&](const char* name, std::string_view text) { eg::write_file(folder.path(name), text); };
  write("core/base/context.h", "thread_local int context; // the thread_local\n");
  write("tests/some_test.cpp", "thread_local int seen;\n");
  CHECK(declarations(folder.path("")) == std::vector<std::string>{"core/base/context.h"});
  write("core/call.cpp", "static thread_local int depth = 0;\n");
  write("core/old.h", "__thread int depth;\n");
  CHECK(declarations(folder.path("")) ==
        std::vector<std::string>{"core/base/context.h", "core/call.cpp", "core/old.h"});
}

} // namespace
