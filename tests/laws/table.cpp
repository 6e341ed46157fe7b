// docs/numerics/laws.md: how many comparisons each law made for each row, and the largest error it saw.

#include "core/registry.h"
#include "support/laws.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <sstream>

using namespace eg;

namespace {

struct Column {
  const char* title;
  laws::Law law;
  bool has_error;
};

constexpr std::array<Column, 14> columns = {{{"gradient", laws::gradient_law, true},
                                             {"second", laws::second_derivative_law, true},
                                             {"reference", laws::reference_law, true},
                                             {"f32 - f64", laws::dtype_law, true},
                                             {"symmetry", laws::symmetry_law, true},
                                             {"its gradient", laws::backward_symmetry_law, true},
                                             {"exact", laws::exact_law, false},
                                             {"placement", laws::placement_law, false},
                                             {"layout", laws::layout_law, false},
                                             {"small", laws::small_extent_law, false},
                                             {"offset", laws::offset_law, false},
                                             {"large", laws::large_law, false},
                                             {"threads", laws::threads_law, false},
                                             {"errors", laws::errors_law, false}}};

std::string cell(const Column& column, const laws::Verdict& verdict) {
  if (verdict.checked == 0) return "";
  if (!column.has_error) return std::to_string(verdict.checked);
  return fmt::format("{} ({:.0e})", verdict.checked, verdict.largest_error);
}

std::string table() {
  std::string text =
      "# What the laws measured\n\n"
      "Written by `law_tests --source-file=*table*` with EQUIGRAD_WRITE_DOCS=1. A cell is the number of "
      "comparisons and, in brackets, the largest\nrelative error: f64, but for the column that compares f32 "
      "with f64. Gradients are compared with central differences, whose own error is\nabout 1e-9. \"exact\", "
      "\"placement\", \"layout\" and \"threads\" demand the same bits. Empty: the law does not concern the "
      "row. \"offset\" and \"large\" compare values far from ordinary numbers (ulp.md).\n\n| row |";
  for (const Column& column : columns) text += fmt::format(" {} |", column.title);
  text += "\n|---|";
  for (std::size_t i = 0; i < columns.size(); ++i) text += "---|";
  std::array<std::int64_t, columns.size()> totals{};
  std::vector<const OpDef*> rows(registry().begin(), registry().end());
  std::sort(rows.begin(), rows.end(), [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
  for (const OpDef* op : rows) {
    text += fmt::format("\n| {} |", op->name);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const laws::Verdict verdict = columns[i].law(*op);
      CHECK_MESSAGE(verdict.pass(), std::string(op->name), ":", verdict.text());
      totals[i] += verdict.checked;
      text += fmt::format(" {} |", cell(columns[i], verdict));
    }
  }
  text += fmt::format("\n| **{} rows** |", rows.size());
  for (const std::int64_t total : totals) text += fmt::format(" {} |", total);
  return text + "\n";
}

} // namespace

TEST_CASE("docs/numerics/laws.md has a line for every row") {
  const std::string path = EQUIGRAD_SOURCE_DIR "/docs/numerics/laws.md";
  if (std::getenv("EQUIGRAD_WRITE_DOCS") != nullptr) std::ofstream(path, std::ios::binary) << table();
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  INFO("run this test with EQUIGRAD_WRITE_DOCS=1 and commit docs/numerics/laws.md");
  for (const OpDef* op : registry())
    CHECK_MESSAGE(text.str().find(fmt::format("\n| {} |", op->name)) != std::string::npos, std::string(op->name));
}
