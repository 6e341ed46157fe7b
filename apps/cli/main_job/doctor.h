#pragma once
// What this program runs on, as lines for people.

#include <string>
#include <utility>
#include <vector>

namespace eg::cli {

/// Threads, BLAS, SIMD, memory, optional parts.
std::vector<std::pair<std::string, std::string>> doctor_lines();
void print_doctor(const std::vector<std::pair<std::string, std::string>>& lines);

} // namespace eg::cli
