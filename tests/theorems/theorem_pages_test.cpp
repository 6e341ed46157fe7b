// The pages of docs/theorems: each shows its program and what it prints, as they are.

#include "permute/catalogue/catalogue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <sys/wait.h>

namespace {

namespace fs = std::filesystem;

const fs::path folder = fs::path(EQUIGRAD_SOURCE_DIR) / "docs/theorems";

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in, path.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Names without extension of the files of a folder that have one, in order.
std::vector<std::string> names(const fs::path& place, const std::string& extension) {
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(place))
    if (entry.path().extension() == extension && entry.path().stem() != "README")
      found.push_back(entry.path().stem().string());
  std::sort(found.begin(), found.end());
  return found;
}

struct Printed {
  std::string text;
  int code = -1;
};

Printed run(const std::string& id) {
  const fs::path program = fs::path(EQUIGRAD_BINARY_DIR) / "theorem_programs" / id;
  Printed printed;
  FILE* pipe = popen(("'" + program.string() + "' 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> piece{};
  while (const std::size_t count = std::fread(piece.data(), 1, piece.size(), pipe))
    printed.text.append(piece.data(), count);
  const int status = pclose(pipe);
  printed.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return printed;
}

std::string block(const std::string& language, const std::string& text) {
  return "```" + language + "\n" + text + "```\n";
}

/// Puts `text` into the page's first block of a language.
void replace_block(std::string& page, const std::string& language, const std::string& text) {
  const std::size_t start = page.find("```" + language + "\n");
  REQUIRE(start != std::string::npos);
  const std::size_t end = page.find("\n```\n", start);
  REQUIRE(end != std::string::npos);
  page.replace(start, end + 5 - start, block(language, text));
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Ids that a page's first line names: # `thm4.7`, `lem4.8`: ...
std::vector<std::string> ids_of(const std::string& page) {
  const std::string line = page.substr(0, page.find('\n'));
  std::vector<std::string> ids;
  for (std::size_t at = line.find('`'); at != std::string::npos; at = line.find('`', at)) {
    const std::size_t end = line.find('`', at + 1);
    if (end == std::string::npos) break;
    ids.push_back(line.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return ids;
}

} // namespace

TEST_CASE("theorem pages: every program has a page, and shows its text and its output as they are") {
  const std::vector<std::string> pages = names(folder, ".md");
  CHECK(pages == names(folder / "programs", ".cpp"));
  CHECK(pages.size() >= 20);
  const bool writes = std::getenv("EQUIGRAD_WRITE_DOCS") != nullptr;
  for (const std::string& id : pages) {
    SUBCASE(id.c_str()) {
      const Printed printed = run(id);
      CHECK_MESSAGE(printed.code == 0, printed.text);
      CHECK(has(printed.text, ": holds"));
      CHECK(has(printed.text, ": fails, as it must"));
      const std::string source = read(folder / "programs" / (id + ".cpp"));
      std::string page = read(folder / (id + ".md"));
      if (writes) {
        replace_block(page, "cpp", source);
        replace_block(page, "text", printed.text);
        std::ofstream(folder / (id + ".md"), std::ios::binary) << page;
      }
      INFO("run this test with EQUIGRAD_WRITE_DOCS=1 and commit docs/theorems");
      CHECK(has(page, block("cpp", source)));
      CHECK_MESSAGE(has(page, block("text", printed.text)), printed.text);
    }
  }
}

TEST_CASE("theorem pages: formulas are the catalogue's, and every page can be found") {
  const std::string index = read(folder / "README.md");
  std::map<std::string, std::string> formulas;
  for (const eg::permute::Identity& row : eg::permute::catalogue()) formulas[row.id] = row.tex;
  for (const std::string& id : names(folder, ".md")) {
    CAPTURE(id);
    const std::string page = read(folder / (id + ".md"));
    const std::vector<std::string> ids = ids_of(page);
    REQUIRE(!ids.empty());
    CHECK(ids.front() == id);
    for (const std::string& one : ids) {
      CAPTURE(one);
      REQUIRE(formulas.contains(one));
      CHECK(has(page, "$$" + formulas[one] + "$$"));
    }
    CHECK(has(page, "\nSource: "));
    CHECK(has(index, "](" + id + ".md)"));
  }
}

TEST_CASE("theorem pages: links lead to files") {
  for (const std::string& id : names(folder, ".md")) {
    std::string page = read(folder / (id + ".md"));
    const std::size_t code = page.find("```cpp\n"); // where a lambda looks like a link
    page.erase(code, page.find("\n```\n", code) - code);
    for (std::size_t at = page.find("]("); at != std::string::npos; at = page.find("](", at + 1)) {
      const std::string link = page.substr(at + 2, page.find(')', at) - at - 2);
      CHECK_MESSAGE(fs::exists(folder / link.substr(0, link.find('#'))), id, ": ", link);
    }
  }
}
