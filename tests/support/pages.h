#pragma once
// Reads pages of the documentation and runs the programs that they show.

#include <filesystem>
#include <string>
#include <vector>

namespace eg::test {

/// The text of a file, which has to be there.
std::string read_text(const std::filesystem::path& path);

/// Names without extension of the files of a folder that have this one, in order; no README.
std::vector<std::string> names_in(const std::filesystem::path& folder, const std::string& extension);

/// What a program prints, on both its outputs, and its exit code.
struct Printed {
  std::string text;
  int code = -1;
};
Printed run_command(const std::string& command);

/// True where pages are to be written and not only compared: EQUIGRAD_WRITE_DOCS is set.
bool writes_docs();

/// Compares a page with what it has to be, and writes it first where pages are to be written.
bool same_page(const std::filesystem::path& path, const std::string& wanted);

bool has(const std::string& text, const std::string& part);
std::size_t count_of(const std::string& text, const std::string& part);

/// The text behind `begin`, which has to be there, and before the next `end`, or all of it; without empty lines around.
std::string part_of(const std::string& text, const std::string& begin, const std::string& end);

/// Links of the first column of the tables of an index, without ".md", in order: "| [Title](name.md) | ...".
std::vector<std::string> pages_in_order(const std::string& index);

} // namespace eg::test
