#include "support/temporary_folder.h"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace eg::test {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "equigrad-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  root_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

std::string TemporaryFolder::path(const std::string& name, bool make_parents) const {
  if (name.empty()) return root_;
  const std::filesystem::path full = std::filesystem::path(root_) / name;
  if (make_parents) std::filesystem::create_directories(full.parent_path());
  return full.string();
}

std::vector<std::string> TemporaryFolder::names() const {
  std::vector<std::string> out;
  for (const auto& item : std::filesystem::directory_iterator(root_)) out.push_back(item.path().filename().string());
  return out;
}

} // namespace eg::test
