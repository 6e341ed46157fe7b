#include "support/skip.h"

#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <utility>
#include <vector>

namespace eg::test {
namespace {

std::vector<std::pair<std::string, std::string>>& notes() {
  static std::vector<std::pair<std::string, std::string>> list;
  return list;
}

} // namespace

void skip(const std::string& test, const std::string& reason) { notes().emplace_back(test, reason); }

int report_skips() {
  for (const auto& [test, reason] : notes()) fmt::print("SKIPPED {}: {}\n", test, reason);
  return static_cast<int>(notes().size());
}

std::filesystem::path data_dir() {
  const char* named = std::getenv("EQUIGRAD_DATA");
  const std::filesystem::path folder = named != nullptr && *named != '\0'
                                           ? std::filesystem::path(named)
                                           : std::filesystem::path(EQUIGRAD_SOURCE_DIR) / ".." / "shared" / "data";
  return std::filesystem::is_directory(folder) ? folder.lexically_normal() : std::filesystem::path{};
}

std::filesystem::path data_or_skip(const std::string& test, const std::string& name) {
  const std::filesystem::path folder = data_dir();
  if (!folder.empty() && std::filesystem::exists(folder / name)) return folder / name;
  skip(test, fmt::format("there is no {} in the data folder (EQUIGRAD_DATA)", name));
  return {};
}

} // namespace eg::test
