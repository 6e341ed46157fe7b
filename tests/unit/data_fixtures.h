#pragma once
// What the tests of the data room share: temporary folders, the words of an error, and real data where it is present.

#include "data/bytes.h"
#include "support/skip.h"

#include <doctest/doctest.h>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

namespace eg::test {

/// A new folder that goes with everything in it.
class TempFolder {
public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "equigrad-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    root_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& root() const { return root_; }
  /// A path in the folder; folders on the way to it are made when `make_parents`.
  std::string path(const std::string& name, bool make_parents = false) const {
    const std::filesystem::path full = std::filesystem::path(root_) / name;
    if (make_parents) std::filesystem::create_directories(full.parent_path());
    return full.string();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& item : std::filesystem::directory_iterator(root_)) out.push_back(item.path().filename().string());
    return out;
  }

private:
  std::string root_;
};

/// What an error of type E says; fails the test when there is none.
template <class E, class F> std::string message_of(F&& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  FAIL_CHECK("nothing was thrown");
  return {};
}

inline std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

inline std::vector<std::string> lines_of(const std::string& path) {
  const data::Bytes bytes = data::read_unpacked(path);
  return split(std::string(bytes.begin(), bytes.end()), '\n');
}

} // namespace eg::test
