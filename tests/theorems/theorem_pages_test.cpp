// The pages of docs/theorems: made of a text, two programs with what they print, a picture and links to their
// neighbours.

#include "permute/catalogue/catalogue.h"
#include "support/pages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <unistd.h>

namespace {

using namespace eg::test;
namespace fs = std::filesystem;

const fs::path folder = fs::path(EQUIGRAD_SOURCE_DIR) / "docs/theorems";

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
  std::string text = part_of(svg, "<" + name + " id=", "</" + name + ">");
  text = text.substr(text.find('>') + 1);
  for (const auto& [from, to] : {std::pair{"&lt;", "<"}, std::pair{"&gt;", ">"}, std::pair{"&amp;", "&"}})
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from))
      text.replace(at, std::string(from).size(), to);
  return text;
}

/// The page as it has to be: title, source, meaning, Why and Try as they are written, the rest made.
std::string made(const std::string& id, const std::string& page, const std::string& printed) {
  const std::string index = read_text(folder / "README.md");
  const std::vector<std::string> order = pages_in_order(index);
  const auto at = std::find(order.begin(), order.end(), id);
  REQUIRE_MESSAGE(at != order.end(), "README.md lists no ", id);
  const auto link = [&](const std::string& word, const std::string& other) {
    return word + ": [" + title_of(read_text(folder / (other + ".md"))) + "](" + other + ".md) · ";
  };
  std::string out = page.substr(0, page.find('\n')) + "\n\n";
  if (at != order.begin()) out += link("Previous", *(at - 1));
  if (at + 1 != order.end()) out += link("Next", *(at + 1));
  out += "[All pages](README.md) · [Run it in the explorer](" + explorer_of(index) + id + ")\n\n";
  for (const std::string& one : ids_of(page)) out += "$$" + tex_of(one) + "$$\n\n";
  out += "Source: " + part_of(page, "\nSource: ", "\n## ") + "\n\n";
  out += "## Why\n\n" + part_of(page, "\n## Why\n", "\n## ") + "\n\n";
  const std::string svg = read_text(folder / "pictures" / (id + ".svg"));
  out += "## Look\n\n![" + element(svg, "title") + "](pictures/" + id + ".svg)\n\n" + element(svg, "title") +
         ". Names beside a matrix show where its rows and columns went. Blue is negative, orange positive. "
         "The library\ncomputed all numbers.\n\n";
  out += "## Try\n\n" + part_of(page, "\n## Try\n", "\n## ") + "\n\n";
  out += "## C++\n\n[programs/" + id + ".cpp](programs/" + id + ".cpp):\n\n```cpp\n" +
         read_text(folder / "programs" / (id + ".cpp")) + "```\n\n";
  out += "## Python\n\n[programs/" + id + ".py](programs/" + id + ".py):\n\n```python\n" +
         read_text(folder / "programs" / (id + ".py")) + "```\n\nBoth print:\n\n```text\n" + printed + "```\n\n";
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
  const Printed printed = run_command("'" + program.string() + "' '" + place.string() + "'");
  CHECK_MESSAGE(printed.code == 0, printed.text);
  CHECK(names_in(place, ".svg") == names_in(folder, ".md"));
  if (!writes_docs()) CHECK(names_in(folder / "pictures", ".svg") == names_in(folder, ".md"));
  for (const std::string& id : names_in(place, ".svg")) {
    const std::string svg = read_text(place / (id + ".svg"));
    CHECK(has(svg, "role=\"img\""));
    CHECK(element(svg, "title").size() > 20);
    CHECK(element(svg, "desc").size() > 60);
    CHECK(has(svg, "prefers-color-scheme: dark"));
    CHECK(has(svg, ">= ")); // what is equal, and what is not
    CHECK(has(svg, ">≠ "));
    INFO("run this test with EQUIGRAD_WRITE_DOCS=1, look at the picture and commit docs/theorems/pictures: ", id);
    CHECK(same_page(folder / "pictures" / (id + ".svg"), svg));
  }
  fs::remove_all(place);
}

TEST_CASE("theorem pages: every page is what its text, programs, picture and place in the list make of it") {
  const std::vector<std::string> pages = names_in(folder, ".md");
  CHECK(pages == names_in(folder / "programs", ".cpp"));
  std::vector<std::string> listed = pages_in_order(read_text(folder / "README.md"));
  std::sort(listed.begin(), listed.end());
  CHECK(pages == listed);
  CHECK(pages.size() >= 20);
  for (const std::string& id : pages) {
    SUBCASE(id.c_str()) {
      const Printed printed =
          run_command("'" + (fs::path(EQUIGRAD_BINARY_DIR) / "theorem_programs" / id).string() + "'");
      CHECK_MESSAGE(printed.code == 0, printed.text);
      CHECK(has(printed.text, ": holds"));
      CHECK(has(printed.text, ": fails, as it must"));
      const std::string page = read_text(folder / (id + ".md")), should = made(id, page, printed.text);
      INFO("run this test with EQUIGRAD_WRITE_DOCS=1 and commit docs/theorems");
      CHECK(same_page(folder / (id + ".md"), should));
    }
  }
}

TEST_CASE("theorem pages: what people write is there") {
  for (const std::string& id : names_in(folder, ".md")) {
    CAPTURE(id);
    const std::string page = read_text(folder / (id + ".md"));
    REQUIRE(!ids_of(page).empty());
    CHECK(ids_of(page).front() == id);
    const std::string why = part_of(page, "\n## Why\n", "\n## "), exercises = part_of(page, "\n## Try\n", "\n## ");
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
  CHECK(part_of("a\n## Why\n\nb\nc\n\n## Try\n\nd\n", "\n## Why\n", "\n## ") == "b\nc");
  CHECK(part_of("a\n## Try\n\nd\n", "\n## Try\n", "\n## ") == "d");
  CHECK(pages_in_order("x\n| [a, b](a.md) | A |\n| [c](c.md) | C |\n") == std::vector<std::string>{"a", "c"});
  CHECK(explorer_of("[The explorer](../e.html#catalogue) runs") == "../e.html#catalogue?id=");
  CHECK(title_of("# `a`, `b`: Title\n") == "Title");
}
