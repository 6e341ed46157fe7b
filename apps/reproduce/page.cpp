#include "apps/reproduce/page.h"

#include <fmt/format.h>

namespace eg::reproduce {
namespace {

void add_lines(report::Page& page, const Outcome& o) {
  std::vector<std::vector<std::string>> rows;
  for (const Line& line : o.lines) {
    std::vector<std::string> each;
    for (const double value : line.ours) each.push_back(fmt::format("{:.{}f}", value, line.decimals));
    rows.push_back({line.what, line.paper.empty() ? "-" : line.paper, text_of(line),
                    fmt::format("{}", fmt::join(each, ", ")), name_of(line.kind)});
  }
  page.table({"", "paper", "ours", "each seed", "kind"}, rows);
}

void add_claims(report::Page& page, const Outcome& o) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> marks;
  for (const Claim& claim : o.claims) {
    rows.push_back({claim.what, fmt::format("{:.3g}", claim.value), bound_text(claim), claim.because,
                    claim.holds() ? "pass" : "fail"});
    marks.emplace_back(claim.holds() ? "pass" : "fail");
  }
  if (!rows.empty()) page.table({"what must hold", "measured", "bound", "because", ""}, rows, marks);
}

} // namespace

report::Page page_of(const std::vector<Outcome>& outcomes) {
  report::Page page("equigrad: the papers' tables again");
  page.paragraph(
      "exact: equal by theorem, and measured as such; statistical: another draw gives another number; count: "
      "derived. Permutation is obfuscation, not encryption.");
  for (const Outcome& o : outcomes) {
    page.heading(fmt::format("{}: {}", o.id, o.title), o.id);
    page.paragraph(fmt::format("{}. {}. Scale {}; {:.0f} s.", o.place, o.setting, o.scale, o.seconds));
    add_lines(page, o);
    add_claims(page, o);
    for (const auto& [chart, caption] : o.graphs) page.chart(chart, caption);
    std::vector<report::Page::Figure> figures;
    for (const Picture& picture : o.pictures) figures.push_back({picture.image, picture.caption});
    if (!figures.empty()) page.figures(figures, 256);
    for (const std::string& remark : o.remarks) page.paragraph(remark);
    for (const std::string& doubt : o.doubts) page.paragraph("Doubtful in the paper: " + doubt);
  }
  return page;
}

} // namespace eg::reproduce
