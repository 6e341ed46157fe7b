// TeX formulas as MathML.

#include "apps/report/tex.h"

#include "core/base/error.h"
#include "core/random.h"
#include "permute/catalogue/catalogue.h"
#include "support/markup.h"
#include "support/message.h"

#include <doctest/doctest.h>

using namespace eg;
using permute::report::mathml;

namespace {

/// What is inside the outermost row.
std::string inside(const std::string& tex) {
  const std::string text = mathml(tex);
  const std::size_t start = text.find("<mrow>") + 6;
  return text.substr(start, text.rfind("</mrow></math>") - start);
}

void refuses(const std::string& tex, const std::string& words) {
  CAPTURE(tex);
  try {
    mathml(tex);
    FAIL("it was taken");
  } catch (const ValueError& error) {
    const std::string what = error.what();
    CHECK_MESSAGE(what.find(words) != std::string::npos, what);
    CHECK_MESSAGE(what.starts_with("tex: "), what);
    CHECK_MESSAGE(what.ends_with("in \"" + tex + "\""), what);
  }
}

} // namespace

TEST_CASE("tex: the formula of every row of the catalogue becomes well-formed MathML") {
  for (const permute::Identity& row : permute::catalogue()) {
    CAPTURE(row.id);
    REQUIRE(!row.tex.empty());
    std::string text;
    CHECK_NOTHROW(text = mathml(row.tex));
    CHECK(test::fault_of_markup(text) == "");
    const std::string shown = test::without_tags(text);
    CHECK(shown.find('\\') == std::string::npos);
    CHECK(shown.find_first_of("^_") == std::string::npos);
  }
}

TEST_CASE("tex: scripts, primes and their order") {
  CHECK(inside("x_1") == "<msub><mi>x</mi><mrow><mn>1</mn></mrow></msub>");
  CHECK(inside("x^2_i") == inside("x_i^2"));
  CHECK(inside("x_i^2") == "<msubsup><mi>x</mi><mrow><mi>i</mi></mrow><mrow><mn>2</mn></mrow></msubsup>");
  CHECK(inside("W'") == "<msup><mi>W</mi><mrow><mo>′</mo></mrow></msup>");
  CHECK(inside("E'^\\top").find("<mo>′</mo><mi mathvariant=\"normal\">⊤</mi>") != std::string::npos);
  CHECK(inside("x^12") == "<msup><mi>x</mi><mrow><mn>1</mn></mrow></msup><mn>2</mn>"); // as TeX reads it
  CHECK(inside("P^{-1}").find("<mrow><mo>−</mo><mn>1</mn></mrow>") != std::string::npos);
  CHECK(inside("\\sum_j x_j").starts_with("<munder><mo>∑</mo>"));
  CHECK(inside("12.5x") == "<mn>12.5</mn><mi>x</mi>");
}

TEST_CASE("tex: fractions, roots, words, delimiters and matrices") {
  CHECK(inside("\\frac{a}{b}") ==
        "<mfrac><mrow><mrow><mi>a</mi></mrow></mrow><mrow><mrow><mi>b</mi></mrow></mrow></mfrac>");
  CHECK(inside("\\frac12").find("<mn>1</mn></mrow><mrow><mn>2</mn>") != std::string::npos);
  CHECK(inside("\\sqrt d") == "<msqrt><mi>d</mi></msqrt>");
  CHECK(inside("\\sqrt[3]{d}").starts_with("<mroot>"));
  CHECK(inside("\\mathrm{Softmax}(A)").starts_with("<mi>Softmax</mi><mo stretchy=\"false\">(</mo>"));
  CHECK(inside("\\operatorname{X}") == "<mi mathvariant=\"normal\">X</mi>");
  CHECK(inside("\\mathbb{E}") == "<mi mathvariant=\"normal\">𝔼</mi>");
  CHECK(inside("\\mathbb R") == "<mi mathvariant=\"normal\">ℝ</mi>");
  CHECK(inside("\\mathbf 1") == "<mi mathvariant=\"normal\">𝟏</mi>");
  CHECK(inside("\\text{ for all } t").starts_with("<mtext>\u00a0for\u00a0all\u00a0</mtext>"));
  CHECK(inside("\\bigl(x\\bigr)").find("minsize=\"1.2em\"") != std::string::npos);
  CHECK(inside("\\left( x \\right.").find("fence=\"true\">(</mo><mi>x</mi></mrow>") != std::string::npos);
  const std::string matrix = inside("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}");
  CHECK(matrix.find("<mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr><mtr><mtd><mn>3</mn>") != std::string::npos);
  CHECK(inside("\\not\\Rightarrow") == "<mo>⇏</mo>");
  CHECK(inside("\\hat Y").starts_with("<mover accent=\"true\">"));
}

TEST_CASE("tex: what is not a formula is refused with the reason") {
  refuses("\\unheard x", "unknown command \\unheard");
  refuses("\\Frac{a}{b}", "unknown command \\Frac");
  refuses("{x", "a group is not closed before the end");
  refuses("x}", "'}' closes nothing");
  refuses("x_1_2", "'_' is given twice");
  refuses("x^1^2", "'^' is given twice");
  refuses("^2", "'^' has no base");
  refuses("x_", "a subscript has no argument");
  refuses("\\frac{a}", "\\frac has no argument");
  refuses("x\\", "a backslash stands at the end");
  refuses("\\left( x", "\\left is not closed before the end");
  refuses("\\left x \\right)", "\\left needs a delimiter, not x");
  refuses("\\begin{pmatrix}1", "\\begin{pmatrix} is not closed before the end");
  refuses("\\begin{pmatrix}1\\end{bmatrix}", "\\begin{pmatrix} is closed by \\end{bmatrix}");
  refuses("\\begin{align}1\\end{align}", "unknown environment align");
  refuses("\\mathrm{a\\b}", "\\mathrm takes plain words");
  refuses("x $ y", "'$' is no sign of a formula");
  refuses("\xc3\xa9", "'byte 0xc3' is no sign of a formula");
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "\\sqrt";
  refuses(deep + " x", "nested too deeply");
}

TEST_CASE("tex: whatever is written, it becomes well-formed MathML or is refused") {
  const std::vector<std::string> words = {"x",
                                          "12",
                                          "{",
                                          "}",
                                          "_",
                                          "^",
                                          "'",
                                          "\\frac",
                                          "\\sqrt",
                                          "[",
                                          "]",
                                          "(",
                                          ")",
                                          "&",
                                          "\\\\",
                                          "\\left",
                                          "\\right",
                                          "\\bigl",
                                          "\\text",
                                          "\\mathrm",
                                          "{ab}",
                                          "\\begin{pmatrix}",
                                          "\\end{pmatrix}",
                                          "\\top",
                                          "\\sum",
                                          "\\not",
                                          "\\hat",
                                          "\\,",
                                          "<",
                                          "|",
                                          "\\|",
                                          "\\{",
                                          " "};
  RandomStream random({.seed = 5});
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string tex;
    for (std::uint32_t n = 1 + random.next_u32() % 8; n > 0; --n) tex += words[random.next_u32() % words.size()];
    CAPTURE(tex);
    try {
      const std::string text = mathml(tex);
      ++taken;
      REQUIRE(test::fault_of_markup(text) == "");
    } catch (const ValueError& error) {
      REQUIRE(std::string(error.what()).starts_with("tex: "));
    }
  }
  CHECK(taken > 500);
}

TEST_CASE("markup: the checker finds what it is there for") {
  CHECK(test::fault_of_markup("<p class=\"a\">x &lt; y<br></p>") == "");
  for (const char* wrong : {"<p>", "</p>", "<p><b></p></b>", "<p class=a></p>", "<p a=\"1\" a=\"2\"></p>", "a & b",
                            "a < b", "<p a=\"<\"></p>", "<p a=\"1></p>", "&nbsp;"})
    CHECK_MESSAGE(test::fault_of_markup(wrong) != "", wrong);
}
