#include "core/base/out_of_memory.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

namespace eg {
namespace {

/// "16.8 GB", "900.0 MB", "12 bytes".
std::string size_words(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.1f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.0f} bytes", bytes);
}

/// Bytes that a control group's file names; SIZE_MAX where there is none.
std::size_t read_limit(const char* path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word) || word == "max") return SIZE_MAX;
  return std::strtoull(word.c_str(), nullptr, 10);
}

constexpr std::string_view out_of_memory = "out of memory: ";

} // namespace

std::size_t machine_memory() {
  const auto pages = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
  const std::size_t cgroup =
      std::min(read_limit("/sys/fs/cgroup/memory.max"), read_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  return std::min(pages * page, cgroup);
}

std::string memory_limit_words() {
  rlimit addresses{};
  if (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY)
    return fmt::format("this process may have {} (ulimit -v raises it)",
                       size_words(static_cast<double>(addresses.rlim_cur)));
  return fmt::format("this machine, or its container, has {}", size_words(static_cast<double>(machine_memory())));
}

void fail_out_of_memory(const std::string& what, std::uint64_t wanted) {
  throw MemoryError(fmt::format("{}: {}{}; {}", what, out_of_memory,
                                wanted == 0 ? std::string("no more could be had")
                                            : fmt::format("{} more bytes could not be had", wanted),
                                memory_limit_words()));
}

void fail_out_of_memory(const std::string& what, const MemoryError& e) {
  const std::string_view words = e.what();
  if (words.find(out_of_memory) != std::string_view::npos) throw MemoryError(e);
  throw MemoryError(fmt::format("{}: {}{}", what, out_of_memory, words));
}

} // namespace eg
