// The catalogue's formulas as MathML.

#include "apps/report/formulas.h"

#include "core/base/error.h"
#include "permute/catalogue/catalogue.h"
#include "support/markup.h"
#include "support/message.h"

#include <doctest/doctest.h>

#include <set>

using namespace eg;
using report::mathml;

TEST_CASE("formulas: every row of the catalogue has its formula as well-formed MathML") {
  INFO("run scripts/make_formulas.py");
  std::set<std::string_view> used;
  for (const permute::Identity& row : permute::catalogue()) {
    CAPTURE(row.id);
    std::string text;
    CHECK_NOTHROW(text = mathml(row.tex));
    CHECK(text.starts_with("<math display=\"block\" alttext=\""));
    CHECK(test::fault_of_markup(text) == "");
    CHECK(test::without_tags(text).find_first_of("\\^_") == std::string::npos);
    used.insert(row.tex);
  }
  const std::vector<std::string_view> rendered = report::rendered_formulas();
  CHECK(rendered.size() == used.size()); // none is there twice
  CHECK(std::set(rendered.begin(), rendered.end()) == used);
}

TEST_CASE("formulas: a formula without an entry is refused by name") {
  CHECK(test::message_of([] { mathml("x^{37}"); }) ==
        "formulas: \"x^{37}\" is not rendered; run scripts/make_formulas.py");
}

TEST_CASE("markup: the checker finds what it is there for") {
  CHECK(test::fault_of_markup("<p class=\"a\">x &lt; y<br></p>") == "");
  for (const char* wrong : {"<p>", "</p>", "<p><b></p></b>", "<p class=a></p>", "<p a=\"1\" a=\"2\"></p>", "a & b",
                            "a < b", "<p a=\"<\"></p>", "<p a=\"1></p>", "&nbsp;"})
    CHECK_MESSAGE(test::fault_of_markup(wrong) != "", wrong);
}
