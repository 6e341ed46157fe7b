#include "support/pages.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <sstream>
#include <sys/wait.h>

namespace fs = std::filesystem;

namespace eg::test {

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in, path.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> names_in(const fs::path& folder, const std::string& extension) {
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == extension && entry.path().stem() != "README")
      found.push_back(entry.path().stem().string());
  std::sort(found.begin(), found.end());
  return found;
}

Printed run_command(const std::string& command) {
  Printed printed;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> piece{};
  while (const std::size_t count = std::fread(piece.data(), 1, piece.size(), pipe))
    printed.text.append(piece.data(), count);
  const int status = pclose(pipe);
  printed.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return printed;
}

bool writes_docs() { return std::getenv("EQUIGRAD_WRITE_DOCS") != nullptr; }

bool same_page(const fs::path& path, const std::string& wanted) {
  if (writes_docs()) std::ofstream(path, std::ios::binary) << wanted;
  return read_text(path) == wanted;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

std::string part_of(const std::string& text, const std::string& begin, const std::string& end) {
  std::size_t from = text.find(begin);
  REQUIRE_MESSAGE(from != std::string::npos, begin);
  from = text.find_first_not_of('\n', from + begin.size());
  if (from == std::string::npos) return "";
  const std::size_t to = std::min(text.find(end, from), text.size());
  const std::size_t last = text.find_last_not_of('\n', to - 1);
  return text.substr(from, last + 1 - from);
}

std::vector<std::string> pages_in_order(const std::string& index) {
  std::vector<std::string> names;
  for (std::size_t at = index.find("\n| ["); at != std::string::npos; at = index.find("\n| [", at + 1)) {
    const std::size_t link = index.find("](", at) + 2;
    names.push_back(index.substr(link, index.find(".md)", link) - link));
  }
  return names;
}

} // namespace eg::test
