#include "op_pages/op_reference_page.h"

#include "core/base/error.h"
#include "core/call.h"
#include "core/measure/op_reference.h"
#include "core/registry.h"
#include "support/pages.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fmt/format.h>
#include <regex>
#include <sstream>
#include <utility>

namespace eg::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_lines = 36; // of a reference that is shown

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// A source file without the backslashes that end the lines of a macro.
std::string without_continuations(const std::string& text) {
  std::string out;
  for (std::string line : lines_of(text)) {
    while (!line.empty() && (line.back() == '\\' || line.back() == ' ')) line.pop_back();
    out += line + '\n';
  }
  return out;
}

/// From `from` on, as far as brackets that are opened there are closed: to a comma or a closing bracket outside.
std::string argument_at(const std::string& text, std::size_t from) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t at = from; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"' && text[at - 1] != '\\') quoted = !quoted;
    if (quoted) continue;
    if (c == '(' || c == '{' || c == '[') ++depth;
    if (c == ')' || c == '}' || c == ']') --depth;
    if (depth < 0 || (depth == 0 && c == ',')) return text.substr(from, at - from);
  }
  return "";
}

/// The lines, indented as the least indented one after the first was not.
std::string dedented(const std::string& text) {
  std::vector<std::string> lines = lines_of(text);
  std::size_t least = std::string::npos;
  for (std::size_t i = 1; i < lines.size(); ++i)
    if (const std::size_t spaces = lines[i].find_first_not_of(' '); spaces != std::string::npos)
      least = std::min(least, spaces);
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i)
    out += (i == 0 || lines[i].size() < least ? lines[i] : lines[i].substr(least)) + '\n';
  return out;
}

/// A function of a file: "std::vector<Tensor> NAME(const OpArgs& args) {" to its end, with a template before it.
std::string function_of(const std::string& text, const std::string& name) {
  std::smatch found;
  if (!std::regex_search(text, found,
                         std::regex("\n([^\n]*std::vector<Tensor> " + name + "\\(const OpArgs& ?\\w*\\) \\{)")))
    return "";
  const auto begin = static_cast<std::size_t>(found.position(1));
  const std::size_t line_end = text.find('\n', begin), end = text.find("\n}\n", begin);
  if (text[line_end - 1] == '}') return text.substr(begin, line_end + 1 - begin); // on one line
  return end == std::string::npos ? "" : text.substr(begin, end + 3 - begin);
}

/// Of a row that a function of the file makes, "amax_op = extreme_row(..., naive)": the last function that is given.
std::string reference_given(const std::string& text, std::size_t at) {
  const std::string call = text.substr(at, text.find(';', at) - at);
  std::string reference;
  const std::regex word(R"(\w+)");
  for (auto it = std::sregex_iterator(call.begin(), call.end(), word); it != std::sregex_iterator(); ++it)
    if (const std::string function = function_of(text, it->str()); !function.empty()) reference = function;
  return reference;
}

/// The reference of the row whose definition begins at `at`: a function of the file, or a lambda of the row.
std::string reference_at(const std::string& text, std::size_t at) {
  const std::size_t end = std::min(text.find("constinit const OpDef", at + 10), text.size());
  const std::string key = ".reference =";
  const std::size_t found = text.find(key, at);
  if (found == std::string::npos || found > end) return reference_given(text, at);
  const std::size_t value = text.find_first_not_of(" \n", found + key.size());
  std::string expression = argument_at(text, value);
  if (std::smatch name; std::regex_match(expression, name, std::regex(R"((\w+)(<.*>)?)")))
    return function_of(text, name[1]);
  if (std::smatch name; std::regex_search(expression, name, std::regex(R"(\{\s*return (\w+)\(\w+\);\s*\}$)")))
    return function_of(text, name[1]);
  return dedented(expression);
}

/// A line of a table, "X(name, ...)", as one line or more, without the spaces that align its columns.
std::string entry_at(const std::string& text, std::size_t at) {
  std::size_t end = at + 2;
  for (std::string column = argument_at(text, end); end < text.size(); column = argument_at(text, end)) {
    end += column.size() + 1;
    if (text[end - 1] == ')') break;
  }
  return std::regex_replace(dedented(text.substr(at, end - at)), std::regex(R"(([^ \n])  +)"), "$1 ");
}

/// Where a file defines a row, and with what: npos where it does not.
std::size_t place_in(const std::string& text, const std::string& row) {
  for (const std::string& begin : {"OpDef " + row + "_op =", "ROWS(" + row + ",", "ROW(" + row + ","})
    if (const std::size_t at = text.find(begin); at != std::string::npos) return at;
  return std::string::npos;
}

RowSource source_of(const std::string& row, const std::map<std::string, std::string>& files) {
  const std::regex entry("\\n( *X\\(" + row + ", )");
  for (const auto& [file, text] : files) {
    if (std::smatch found; file.ends_with(".h") && std::regex_search(text, found, entry)) {
      const std::size_t at = text.find("X(", static_cast<std::size_t>(found.position(1)));
      return {file, entry_at(text, at)};
    }
    if (!file.ends_with(".cpp")) continue;
    if (const std::size_t at = place_in(text, row); at != std::string::npos) {
      const bool macro = text[at] == 'R';
      return {file, macro ? "" : reference_at(text, at)};
    }
  }
  if (row.ends_with("_backward")) { // made beside the forward row by one macro
    RowSource source = source_of(row.substr(0, row.size() - 9), files);
    source.reference.clear();
    return source;
  }
  throw ValueError("core/ops holds no definition of " + row);
}

/// Pages of docs/ops by the rows that their first line names.
std::map<std::string, std::string> pages_of_rows() {
  const fs::path folder = fs::path(EQUIGRAD_SOURCE_DIR) / "docs/ops";
  std::map<std::string, std::string> pages;
  for (const std::string& name : names_in(folder, ".md")) {
    const std::string first = lines_of(read_text(folder / (name + ".md"))).front();
    for (std::size_t at = first.find('`'); at != std::string::npos; at = first.find('`', at + 1)) {
      const std::size_t end = first.find('`', at + 1);
      pages[first.substr(at + 1, end - at - 1)] = name;
      at = end;
    }
  }
  return pages;
}

std::string tex_name(const std::string& input) {
  if (input.size() == 1) return input;
  std::string words = input;
  std::replace(words.begin(), words.end(), '_', ' ');
  return "{\\text{" + words + "}}";
}

std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    if (c == ' ') anchor += '-';
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return anchor;
}

constexpr const char* introduction = R"(# Operations

Every operation of the library, by topic: what it computes, its gradient and why, what the tape keeps, its symmetries, its cost, its source and its
reference in plain loops. [Twelve of them have a page each](ops/README.md), with a derivation, an example in numbers, and programs; start there to
learn how gradients are derived.
)";

constexpr const char* explanation = R"(
## How to read a gradient

A loss $L$ depends on the output $y$ of an operation, and $g = \partial L / \partial y$ has arrived from there: the *cotangent*, of the shape of $y$. The
operation's rule (vjp, vector-Jacobian product) turns it into the gradient of each input, $g_x = J^\top g$ with the Jacobian
$J = \partial y / \partial x$, without forming $J$. An operation with several outputs has a cotangent for each: $g_{\text{values}}$, $g_{\text{mean}}$.

$\odot$ is the elementwise product; division and powers of tensors are elementwise; $[\,\cdot\,]$ is 1 where the statement holds and 0 elsewhere. Where an
input was broadcast, the gradient is summed over the repeated axes; formulas leave this out.

Each formula stands in [ops/gradients.txt](ops/gradients.txt) in TeX and in NumPy. `python/tests/test_op_gradients.py` evaluates the NumPy form on the row's
samples, and at kinks and ties, against the tape in f64. Formulas that are off by a thousandth must fail. Some use names that the test adds:

| name | meaning |
|---|---|
| `over` | the reduced axes as a tuple |
| `wide(v)` | $\uparrow v$: a reduced tensor with the reduced axes in their places, of extent 1 |
| `N` | how many elements of $x$ are reduced to one of $y$ |
| `at(index)` | 1 at the index along `axis`, else 0 |
| `share(g, x)` | the cotangent of one element's loss |
| `transposed(x)` | $A^\top g$ of a linear map, element by element $\langle g, A e_k \rangle$, by the row's reference |
| `sigmoid`, `Phi`, `phi` | $1 / (1 + e^{-x})$; the normal distribution function and its density |

## How to read a symmetry

The same permutation applied to all the axes named moves inputs to inputs and outputs to outputs, forward and in every gradient. Values that are indices
along the permuted axis are relabelled with the inverse: where `argmax` gave place 2 and element 2 is now at place 5, it gives 5.

## What is no row

Nothing flows through constructors (`arange`, `linspace`, `eye`), metrics (`nn/metrics.h`) and the assignment (`permute/recovery/assignment.h`).

These pages are written from the registry by the test `op_pages.op_reference_test`; run it with EQUIGRAD_WRITE_DOCS=1 after a row or a formula has changed.
)";

std::string page_of(const Topic& topic) { return anchor_of(topic.name) + ".md"; }

/// The topic of a row.
const Topic& topic_of(const GradientTexts& texts, const std::string& row) {
  for (const Topic& topic : texts.topics)
    if (std::find(topic.rows.begin(), topic.rows.end(), row) != topic.rows.end()) return topic;
  throw ValueError("gradients.txt has no row " + row);
}

/// A text of gradients.txt on a page of docs/ops/reference: "(#row)" leads to the row's page.
std::string linked(const GradientTexts& texts, const std::string& text) {
  std::string out;
  std::size_t from = 0;
  for (std::size_t at = text.find("](#"); at != std::string::npos; at = text.find("](#", from)) {
    const std::size_t end = text.find(')', at);
    const std::string row = text.substr(at + 3, end - at - 3);
    out += text.substr(from, at - from) + "](" + page_of(topic_of(texts, row)) + "#" + row + ")";
    from = end + 1;
  }
  return out + text.substr(from);
}

std::string python_default(const AttrSpec& spec) {
  switch (spec.kind) {
  case AttrKind::boolean:
    return spec.number != 0.0 ? "True" : "False";
  case AttrKind::integer:
    return fmt::format("{}", static_cast<std::int64_t>(spec.number));
  case AttrKind::real: {
    const std::string digits = fmt::format("{}", spec.number);
    return digits.find_first_of(".en") == std::string::npos ? digits + ".0" : digits; // 1e-05, inf
  }
  case AttrKind::integers:
  case AttrKind::reals:
    return "()";
  case AttrKind::text:
    return fmt::format("'{}'", spec.text);
  }
  return "";
}

/// "eg.ops.softmax(x, axis=-1)". What has to be given behind what need not be is given by name, as all behind it.
std::string python_call(const OpDef& op) {
  std::vector<std::pair<std::string, std::string>> arguments; // with defaults, or without
  for (const InputSpec& input : op.inputs) arguments.emplace_back(input.name, input.optional ? "None" : "");
  for (const AttrSpec& spec : op.attributes)
    arguments.emplace_back(spec.name, spec.required ? "" : python_default(spec));
  std::string list;
  bool optional_seen = false, by_name = false;
  for (const auto& [name, value] : arguments) {
    if (!list.empty()) list += ", ";
    if (value.empty() && optional_seen && !by_name) {
      list += "*, ";
      by_name = true;
    }
    optional_seen = optional_seen || !value.empty();
    list += value.empty() ? name : name + "=" + value;
  }
  return fmt::format("eg.ops.{}({})", op.name, list);
}

/// The row's first declaration in core/ops.h, in one line; "" where it has none.
std::string declaration_of(const std::string& header, const std::string& row) {
  const std::string name = " " + row + "(";
  for (std::size_t at = header.find(name); at != std::string::npos; at = header.find(name, at + 1)) {
    const std::size_t line = header.rfind('\n', at) + 1;
    const bool declares = std::isalpha(static_cast<unsigned char>(header[line])) != 0 &&
                          header.find_first_of("(;", line) == at + name.size() - 1;
    if (declares) return std::regex_replace(header.substr(line, header.find(';', at) - line), std::regex("\\s+"), " ");
  }
  return "";
}

std::string row_section(const GradientTexts& texts, const std::string& row, const RowSource& source,
                        const std::map<std::string, std::string>& pages) {
  static const std::string header = read_text(fs::path(EQUIGRAD_SOURCE_DIR) / "core/ops.h");
  const std::string facts = op_reference_markdown(find_op(row));
  const std::size_t list = facts.find("- Inputs:");
  std::string out =
      fmt::format("\n## {}\n\n{}{}{}", row, facts.substr(0, list), gradient_markdown(texts, row), facts.substr(list));
  if (const std::string declaration = declaration_of(header, row); !declaration.empty())
    out += fmt::format("- In C++: `{}`\n", declaration);
  out += fmt::format("- In Python: `{}`\n", python_call(find_op(row)));
  std::string backward; // "gelu_tanh_backward" is no gradient of gelu
  for (const auto& [other, text] : texts.rows)
    if (other.starts_with(row + "_") && other.ends_with("_backward") && !row.ends_with("_backward") &&
        (other == row + "_backward" || !texts.rows.contains(other.substr(0, other.size() - 9))))
      backward +=
          fmt::format("{}[{}]({}#{})", backward.empty() ? "" : ", ", other, page_of(topic_of(texts, other)), other);
  if (!backward.empty()) out += fmt::format("- Its gradient as a row, with plain loops: {}\n", backward);
  out += fmt::format("- Source: [{0}](../../../{0})", source.file);
  if (const auto page = pages.find(row); page != pages.end())
    out += fmt::format(". Derived, with an example: [its page](../{}.md)", page->second);
  out += '\n';
  if (source.reference.empty()) return out;
  const bool table = source.reference.starts_with("X(");
  return out + fmt::format("\n<details><summary>{}</summary>\n\n```cpp\n{}```\n\n</details>\n",
                           table ? "Its line of the table, with the reference" : "Reference in plain loops",
                           source.reference);
}

} // namespace

GradientTexts parse_gradients(const std::string& text) {
  GradientTexts texts;
  GradientText* row = nullptr;
  bool in_why = false;
  const std::regex formula(R"((\w+): (.*) ;; (.*))");
  for (const std::string& line : lines_of(text)) {
    const bool goes_on = in_why && line.starts_with("  ");
    if (!goes_on) in_why = false;
    std::smatch found;
    if (goes_on) {
      row->why += ' ' + line.substr(line.find_first_not_of(' '));
    } else if (line.starts_with("== ")) {
      const std::size_t colon = line.find(": ");
      if (colon == std::string::npos) throw ValueError("gradients.txt: a topic needs a sentence: " + line);
      texts.topics.push_back({line.substr(3, colon - 3), line.substr(colon + 2), {}});
      row = nullptr;
    } else if (line.starts_with("-- ")) {
      const std::string name = line.substr(3);
      if (texts.topics.empty() || texts.rows.contains(name))
        throw ValueError("gradients.txt: the row has no topic, or is there twice: " + name);
      texts.topics.back().rows.push_back(name);
      row = &texts.rows[name];
    } else if (row != nullptr && line.starts_with("why: ")) {
      row->why = line.substr(5);
      in_why = true;
    } else if (row != nullptr && line.starts_with("let: ")) {
      row->lets += line.substr(5) + '\n';
    } else if (row != nullptr && std::regex_match(line, found, formula)) {
      row->formulas.push_back({found[1], found[2], found[3]});
    } else if (!line.empty() && !line.starts_with("#")) {
      throw ValueError("gradients.txt: what is this? " + line);
    }
  }
  return texts;
}

std::map<std::string, RowSource> row_sources() {
  const fs::path root = EQUIGRAD_SOURCE_DIR;
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / "core/ops")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".cpp" || (name.starts_with("table") && name.ends_with(".h")))
      files[fs::relative(entry.path(), root).generic_string()] = without_continuations(read_text(entry.path()));
  }
  std::map<std::string, RowSource> sources;
  for (const OpDef* op : registry()) {
    RowSource source = source_of(std::string(op->name), files);
    if (lines_of(source.reference).size() > most_lines) source.reference.clear();
    sources[std::string(op->name)] = std::move(source);
  }
  return sources;
}

std::string reference_of(const GradientTexts& texts, const std::string& row) {
  return "reference/" + page_of(topic_of(texts, row)) + "#" + row;
}

std::string gradient_markdown(const GradientTexts& texts, const std::string& row) {
  const GradientText& text = texts.rows.at(row);
  std::string out, numpy;
  for (const auto& [input, tex, code] : text.formulas) {
    const bool whole = tex.starts_with("(g_") || tex.starts_with("(A^"); // has its own left side
    out += whole ? fmt::format("$${}$$\n\n", tex) : fmt::format("$$g_{} = {}$$\n\n", tex_name(input), tex);
    numpy += fmt::format("{}{} = {}", numpy.empty() ? "" : "\n", "g_" + input, code);
  }
  if (!text.why.empty()) out += linked(texts, text.why) + "\n\n";
  if (numpy.empty()) return out;
  if (text.lets.empty() && numpy.find('\n') == std::string::npos) return out + "In NumPy: `" + numpy + "`\n\n";
  return out + "<details><summary>In NumPy</summary>\n\n```python\n" + text.lets + numpy + "\n```\n\n</details>\n\n";
}

std::map<std::string, std::string> op_reference_pages(const GradientTexts& texts) {
  const PauseRecording pause; // the rows' samples are made and tried
  const std::map<std::string, RowSource> sources = row_sources();
  const std::map<std::string, std::string> pages = pages_of_rows();
  std::map<std::string, std::string> written;
  std::string index = introduction + fmt::format("\n{} rows:\n\n| topic | rows |\n|---|---|\n", texts.rows.size());
  for (std::size_t i = 0; i < texts.topics.size(); ++i) {
    const Topic& topic = texts.topics[i];
    std::string links, page = fmt::format("# {}\n\n", topic.name);
    if (i > 0) page += fmt::format("Previous: [{}]({}) · ", texts.topics[i - 1].name, page_of(texts.topics[i - 1]));
    if (i + 1 < texts.topics.size())
      page += fmt::format("Next: [{}]({}) · ", texts.topics[i + 1].name, page_of(texts.topics[i + 1]));
    page += fmt::format("[All operations, and how to read them](../../ops.md)\n\n{}\n", topic.text);
    for (const std::string& row : topic.rows) {
      links += fmt::format("{}[{}](ops/{})", links.empty() ? "" : ", ", row, reference_of(texts, row));
      page += row_section(texts, row, sources.at(row), pages);
    }
    index += fmt::format("| [{}](ops/reference/{}) | {} |\n", topic.name, page_of(topic), links);
    written["ops/reference/" + page_of(topic)] = page;
  }
  written["ops.md"] = index + explanation;
  return written;
}

} // namespace eg::test
