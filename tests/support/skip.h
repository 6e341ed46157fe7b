#pragma once
// Tests whose data is not on this machine: they say so by name instead of passing silently.

#include <filesystem>
#include <string>

namespace eg::test {

/// Notes that a test did not run and why. The runner lists the notes at its end and CTest shows the file as skipped.
void skip(const std::string& test, const std::string& reason);

/// Prints what was skipped; returns how many there are.
int report_skips();

/// The folder with datasets: EQUIGRAD_DATA, else ../shared/data beside the source tree. Empty when there is none.
std::filesystem::path data_dir();

/// data_dir()/name when it exists; else notes a skip of `test` and returns an empty path.
std::filesystem::path data_or_skip(const std::string& test, const std::string& name);

} // namespace eg::test
