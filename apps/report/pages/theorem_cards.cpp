#include "apps/report/pages/theorem_cards.h"

#include "apps/report/chart.h"
#include "apps/report/formulas.h"
#include "apps/report/page.h"
#include "apps/report/pages/log_strip.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace eg::report {

using permute::ClaimKind;
using permute::VerifyResult;

const char* const card_styles = R"css(
:root { --allowed: #c9ebd0; --wrong: #fbe0c4; --dot: #0a5c25; --diamond: #a34700; --chip: #eef1f4; }
@media (prefers-color-scheme: dark) { :root { --allowed: #1b4427; --wrong: #57381a; --dot: #6fe08a; --diamond: #ffb366; --chip: #21262d; } }
body { max-width: 1120px; }
h2 { font-size: 1.35rem; } h3 { font-size: 1.02rem; margin: 0; font-weight: 600; }
.tally { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0; }
.tally div { background: var(--band); border: 1px solid var(--line); border-radius: 8px; padding: .6rem 1.1rem; }
.tally b { display: block; font-size: 1.7rem; line-height: 1.2; } .tally .pass b { color: var(--good); } .tally .fail b { color: var(--bad); }
.chips { line-height: 2.1; font-size: .82rem; } .chips a { background: var(--chip); color: var(--ink); border-radius: 5px; padding: .15rem .45rem; text-decoration: none; display: inline-block; max-width: 100%; box-sizing: border-box; line-height: 1.5; }
.chips a:hover, .chips a:focus { outline: 2px solid var(--soft); } .chips a.fail { background: var(--bad); color: #fff; }
.card { border: 1px solid var(--line); border-left: 4px solid var(--good); border-radius: 8px; padding: .8rem 1rem; margin: .9rem 0; break-inside: avoid; display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: .2rem 1.6rem; }
.card.fail { border-left-color: var(--bad); } .card header { grid-column: 1 / -1; display: flex; flex-wrap: wrap; gap: .6rem; align-items: baseline; }
.card code { font-size: .95rem; background: var(--chip); border-radius: 5px; padding: .1rem .4rem; } .card p { margin: .35rem 0; }
.badge { font-size: .75rem; color: var(--soft); border: 1px solid var(--line); border-radius: 9px; padding: 0 .5rem; } .badge.pass { color: var(--good); border-color: var(--good); } .badge.fail { color: #fff; background: var(--bad); }
.formula { overflow-x: auto; overflow-y: hidden; padding: .5rem 0; font-size: 1.12rem; display: flex; flex-wrap: wrap; gap: .5rem 1.4rem; justify-content: center; } .formula math { width: auto; } math { font-family: "STIX Two Math", "Latin Modern Math", "Cambria Math", "DejaVu Math TeX Gyre", math, serif; }
.card .scroll { margin: 0; } .card table { font-size: .8rem; } .card td, .card th { padding: .15rem .45rem; white-space: nowrap; } .card td { font-variant-numeric: tabular-nums; }
svg.strip { min-width: 0; } svg .allowed { fill: var(--allowed); } svg .wrong { fill: var(--wrong); }
svg .error { fill: var(--dot); stroke: var(--dot); stroke-width: 1.5; } svg .control { fill: var(--diamond); stroke: var(--diamond); stroke-width: 1.5; } svg .off { fill: var(--paper); stroke: var(--bad); stroke-width: 2.5; }
svg .box { fill: var(--band); stroke: var(--line); } svg .fixed { stroke: var(--soft); stroke-width: 2; stroke-dasharray: 4 4; } svg .name { font-size: 11px; font-weight: 600; }
svg.axes { min-width: 560px; } sub, sup { font-size: .75em; line-height: 0; }
.small { color: var(--soft); font-size: .83rem; } .legend { max-width: 520px; }
@media (max-width: 760px) { .card { grid-template-columns: minmax(0, 1fr); } }
@media print { body { max-width: none; margin: 0; font-size: 11pt; } .chips a, .card, .tally div, svg rect, svg circle, svg path { print-color-adjust: exact; -webkit-print-color-adjust: exact; } h2, h3 { break-after: avoid; } figure { break-inside: avoid; } }
)css";

namespace {

struct Paper {
  std::string_view key, short_name, title;
};

constexpr std::array papers = {
    Paper{"CVPR", "CVPR 2024", "Permutation Equivariance of Transformers and Its Applications (CVPR 2024)"},
    Paper{"001", "001", "Shuffled Transformers for Blind Training"},
    Paper{"002", "002", "A note on permutation invariance and position embeddings"},
    Paper{"003", "003", "A note on the invariances of attention"},
    Paper{"004", "004", "Secure Transformer Inference (STIP)"},
    Paper{"", "new", "Laws that are in none of the papers"},
};

const Paper& paper_of(const VerifyResult& result) {
  const auto found = std::find_if(papers.begin(), papers.end(), [&](const Paper& p) { return p.key == result.paper; });
  return found == papers.end() ? papers.back() : *found;
}

/// No row has such an id.
std::string anchor_of(const Paper& paper) { return fmt::format("paper-{}", paper.key.empty() ? "none" : paper.key); }

/// Results of one row, by dtype.
using Row = std::vector<VerifyResult>;

std::vector<Row> by_id(const std::vector<VerifyResult>& results) {
  std::vector<Row> rows;
  for (const VerifyResult& r : results) {
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.front().id == r.id; });
    if (found == rows.end())
      rows.push_back({r});
    else
      found->push_back(r);
  }
  return rows;
}

bool passes(const Row& row) {
  return std::none_of(row.begin(), row.end(), [](const VerifyResult& r) { return r.failed(); });
}

/// "pass", "fail", or "skip" where no number type could be measured at these sizes.
const char* mark(const Row& row) {
  const bool skipped = std::none_of(row.begin(), row.end(), [](const VerifyResult& r) { return r.skipped.empty(); });
  return skipped ? "skip" : passes(row) ? "pass" : "fail";
}

/// Some digits to read, all of them for programs.
std::string number(double value, int digits = 2) {
  const std::string full = std::isfinite(value) ? fmt::format("{}", value) : "";
  return fmt::format(R"(<data value="{}">{}</data>)", full, value == 0 ? "0" : fmt::format("{:.{}e}", value, digits));
}

/// Escaped, with the indices and powers of plain text as such: P_R, W^T, P^-1.
std::string with_indices(const std::string& text) {
  const auto plain = [&](std::size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i]));
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool script = (text[i] == '_' || text[i] == '^') && i > 0 && (plain(i - 1) || text[i - 1] == '>');
    const std::size_t first = i + 1 < text.size() && text[i + 1] == '-' ? i + 2 : i + 1;
    if (!script || !plain(first) || plain(first + 1) || (i > 1 && plain(i - 2) && text[i] == '_')) {
      out += escape(std::string(1, text[i]));
      continue;
    }
    const char* tag = text[i] == '_' ? "sub" : "sup";
    out += fmt::format("<{0}>{1}{2}</{0}>", tag, first == i + 2 ? "−" : "", text[first]);
    i = first;
  }
  return out;
}

std::string bits(const VerifyResult& r) {
  std::string text = fmt::format("{} of {}", r.differing, r.compared);
  if (r.differing_exact) text += fmt::format("; exact: {}", *r.differing_exact);
  return text;
}

std::string numbers(const Row& row) {
  std::string out = "<table><thead><tr><th></th><th>error</th><th>tolerance</th><th>control</th>"
                    "<th>must exceed</th><th>other bits</th></tr></thead><tbody>";
  for (const VerifyResult& r : row)
    if (r.skipped.empty())
      out +=
          fmt::format("<tr class=\"measured\"><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                      name_of(r.dtype), number(r.error), number(r.tolerance, 0), number(r.control.error),
                      number(r.control.must_exceed, 0), bits(r));
  return scrolling("numbers of " + row.front().id, out + "</tbody></table>");
}

std::string strip(const Row& row) {
  std::vector<Measured> lines;
  for (const VerifyResult& r : row)
    if (r.skipped.empty())
      lines.push_back({std::string(name_of(r.dtype)), r.error, r.tolerance, r.control.error, r.control.must_exceed});
  return log_strip(lines);
}

std::string details(const Row& row) {
  std::string out;
  const std::string& control = row.front().control.what;
  if (!control.empty()) out += fmt::format("<p class=\"small\">Control: {}.</p>", with_indices(control));
  for (const VerifyResult& r : row)
    if (!r.skipped.empty())
      out += fmt::format("<p class=\"small\">{} was not measured: {}.</p>", name_of(r.dtype), escape(r.skipped));
    else if (!r.pass && !r.detail.empty())
      out += fmt::format("<p class=\"small\">{}: {}</p>", name_of(r.dtype), escape(r.detail));
  return out;
}

std::string source(const VerifyResult& r) {
  if (r.equation.empty()) return std::string(paper_of(r).short_name);
  const bool several = r.equation.find_first_of("-,") != std::string::npos;
  return fmt::format("{}, {} {}", paper_of(r).short_name, several ? "equations" : "equation", r.equation);
}

std::string card(const Row& row) {
  const VerifyResult& first = row.front();
  const std::vector<permute::Identity>& all = permute::catalogue();
  const auto identity =
      std::find_if(all.begin(), all.end(), [&](const permute::Identity& i) { return i.id == first.id; });
  std::string out = fmt::format(
      "<article class=\"card {0}\" id=\"{1}\"><header><code>{1}</code><h3>{2}</h3><span class=\"badge\">{3}</span>"
      "<span class=\"badge\">{4}</span><span class=\"badge {0}\">{0}</span></header><div>",
      mark(row), escape(first.id), with_indices(first.title), name_of(first.kind), escape(source(first)));
  if (identity != all.end())
    out += fmt::format("<p class=\"statement\">{}</p><div class=\"formula\" role=\"region\" tabindex=\"0\" "
                       "aria-label=\"formula of {}\">{}</div>",
                       with_indices(identity->statement), escape(first.id), mathml(identity->tex));
  return out + details(row) + "</div><div>" + strip(row) + numbers(row) + "</div></article>\n";
}

std::string tally(const std::vector<VerifyResult>& results, const std::vector<Row>& rows) {
  const auto passed = std::count_if(results.begin(), results.end(), [](const VerifyResult& r) { return r.pass; });
  const auto failed = std::count_if(results.begin(), results.end(), [](const VerifyResult& r) { return r.failed(); });
  const auto skipped = static_cast<std::ptrdiff_t>(results.size()) - passed - failed;
  const std::string rest = skipped == 0 ? "" : fmt::format("<div><b>{}</b>need other sizes</div>", skipped);
  return fmt::format("<div class=\"tally\"><div><b>{}</b>{}</div><div class=\"pass\"><b>{}</b>measurements pass</div>"
                     "<div class=\"{}\"><b>{}</b>fail</div>{}</div>\n",
                     rows.size(), rows.size() == 1 ? "row" : "rows", passed, failed == 0 ? "" : "fail", failed, rest);
}

std::string failures(const std::vector<Row>& rows) {
  std::string out;
  for (const Row& row : rows)
    if (!passes(row)) out += fmt::format(" <a class=\"fail\" href=\"#{0}\">{0}</a>", escape(row.front().id));
  return out.empty() ? "" : "<p class=\"chips\">These do not hold as they must:" + out + "</p>\n";
}

constexpr std::array kinds = {ClaimKind::identity, ClaimKind::erratum, ClaimKind::counterexample, ClaimKind::law};

std::string counts(const std::vector<Row>& rows) {
  std::string out = "<table class=\"counts\"><thead><tr><th>rows of</th>";
  for (const ClaimKind kind : kinds) out += fmt::format("<th>{}</th>", name_of(kind));
  out += "<th>pass</th><th>fail</th></tr></thead><tbody>";
  for (const Paper& paper : papers) {
    std::map<ClaimKind, int> of_kind;
    int passed = 0, total = 0;
    for (const Row& row : rows) {
      if (&paper_of(row.front()) != &paper) continue;
      ++of_kind[row.front().kind];
      passed += passes(row) ? 1 : 0;
      ++total;
    }
    if (total == 0) continue;
    out += fmt::format("<tr><td>{}</td>", escape(std::string(paper.title)));
    for (const ClaimKind kind : kinds) out += fmt::format("<td>{}</td>", of_kind[kind]);
    out += fmt::format("<td>{}</td><td>{}</td></tr>\n", passed, total - passed);
  }
  return scrolling("rows by paper", out + "</tbody></table>");
}

} // namespace

std::string summary(const std::vector<VerifyResult>& results) {
  const std::vector<Row> rows = by_id(results);
  return tally(results, rows) + failures(rows) + counts(rows);
}

std::string paper_links(const std::vector<VerifyResult>& results) {
  std::string out;
  for (const Paper& paper : papers)
    if (std::any_of(results.begin(), results.end(), [&](const VerifyResult& r) { return &paper_of(r) == &paper; }))
      out += fmt::format("<a href=\"#{}\">{}</a> ", anchor_of(paper), escape(std::string(paper.title)));
  return out;
}

std::string cards(const std::vector<VerifyResult>& results) {
  const std::vector<Row> rows = by_id(results);
  std::string out;
  for (const Paper& paper : papers) {
    std::string chips, body;
    for (const Row& row : rows) {
      if (&paper_of(row.front()) != &paper) continue;
      chips += fmt::format("<a class=\"{1}\" href=\"#{0}\">{0}</a> ", escape(row.front().id), mark(row));
      body += card(row);
    }
    if (body.empty()) continue;
    out += fmt::format("<h2 id=\"{}\">{}</h2>\n<p class=\"chips\">{}</p>\n{}", anchor_of(paper),
                       escape(std::string(paper.title)), chips, body);
  }
  return out;
}

} // namespace eg::report
