// The tables of docs/catalogue.md, docs/errata.md and docs/training-equivalence.md say what the catalogue says, and
// their numbers are its numbers. With EQUIGRAD_WRITE_DOCS=1 the cells are written from the catalogue instead.

#include "permute/catalogue/catalogue.h"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace {

using namespace eg::permute;

const Identity* find(const std::string& id) {
  const auto at =
      std::find_if(catalogue().begin(), catalogue().end(), [&](const Identity& identity) { return identity.id == id; });
  return at == catalogue().end() ? nullptr : &*at;
}

const VerifyResult& measured(const std::string& id, eg::DType dtype) {
  static std::map<std::pair<std::string, eg::DType>, VerifyResult> results;
  const auto key = std::make_pair(id, dtype);
  if (!results.contains(key)) {
    VerifyOptions options;
    options.dtype = dtype;
    results[key] = verify(*find(id), options);
  }
  return results[key];
}

using Cells = std::vector<std::string>;

Cells cells_of(const std::string& line) {
  Cells cells;
  std::size_t at = 2;
  while (at < line.size()) {
    const std::size_t next = std::min(line.find(" |", at), line.size());
    cells.push_back(next > at ? line.substr(at, next - at) : "");
    at = next + 3;
  }
  return cells;
}

/// The ids between backquotes in a cell.
std::vector<std::string> ids_in(const std::string& cell) {
  std::vector<std::string> ids;
  for (std::size_t at = cell.find('`'); at != std::string::npos; at = cell.find('`', at)) {
    const std::size_t end = cell.find('`', at + 1);
    ids.push_back(cell.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return ids;
}

template <class F> std::string joined(const std::vector<std::string>& ids, F number) {
  std::string text;
  for (const std::string& id : ids) text += (text.empty() ? "" : ", ") + fmt::format("{:.1e}", number(id));
  return text;
}

bool is_control(const std::string& header) {
  return header == "error of the control" || header == "error of the printed form";
}

/// What the catalogue has for the column `header` of the rows `ids`; nothing where the column is prose.
std::optional<std::string> wanted(const std::string& header, const std::vector<std::string>& ids) {
  const Identity& identity = *find(ids.front());
  if (header == "paper") return identity.paper;
  if (header == "Eq.") return identity.equation;
  if (header == "kind") return std::string(name_of(identity.kind));
  if (header == "statement") return identity.statement;
  if (header == "formula") return "$" + identity.tex + "$";
  if (header == "f64") return joined(ids, [](const std::string& id) { return measured(id, eg::DType::f64).error; });
  if (header == "f32") return joined(ids, [](const std::string& id) { return measured(id, eg::DType::f32).error; });
  if (is_control(header))
    return joined(ids, [](const std::string& id) { return measured(id, eg::DType::f64).control.error; });
  return std::nullopt;
}

/// Rounding errors differ from one processor to the next; the errors of controls do not, but where the control itself
/// is about rounding.
bool agree(const std::string& header, const std::string& id, const std::string& is, const std::string& should) {
  if (header == "f64" || header == "f32" || (is_control(header) && id == "train-lion-ties")) return !is.empty();
  if (!is_control(header)) return is == should;
  std::istringstream a(is), b(should);
  double x = 0.0, y = 0.0;
  char comma = 0;
  while (b >> y) {
    if (!(a >> x) || std::abs(x - y) > 0.1 * y) return false;
    a >> comma;
    b >> comma;
  }
  return true;
}

struct Page {
  std::string path, text;
  std::set<std::string> named; ///< ids in the columns "id" and "row"

  explicit Page(const std::string& name) : path(EQUIGRAD_SOURCE_DIR "/docs/" + name) {
    std::ostringstream all;
    all << std::ifstream(path, std::ios::binary).rdbuf();
    text = all.str();
  }

  /// Compares every table line with the catalogue, or writes it.
  void check() {
    const bool writes = std::getenv("EQUIGRAD_WRITE_DOCS") != nullptr;
    std::istringstream in(text);
    std::string line, out;
    Cells header;
    while (std::getline(in, line)) {
      if (line.empty() || line[0] != '|')
        header.clear();
      else if (header.empty())
        header = cells_of(line);
      else
        line = checked(line, header, writes);
      out += line + "\n";
    }
    if (writes) std::ofstream(path, std::ios::binary) << out;
  }

private:
  std::string checked(const std::string& line, const Cells& header, bool writes) {
    Cells cells = cells_of(line);
    const auto key = std::find_if(header.begin(), header.end(), [](const auto& h) { return h == "id" || h == "row"; });
    if (key == header.end()) return line;
    cells.resize(header.size());
    const std::vector<std::string> ids = ids_in(cells[static_cast<std::size_t>(key - header.begin())]);
    if (ids.empty()) return line;
    for (const std::string& id : ids) {
      INFO(path, ": ", id);
      REQUIRE(find(id) != nullptr);
      named.insert(id);
    }
    for (std::size_t i = 0; i < header.size(); ++i) {
      const std::optional<std::string> should = wanted(header[i], ids);
      if (!should) continue;
      INFO(path, ", ", ids.front(), ", column ", header[i], ": is \"", cells[i], "\", should be \"", *should,
           "\"; EQUIGRAD_WRITE_DOCS=1 writes it");
      if (!writes) CHECK(agree(header[i], ids.front(), cells[i], *should));
      cells[i] = *should;
    }
    return writes ? fmt::format("| {} |", fmt::join(cells, " | ")) : line;
  }
};

TEST_CASE("docs/catalogue.md: a table line for every row, as the catalogue has it") {
  Page page("catalogue.md");
  page.check();
  for (const Identity& identity : catalogue()) CHECK_MESSAGE(page.named.contains(identity.id), identity.id);
}

TEST_CASE("docs/errata.md: every row that shows something printed wrongly, with the error of the printed form") {
  Page page("errata.md");
  page.check();
  for (const Identity& identity : catalogue()) {
    const bool printed_wrongly = identity.kind == ClaimKind::erratum || identity.kind == ClaimKind::counterexample;
    INFO(identity.id);
    CHECK((!printed_wrongly || page.named.contains(identity.id)));
  }
}

TEST_CASE("docs/training-equivalence.md: every row that trains, with what was measured") {
  Page page("training-equivalence.md");
  page.check();
  for (const Identity& identity : catalogue()) {
    INFO(identity.id);
    CHECK((identity.gate != Gate::training || page.named.contains(identity.id)));
  }
  for (const std::string& id : page.named) {
    INFO(id);
    CHECK(measured(id, eg::DType::f64).pass);
    CHECK(measured(id, eg::DType::f32).pass);
  }
}

} // namespace
