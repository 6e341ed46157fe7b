#pragma once
// Makes docs/ops.md and docs/ops/reference from the registry, docs/ops/gradients.txt and the source of the rows.

#include "core/op.h"

#include <map>
#include <string>
#include <vector>

namespace eg::test {

/// What docs/ops/gradients.txt says of a row.
struct GradientText {
  struct Formula {
    std::string input, tex, numpy;
  };
  std::vector<Formula> formulas;
  std::string lets; ///< what the NumPy form computes first
  std::string why;
};

/// A topic: its name, a sentence, and its rows in order.
struct Topic {
  std::string name, text;
  std::vector<std::string> rows;
};

struct GradientTexts {
  std::vector<Topic> topics;
  std::map<std::string, GradientText> rows;
};

/// Reads gradients.txt. Throws ValueError for a line that it does not know and for a row that is there twice.
GradientTexts parse_gradients(const std::string& text);

/// Where a row's definition stands, from the root of the tree, and its reference in plain loops as it stands there; ""
/// where that is no piece of one place, or too long.
struct RowSource {
  std::string file, reference;
};
/// By row. Throws ValueError for a row that it does not find.
std::map<std::string, RowSource> row_sources();

/// Where the page of the row's topic lies, from docs/ops: "reference/softmax-and-attention.md#softmax".
std::string reference_of(const GradientTexts& texts, const std::string& row);

/// Formulas and reason: what stands between a row's mathematics and its inputs, on a page of docs/ops/reference.
std::string gradient_markdown(const GradientTexts& texts, const std::string& row);

/// By path from docs: ops.md, which lists the rows by topic, and a page for each topic.
std::map<std::string, std::string> op_reference_pages(const GradientTexts& texts);

} // namespace eg::test
