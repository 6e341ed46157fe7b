// The pages of docs/theorems: made of a text, two programs with what they print, a picture and links to their
// neighbours.

#include "permute/catalogue/catalogue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

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

Printed run(const std::string& command) {
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

bool writes() { return std::getenv("EQUIGRAD_WRITE_DOCS") != nullptr; }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

/// The text behind `begin`, which has to be there, and before the next `end`, or all of it; without empty lines around.
std::string part(const std::string& text, const std::string& begin, const std::string& end) {
  std::size_t from = text.find(begin);
  REQUIRE_MESSAGE(from != std::string::npos, begin);
  from = text.find_first_not_of('\n', from + begin.size());
  if (from == std::string::npos) return "";
  const std::size_t to = std::min(text.find(end, from), text.size());
  const std::size_t last = text.find_last_not_of('\n', to - 1);
  return text.substr(from, last + 1 - from);
}

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

/// What a page's first line says behind the ids.
std::string title_of(const std::string& page) {
  const std::string line = page.substr(0, page.find('\n'));
  return line.substr(line.find("`: ") + 3);
}

/// The pages in a learner's order, which is that of the list in README.md.
std::vector<std::string> in_order(const std::string& index) {
  std::vector<std::string> ids;
  for (std::size_t at = index.find("\n| ["); at != std::string::npos; at = index.find("\n| [", at + 1)) {
    const std::size_t link = index.find("](", at) + 2;
    ids.push_back(index.substr(link, index.find(".md)", link) - link));
  }
  return ids;
}

/// The explorer's catalogue, from here: the link in README.md.
std::string explorer_of(const std::string& index) {
  const std::size_t end = index.find("#catalogue)");
  REQUIRE(end != std::string::npos);
  const std::size_t begin = index.rfind("](", end) + 2;
  return index.substr(begin, end - begin) + "#catalogue?id=";
}

std::string tex_of(const std::string& id) {
  for (const eg::permute::Identity& row : eg::permute::catalogue())
    if (row.id == id) return row.tex;
  FAIL("no row " << id);
  return "";
}

/// The text of an element of a picture.
std::string element(const std::string& svg, const std::string& name) {
  std::string text = part(svg, "<" + name + " id=", "</" + name + ">");
  text = text.substr(text.find('>') + 1);
  for (const auto& [from, to] : {std::pair{"&lt;", "<"}, std::pair{"&gt;", ">"}, std::pair{"&amp;", "&"}})
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from))
      text.replace(at, std::string(from).size(), to);
  return text;
}

/// The page as it has to be: title, source, meaning, Why and Try as they are written, the rest made.
std::string made(const std::string& id, const std::string& page, const std::string& printed) {
  const std::string index = read(folder / "README.md");
  const std::vector<std::string> order = in_order(index);
  const auto at = std::find(order.begin(), order.end(), id);
  REQUIRE_MESSAGE(at != order.end(), "README.md lists no ", id);
  const auto link = [&](const std::string& word, const std::string& other) {
    return word + ": [" + title_of(read(folder / (other + ".md"))) + "](" + other + ".md) · ";
  };
  std::string out = page.substr(0, page.find('\n')) + "\n\n";
  if (at != order.begin()) out += link("Previous", *(at - 1));
  if (at + 1 != order.end()) out += link("Next", *(at + 1));
  out += "[All pages](README.md) · [Run it in the explorer](" + explorer_of(index) + id + ")\n\n";
  for (const std::string& one : ids_of(page)) out += "$$" + tex_of(one) + "$$\n\n";
  out += "Source: " + part(page, "\nSource: ", "\n## ") + "\n\n";
  out += "## Why\n\n" + part(page, "\n## Why\n", "\n## ") + "\n\n";
  const std::string svg = read(folder / "pictures" / (id + ".svg"));
  out += "## Look\n\n![" + element(svg, "title") + "](pictures/" + id + ".svg)\n\n" + element(svg, "title") +
         ". Names beside a matrix show where its rows and columns went. Blue is negative, orange positive. "
         "The library\ncomputed all numbers.\n\n";
  out += "## Try\n\n" + part(page, "\n## Try\n", "\n## ") + "\n\n";
  out += "## C++\n\n[programs/" + id + ".cpp](programs/" + id + ".cpp):\n\n```cpp\n" +
         read(folder / "programs" / (id + ".cpp")) + "```\n\n";
  out += "## Python\n\n[programs/" + id + ".py](programs/" + id + ".py):\n\n```python\n" +
         read(folder / "programs" / (id + ".py")) + "```\n\nBoth print:\n\n```text\n" + printed + "```\n\n";
  return out + "`equigrad verify --filter " + id +
         "` measures it in f64 and f32 with the sizes of your choice. [Signs](../theory.md#notation), "
         "[words](../glossary.md), [all rows](../catalogue.md).\n";
}

/// A folder for what this test writes.
fs::path scratch() {
  const fs::path place = fs::temp_directory_path() / ("equigrad_pictures_" + std::to_string(getpid()));
  fs::create_directories(place);
  return place;
}

} // namespace

TEST_CASE("theorem pages: pictures are what their program draws") {
  const fs::path place = scratch(), program = fs::path(EQUIGRAD_BINARY_DIR) / "theorem_programs" / "pictures";
  const Printed printed = run("'" + program.string() + "' '" + place.string() + "'");
  CHECK_MESSAGE(printed.code == 0, printed.text);
  CHECK(names(place, ".svg") == names(folder, ".md"));
  if (!writes()) CHECK(names(folder / "pictures", ".svg") == names(folder, ".md"));
  for (const std::string& id : names(place, ".svg")) {
    const std::string svg = read(place / (id + ".svg"));
    CHECK(has(svg, "role=\"img\""));
    CHECK(element(svg, "title").size() > 20);
    CHECK(element(svg, "desc").size() > 60);
    CHECK(has(svg, "prefers-color-scheme: dark"));
    CHECK(has(svg, ">= ")); // what is equal, and what is not
    CHECK(has(svg, ">≠ "));
    if (writes()) std::ofstream(folder / "pictures" / (id + ".svg"), std::ios::binary) << svg;
    INFO("run this test with EQUIGRAD_WRITE_DOCS=1, look at the picture and commit docs/theorems/pictures: ", id);
    CHECK(read(folder / "pictures" / (id + ".svg")) == svg);
  }
  fs::remove_all(place);
}

TEST_CASE("theorem pages: every page is what its text, programs, picture and place in the list make of it") {
  const std::vector<std::string> pages = names(folder, ".md");
  CHECK(pages == names(folder / "programs", ".cpp"));
  std::vector<std::string> listed = in_order(read(folder / "README.md"));
  std::sort(listed.begin(), listed.end());
  CHECK(pages == listed);
  CHECK(pages.size() >= 20);
  for (const std::string& id : pages) {
    SUBCASE(id.c_str()) {
      const Printed printed = run("'" + (fs::path(EQUIGRAD_BINARY_DIR) / "theorem_programs" / id).string() + "'");
      CHECK_MESSAGE(printed.code == 0, printed.text);
      CHECK(has(printed.text, ": holds"));
      CHECK(has(printed.text, ": fails, as it must"));
      const std::string page = read(folder / (id + ".md")), should = made(id, page, printed.text);
      if (writes()) std::ofstream(folder / (id + ".md"), std::ios::binary) << should;
      INFO("run this test with EQUIGRAD_WRITE_DOCS=1 and commit docs/theorems");
      CHECK(read(folder / (id + ".md")) == should);
    }
  }
}

TEST_CASE("theorem pages: what people write is there") {
  for (const std::string& id : names(folder, ".md")) {
    CAPTURE(id);
    const std::string page = read(folder / (id + ".md"));
    REQUIRE(!ids_of(page).empty());
    CHECK(ids_of(page).front() == id);
    const std::string why = part(page, "\n## Why\n", "\n## "), exercises = part(page, "\n## Try\n", "\n## ");
    CHECK(count_of(why, "\n") >= 2);
    CHECK(count_of(why, "$") >= 6);
    CHECK(exercises.starts_with("**1.** "));
    CHECK(count_of(exercises, "\n**2.** ") == 1);
    CHECK(count_of(exercises, "<details><summary>Answer</summary>\n\n") == 2);
    CHECK(count_of(exercises, "\n\n</details>") == 2);
    for (const std::string& text : {why, exercises}) CHECK(count_of(text, "$") % 2 == 0);
  }
}

TEST_CASE("theorem pages: a page's parts are found, and what is missing is told") {
  CHECK(part("a\n## Why\n\nb\nc\n\n## Try\n\nd\n", "\n## Why\n", "\n## ") == "b\nc");
  CHECK(part("a\n## Try\n\nd\n", "\n## Try\n", "\n## ") == "d");
  CHECK(in_order("x\n| [a, b](a.md) | A |\n| [c](c.md) | C |\n") == std::vector<std::string>{"a", "c"});
  CHECK(explorer_of("[The explorer](../e.html#catalogue) runs") == "../e.html#catalogue?id=");
  CHECK(title_of("# `a`, `b`: Title\n") == "Title");
}
