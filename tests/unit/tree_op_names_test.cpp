// An op's name stands in its row. Sources that mean an op name the row itself (core/ops/list.h), so that one that is
// renamed or removed does not compile there; a name in quotes would fall silently to whatever the default is.

#include "core/base/bytes.h"
#include "core/registry.h"

#include <algorithm>
#include <cctype>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// Op names that are words of other vocabularies as well. They may stand in quotes where no op's name is read.
constexpr std::string_view activations = "exp gelu gelu_tanh mish quick_gelu relu sigmoid silu swiglu tanh",
                           parts_and_options = "dropout embedding fold linear norm permute rotary",
                           fields = "center gather log max mean min split square std sum",
                           command_lines = "all any eq log2 pad", html_and_names = "sub",
                           methods_in_python = "contiguous expand reshape transpose", drawn_shapes = "cross";

std::set<std::string> allowed_words() {
  std::set<std::string> words;
  for (const std::string_view list :
       {activations, parts_and_options, fields, command_lines, html_and_names, methods_in_python, drawn_shapes}) {
    std::istringstream stream{std::string(list)};
    for (std::string word; stream >> word;) words.insert(word);
  }
  return words;
}

bool is_word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The text without what follows `//` outside quotes.
std::string without_comments(const std::string& text) {
  std::string code;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    bool quoted = false;
    std::size_t end = 0;
    for (; end < line.size(); ++end) {
      if (line[end] == '"' && (end == 0 || line[end - 1] != '\\')) quoted = !quoted;
      if (!quoted && line.compare(end, 2, "//") == 0) break;
    }
    code += line.substr(0, end) + "\n";
  }
  return code;
}

/// Every "word" in quotes.
std::vector<std::string> quoted_words(const std::string& code) {
  std::vector<std::string> found;
  for (std::size_t quote = code.find('"'); quote != std::string::npos; quote = code.find('"', quote + 1)) {
    std::size_t end = quote + 1;
    while (end < code.size() && is_word_character(code[end])) ++end;
    if (end < code.size() && code[end] == '"' && end > quote + 1)
      found.push_back(code.substr(quote + 1, end - quote - 1));
  }
  return found;
}

/// What follows each place where the name of an op is read: `op.name` or `op->name`.
std::vector<std::string_view> after_names(const std::string& code) {
  std::vector<std::string_view> found;
  for (const std::string_view read : {"op.name", "op->name"})
    for (std::size_t at = code.find(read); at != std::string::npos; at = code.find(read, at + 1)) {
      const std::size_t end = at + read.size();
      if ((at > 0 && is_word_character(code[at - 1])) || (end < code.size() && is_word_character(code[end]))) continue;
      const std::size_t next = code.find_first_not_of(" \n", end);
      found.push_back(next == std::string::npos ? std::string_view() : std::string_view(code).substr(next));
    }
  return found;
}

bool compares(std::string_view rest) {
  for (const std::string_view how : {"== \"", "!= \"", ".starts_with(", ".ends_with(", ".find(", ".contains("})
    if (rest.starts_with(how)) return true;
  return false;
}

bool is_test(const std::string& path) { return path.starts_with("tests/"); }
/// Where names of ops may stand in quotes: the rows, whose messages and kernels say their own, and tests.
bool is_home(const std::string& path) { return path.starts_with("core/ops/") || is_test(path); }

/// What is wrong with a source. `seen` gains the allowed words in it.
std::vector<std::string> faults(const std::string& path, const std::string& text, std::set<std::string>& seen) {
  std::vector<std::string> found;
  static const std::set<std::string> words = allowed_words();
  const std::string code = without_comments(text);
  const std::vector<std::string_view> reads = after_names(code);
  if (path != "core/op.h" && std::any_of(reads.begin(), reads.end(), compares)) // its is_backward() is the one rule
    found.push_back(fmt::format("{} chooses by the name of an op", path));
  if (is_home(path)) return found;
  const bool reads_names = !reads.empty() || code.find("find_op(") != std::string::npos;
  for (const std::string& word : quoted_words(code)) {
    const auto named = [&](const eg::OpDef* op) { return op->name == word; };
    if (std::none_of(eg::registry().begin(), eg::registry().end(), named)) continue;
    const bool other_meaning = words.contains(word);
    if (other_meaning) seen.insert(word);
    if (!other_meaning || reads_names)
      found.push_back(fmt::format("{}: \"{}\" stands outside its row; mean {}_op (core/ops/list.h)", path, word, word));
  }
  return found;
}

std::vector<std::string> faults(const std::string& path, const std::string& text) {
  std::set<std::string> seen;
  return faults(path, text, seen);
}

/// C++ sources of the tree but this one.
std::vector<std::string> sources() {
  std::vector<std::string> found;
  for (const char* folder : {"apps", "autograd", "core", "data", "examples", "include", "nn", "optim", "permute",
                             "python", "tests", "training"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(EQUIGRAD_SOURCE_DIR) / folder)) {
      const std::string suffix = entry.path().extension().string();
      const std::string path = std::filesystem::relative(entry.path(), EQUIGRAD_SOURCE_DIR).string();
      if ((suffix == ".cpp" || suffix == ".h") && path != "tests/unit/tree_op_names_test.cpp") found.push_back(path);
    }
  return found;
}

TEST_CASE("op names: no source chooses by a name in quotes") {
  std::set<std::string> seen;
  const std::vector<std::string> all = sources();
  CHECK(all.size() > 500);
  for (const std::string& path : all) {
    const eg::Bytes bytes = eg::read_file(EQUIGRAD_SOURCE_DIR "/" + path);
    CHECK(faults(path, {bytes.begin(), bytes.end()}, seen) == std::vector<std::string>{});
  }
  // A word that no source has any more, or that is not the name of an op, need not be allowed.
  CHECK(seen == allowed_words());
}

TEST_CASE("op names: what chooses by name is noticed") {
  const auto count = [](const char* path, const char* text) { return faults(path, text).size(); };
  CHECK(count("permute/inference/a.cpp", R"(if (op == "conv2d") return read_conv2d;)") == 1);
  CHECK(count("permute/inference/a.cpp", R"(constexpr Rule rules[] = {{"roll", read_roll}, {"flip", read_flip}};)") ==
        2);
  CHECK(count("autograd/a.cpp", R"(notify_recorders(find_op("add"));)") == 1);
  CHECK(count("nn/a.cpp", R"(const bool sums = listed({"sum", "mean"}, event.op->name);)") == 2);
  CHECK(count("core/ops/a.cpp", R"(return args.op.name == "group_norm" ? 1 : 2;)") == 1);
  CHECK(count("tests/support/a.cpp", R"(if (op->name.starts_with("linear")) return;)") == 1);
  // Words of other vocabularies, longer strings, comments, messages.
  CHECK(count("nn/a.cpp", R"(return {{"mean", m.mean}, {"a sum", 1}}; // "conv2d")") == 0);
  CHECK(count("core/ops/a.cpp", R"(throw ValueError(fmt::format("{}: odd", args.op.name)); // op.name == "conv2d")") ==
        0);
  CHECK(count("nn/a.cpp", R"(if (top.name == "x" || op.name_of() == "y") return "http://x"; check_indices(a, "z");)") ==
        0);
}

} // namespace
