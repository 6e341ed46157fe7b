#pragma once
// Describes the machine and the build that this program runs on.

#include <string>
#include <utility>
#include <vector>

namespace eg::cli {

/// Threads, BLAS, SIMD, memory, optional parts.
std::vector<std::pair<std::string, std::string>> doctor_lines();
void print_doctor(const std::vector<std::pair<std::string, std::string>>& lines);

} // namespace eg::cli
