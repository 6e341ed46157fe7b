#pragma once
// What a process can be searched for: its memory, the files and the dumps that it leaves.

#include "support/temporary_folder.h"

#include <cstdint>
#include <doctest/doctest.h>
#include <map>
#include <string>
#include <vector>

namespace eg::test {

/// Bytes to look for, by name.
using Secrets = std::map<std::string, std::string>;

/// All that a process can read. (A key lies in pages that are read-only.)
std::string memory_of(int pid);
/// The bytes of all files below a folder.
std::string files_of(const std::string& folder);
/// Whether a crash left a dump in a folder.
bool has_dump(const std::string& folder);
/// Lifts this process's limit on dumps, and so its children's; whether dumps go to the folder of who crashes.
bool allow_core_dumps();

/// Numbers as 64 and as 32 bits.
void add_order(Secrets& secrets, const std::string& name, const std::vector<std::int64_t>& order);

inline void check_none_in(const Secrets& secrets, const std::string& bytes) {
  for (const auto& secret : secrets) {
    CAPTURE(secret.first);
    CHECK(bytes.find(secret.second) == std::string::npos);
  }
}

} // namespace eg::test
