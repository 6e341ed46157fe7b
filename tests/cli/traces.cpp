#include "cli/traces.h"

#include "cli/program.h"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace eg::test {
namespace {

template <class T> std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

} // namespace

std::string memory_of(int pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  const int file = open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY);
  REQUIRE(file >= 0);
  std::string all, line;
  while (std::getline(maps, line)) {
    std::uint64_t begin = 0, end = 0;
    char dash = 0;
    std::string rights;
    std::istringstream(line) >> std::hex >> begin >> dash >> end >> rights;
    if (!rights.starts_with("r") || end - begin > (std::uint64_t{1} << 31)) continue;
    std::string part(end - begin, '\0');
    const ssize_t got = pread(file, part.data(), part.size(), static_cast<off_t>(begin));
    if (got > 0) all.append(part, 0, static_cast<std::size_t>(got));
  }
  close(file);
  return all;
}

std::string files_of(const std::string& folder) {
  std::string all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) all += read_text(entry.path().string());
  return all;
}

bool has_dump(const std::string& folder) {
  return std::ranges::any_of(std::filesystem::directory_iterator(folder),
                             [](const auto& entry) { return entry.path().filename().string().starts_with("core"); });
}

bool allow_core_dumps() {
  rlimit limit{};
  getrlimit(RLIMIT_CORE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_CORE, &limit);
  return limit.rlim_max > 0 && read_text("/proc/sys/kernel/core_pattern").starts_with("core");
}

void add_order(Secrets& secrets, const std::string& name, const std::vector<std::int64_t>& order) {
  secrets[name] = bytes_of(order);
  secrets[name + ", 32 bits"] = bytes_of(std::vector<std::int32_t>(order.begin(), order.end()));
}

} // namespace eg::test
