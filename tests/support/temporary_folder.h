#pragma once
// A folder for a test's files.

#include <string>
#include <vector>

namespace eg::test {

/// A new folder that goes with everything in it.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  /// The folder itself, or a path in it; folders on the way to it are made when `make_parents`.
  std::string path(const std::string& name = "", bool make_parents = false) const;
  /// What lies in it.
  std::vector<std::string> names() const;

private:
  std::string root_;
};

} // namespace eg::test
