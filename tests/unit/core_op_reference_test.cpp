#include "core/measure/op_reference.h"
#include "core/registry.h"

#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <sstream>

using namespace eg;

namespace {

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

} // namespace

TEST_CASE("docs/ops.md is what the registry says") {
  const std::string path = EQUIGRAD_SOURCE_DIR "/docs/ops.md";
  const std::string wanted = op_reference_markdown();
  if (std::getenv("EQUIGRAD_WRITE_DOCS") != nullptr) std::ofstream(path, std::ios::binary) << wanted;
  INFO("run this test with EQUIGRAD_WRITE_DOCS=1 and commit docs/ops.md");
  const bool same = file_text(path) == wanted;
  CHECK(same);
}

TEST_CASE("one row's text is its part of the page") {
  const OpDef& op = find_op("cross_entropy");
  const std::string text = op_reference_markdown(op);
  CHECK(op_reference_markdown().find("\n## cross_entropy\n\n" + text) != std::string::npos);
  CHECK(text.find("- Outputs: `loss`, `largest` (for the gradient), `log_total` (for the gradient)\n") !=
        std::string::npos);
}

TEST_CASE("every row has a section with its mathematics") {
  const std::string text = op_reference_markdown();
  for (const OpDef* op : registry()) {
    CHECK(text.find("\n## " + std::string(op->name) + "\n") != std::string::npos);
    CHECK(text.find(op->math) != std::string::npos);
  }
}
