#include "apps/report/page.h"

#include <doctest/doctest.h>

using namespace eg::report;

namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

} // namespace

TEST_CASE("report: a logarithmic axis labels whole powers of ten, two at least") {
  const Chart within_a_decade{.series = {{.x = {1, 2, 3}, .y = {2.1e-15, 3e-15, 4.4e-15}}}, .log_y = true};
  const std::string one = svg(within_a_decade);
  CHECK(one.find(">1e-15<") != std::string::npos);
  CHECK(one.find(">1e-14<") != std::string::npos);
  CHECK(count(one, ">1e") == 2);
  const std::string power = svg({.series = {{.x = {1, 2}, .y = {1e-3, 1e-3}}}, .log_y = true});
  CHECK(count(power, ">1e") == 2);
  const std::string many = svg({.series = {{.x = {1, 2}, .y = {3e-16, 5.0}}}, .log_y = true});
  CHECK(count(many, ">1e") >= 3);
  CHECK(count(many, ">1e") <= 7);
  CHECK(many.find('.', many.find(">1e")) != many.find(">1e") + 4);
}

TEST_CASE("report: steps are labelled with whole numbers") {
  for (const std::vector<double>& steps : {std::vector<double>{1}, {1, 2, 3}, {5, 10, 15}}) {
    const std::string text = svg({.series = {{.x = steps, .y = std::vector<double>(steps.size(), 2.0)}}});
    for (std::size_t at = text.find("middle\">"); at != std::string::npos; at = text.find("middle\">", at + 1)) {
      const std::string label = text.substr(at + 8, text.find('<', at) - at - 8);
      CHECK(label.find('.') == std::string::npos);
    }
  }
}

TEST_CASE("report: a table without headings has no heading row") {
  Page page("t");
  page.table({}, {{"a", "b"}});
  CHECK(page.html().find("<th") == std::string::npos);
  page.table({"x"}, {{"a"}});
  CHECK(page.html().find("<thead><tr><th>x</th>") != std::string::npos);
}
