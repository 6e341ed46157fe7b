// The long pages of docs/ops: made of a text, two programs with what they print, and links to their neighbours. Numbers
// of the text are numbers of the programs.

#include "core/registry.h"
#include "op_pages/op_reference_page.h"
#include "support/pages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <regex>

namespace {

using namespace eg::test;
namespace fs = std::filesystem;

const fs::path folder = fs::path(EQUIGRAD_SOURCE_DIR) / "docs/ops";

const std::array sections = {"What it computes", "An example", "The gradient", "Why it is computed like this",
                             "Symmetry",         "Try"};

/// The heading: # Title (`row`, `row`)
std::string title_of(const std::string& page) { return page.substr(2, page.find(" (`") - 2); }

/// Rows that the first line names.
std::vector<std::string> rows_of(const std::string& page) {
  const std::string line = page.substr(0, page.find('\n'));
  std::vector<std::string> rows;
  for (std::size_t at = line.find('`'); at != std::string::npos; at = line.find('`', at + 1)) {
    const std::size_t end = line.find('`', at + 1);
    REQUIRE(end != std::string::npos);
    rows.push_back(line.substr(at + 1, end - at - 1));
    at = end;
  }
  return rows;
}

/// The page as it has to be: first line, text and sections as they are written, the rest made.
std::string made(const std::string& id, const std::string& page, const std::string& printed) {
  const std::vector<std::string> order = pages_in_order(read_text(folder / "README.md"));
  const auto at = std::find(order.begin(), order.end(), id);
  REQUIRE_MESSAGE(at != order.end(), "README.md lists no ", id);
  const auto link = [&](const std::string& word, const std::string& other) {
    return word + ": [" + title_of(read_text(folder / (other + ".md"))) + "](" + other + ".md) · ";
  };
  std::string out = page.substr(0, page.find('\n')) + "\n\n";
  if (at != order.begin()) out += link("Previous", *(at - 1));
  if (at + 1 != order.end()) out += link("Next", *(at + 1));
  out += "[All pages](README.md) · Reference:";
  const GradientTexts texts = parse_gradients(read_text(folder / "gradients.txt"));
  for (const std::string& row : rows_of(page)) out += " [`" + row + "`](" + reference_of(texts, row) + ")";
  out += "\n\nSource: " + part_of(page, "\nSource: ", "\n## ") + "\n\n";
  for (const char* section : sections)
    out += fmt::format("## {}\n\n{}\n\n", section, part_of(page, fmt::format("\n## {}\n", section), "\n## "));
  out += "## C++\n\n[programs/" + id + ".cpp](programs/" + id + ".cpp):\n\n```cpp\n" +
         read_text(folder / "programs" / (id + ".cpp")) + "```\n\n";
  out += "## Python\n\n[programs/" + id + ".py](programs/" + id + ".py):\n\n```python\n" +
         read_text(folder / "programs" / (id + ".py")) + "```\n\nBoth print:\n\n```text\n" + printed + "```\n";
  return out;
}

/// What people write: the page without what made() adds.
std::string prose_of(const std::string& page) {
  std::string text = part_of(page, "\nSource: ", "\n## ");
  for (const char* section : sections) text += "\n\n" + part_of(page, fmt::format("\n## {}\n", section), "\n## ");
  return text;
}

std::vector<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), regex); it != std::sregex_iterator(); ++it)
    found.push_back(it->size() > 1 ? (*it)[1].str() : it->str());
  return found;
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t at = text.find(separator); at != std::string::npos; at = text.find(separator, from)) {
    parts.push_back(text.substr(from, at - from));
    from = at + separator.size();
  }
  parts.push_back(text.substr(from));
  return parts;
}

std::string four_digits(double value) {
  const std::string text = fmt::format("{:.4f}", value);
  return text == "-0.0000" ? "0.0000" : text;
}

/// The lines that show() prints of a matrix in TeX; empty when not all of it are numbers.
std::string lines_of(const std::string& matrix) {
  std::string lines;
  for (const std::string& row : split(matrix, "\\\\")) {
    for (const std::string& entry : split(row, "&")) {
      std::smatch found;
      if (!std::regex_match(entry, found, std::regex(R"(\s*(-?[\d.]+)(?:/(\d+))?\s*)"))) return "";
      const double value = std::stod(found[1]) / (found[2].matched ? std::stod(found[2]) : 1.0);
      lines += fmt::format("{:>9}", four_digits(value));
    }
    lines += '\n';
  }
  return lines;
}

/// Numbers of a text that no program prints or has: matrices of numbers, and every number with a decimal point.
std::vector<std::string> unfounded(const std::string& text, const std::string& printed, const std::string& programs) {
  std::vector<std::string> missing;
  for (const std::string& matrix : matches(text, R"(\\begin\{pmatrix\}([^]*?)\\end\{pmatrix\})")) {
    const std::string lines = lines_of(matrix);
    if (!lines.empty() && !has("\n" + printed, "\n" + lines)) missing.push_back(matrix);
  }
  for (const std::string& number : matches(text, R"((?:^|[^\w.])(-?\d+\.\d+)(?!\d|\.\d))"))
    if (!has(programs, number) && !has(printed, " " + four_digits(std::stod(number)))) missing.push_back(number);
  return missing;
}

} // namespace

TEST_CASE("op pages: every page is what its text, programs and place in the list make of it") {
  const std::vector<std::string> pages = names_in(folder, ".md");
  CHECK(pages == names_in(folder / "programs", ".cpp"));
  std::vector<std::string> listed = pages_in_order(read_text(folder / "README.md"));
  std::sort(listed.begin(), listed.end());
  CHECK(pages == listed);
  CHECK(pages.size() >= 12);
  for (const std::string& id : pages) {
    SUBCASE(id.c_str()) {
      const Printed printed = run_command("'" + (fs::path(EQUIGRAD_BINARY_DIR) / "op_programs" / id).string() + "'");
      CHECK_MESSAGE(printed.code == 0, printed.text);
      CHECK(count_of(printed.text, ": holds to 1e-12\n") >= 4);
      CHECK(has(printed.text, ": fails, as it must\n"));
      const std::string page = read_text(folder / (id + ".md"));
      INFO("run this test with EQUIGRAD_WRITE_DOCS=1 and commit docs/ops");
      CHECK(same_page(folder / (id + ".md"), made(id, page, printed.text)));
      const std::string programs =
          read_text(folder / "programs" / (id + ".cpp")) + read_text(folder / "programs" / (id + ".py"));
      for (const std::string& number : unfounded(prose_of(page), printed.text, programs))
        FAIL_CHECK("no program prints or has: ", number);
    }
  }
}

TEST_CASE("op pages: what people write is there") {
  for (const std::string& id : names_in(folder, ".md")) {
    CAPTURE(id);
    const std::string page = read_text(folder / (id + ".md"));
    REQUIRE(!rows_of(page).empty());
    for (const std::string& row : rows_of(page)) CHECK_NOTHROW(eg::find_op(row));
    CHECK(count_of(prose_of(page), "$") % 2 == 0);
    CHECK(count_of(part_of(page, "\n## An example\n", "\n## "), "pmatrix") >= 4);
    CHECK(count_of(part_of(page, "\n## The gradient\n", "\n## "), "\n") >= 8);
    CHECK(has(page, "](../theorems/"));
    CHECK(has(part_of(page, "\nSource: ", "\n## "), "](../../core/ops/"));
    const std::string exercises = part_of(page, "\n## Try\n", "\n## ");
    CHECK(exercises.starts_with("**1.** "));
    CHECK(count_of(exercises, "\n**2.** ") == 1);
    CHECK(count_of(exercises, "<details><summary>Answer</summary>\n\n") == 2);
    CHECK(count_of(exercises, "\n\n</details>") == 2);
  }
}

TEST_CASE("op pages: a number that no program prints is told") {
  const std::string printed = "y =\n   0.1250   0.2500\n   3.0000  -1.0000\nsum = 0.3750\n";
  const std::string good = "$$\\begin{pmatrix} 1/8 & 0.25 \\\\ 3 & -1 \\end{pmatrix}$$ 0.3750, 0.375 and 0.044715";
  CHECK(unfounded(good, printed, "x * 0.044715").empty());
  CHECK(unfounded(good, printed, "") == std::vector<std::string>{"0.044715"});
  CHECK(unfounded("\\begin{pmatrix} 1/8 & 0.2501 \\end{pmatrix}", printed, "").size() == 2);
  CHECK(unfounded("\\begin{pmatrix} 3 & 1 \\end{pmatrix}", printed, "").size() == 1);
  CHECK(unfounded("\\begin{pmatrix} a & b \\end{pmatrix}", printed, "").empty());
  CHECK(unfounded("it is 0.3751.", printed, "") == std::vector<std::string>{"0.3751"});
}
