#include "core/base/error.h"
#include "core/measure/op_reference.h"
#include "core/ops/list.h"
#include "core/registry.h"
#include "op_pages/op_reference_page.h"
#include "support/pages.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>

using namespace eg;
using namespace eg::test;

namespace {

const std::filesystem::path docs = std::filesystem::path(EQUIGRAD_SOURCE_DIR) / "docs";

GradientTexts gradients() { return parse_gradients(read_text(docs / "ops/gradients.txt")); }

} // namespace

TEST_CASE("docs/ops.md and docs/ops/reference are what the registry, the formulas and the source say") {
  const auto pages = op_reference_pages(gradients());
  std::vector<std::string> names;
  if (writes_docs()) std::filesystem::create_directories(docs / "ops/reference");
  for (const auto& [path, text] : pages) {
    INFO("run this test with EQUIGRAD_WRITE_DOCS=1 and commit docs/ops: ", path);
    const bool same = same_page(docs / path, text);
    CHECK(same);
    if (path != "ops.md") names.push_back(std::filesystem::path(path).stem().string());
  }
  CHECK(names_in(docs / "ops/reference", ".md") == names);
}

TEST_CASE("every row has an entry, and a formula where a gradient passes") {
  const GradientTexts texts = gradients();
  CHECK(texts.rows.size() == registry().size());
  for (const OpDef* op : registry()) {
    CAPTURE(op->name);
    const auto entry = texts.rows.find(std::string(op->name));
    REQUIRE(entry != texts.rows.end());
    const std::vector<std::string>& auxiliary = texts.topics.back().rows;
    const bool is_auxiliary = std::find(auxiliary.begin(), auxiliary.end(), op->name) != auxiliary.end();
    CHECK((is_auxiliary || !is_backward(*op)));
    const bool wanted = has_gradient(*op) && op->zero_gradient.empty() && !is_auxiliary;
    CHECK(entry->second.formulas.empty() != wanted);
    CHECK(entry->second.why.empty() != wanted);
    for (const auto& formula : entry->second.formulas)
      CHECK(std::any_of(op->inputs.begin(), op->inputs.end(),
                        [&](const InputSpec& input) { return input.name == formula.input; }));
  }
}

TEST_CASE("every row has a section with its mathematics, its facts and its source") {
  std::string all;
  for (const auto& [path, text] : op_reference_pages(gradients())) all += text + "\n## \n";
  const auto sources = row_sources();
  for (const OpDef* op : registry()) {
    CAPTURE(op->name);
    const std::string name(op->name), facts = op_reference_markdown(*op);
    const std::string section = part_of(all, "\n## " + name + "\n", "\n## ");
    CHECK(has(section, std::string(op->math)));
    CHECK(has(section + '\n', facts.substr(facts.find("- Inputs:"))));
    CHECK(has(section, "- Source: [" + sources.at(name).file + "]"));
    const std::string text = read_text(std::filesystem::path(EQUIGRAD_SOURCE_DIR) / sources.at(name).file);
    CHECK(has(text, is_backward(*op) && !has(text, name) ? name.substr(0, name.size() - 9) : name));
  }
  CHECK(count_of(all, "- In C++: `") > 165);
  const auto shown = std::count_if(sources.begin(), sources.end(),
                                   [](const auto& source) { return !source.second.reference.empty(); });
  CHECK(shown > 185);
  CHECK(has(sources.at(std::string(softmax_op.name)).reference, "forward_reference(const OpArgs& args) {\n"));
  CHECK(has(sources.at(std::string(exp_op.name)).reference, "std::exp(x)"));
}

TEST_CASE("a row's text names its outputs") {
  const std::string text = op_reference_markdown(cross_entropy_op);
  CHECK(has(text, "- Outputs: `loss`, `largest` (for the gradient), `log_total` (for the gradient)\n"));
}

TEST_CASE("what gradients.txt must not have is refused") {
  const GradientTexts texts = parse_gradients("# x\n== A: b\n\n-- c\nx: T ;; n\nlet: q\nwhy: d\n  e\n-- f\n");
  REQUIRE(texts.topics.size() == 1);
  CHECK(texts.topics[0].rows == std::vector<std::string>{"c", "f"});
  CHECK(texts.rows.at("c").why == "d e");
  CHECK(has(gradient_markdown(texts, "c"), "$$g_x = T$$\n\nd e\n\n"));
  CHECK(has(gradient_markdown(texts, "c"), "```python\nq\ng_x = n\n```"));
  CHECK(reference_of(texts, "f") == "reference/a.md#f");
  CHECK_THROWS_AS(reference_of(texts, "g"), ValueError);
  CHECK_THROWS_AS(parse_gradients("-- c\n"), ValueError);
  CHECK_THROWS_AS(parse_gradients("== A: b\n-- c\n-- c\n"), ValueError);
  CHECK_THROWS_AS(parse_gradients("== A: b\n-- c\nx: T\n"), ValueError);
  CHECK_THROWS_AS(parse_gradients("== A\n"), ValueError);
}
