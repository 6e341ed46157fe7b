#include "apps/report/page.h"

#include "core/base/bytes.h"
#include "data/encode.h"

#include <fmt/format.h>

namespace eg::report {
namespace {

constexpr const char* own_style = R"css(
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d8dee4; --paper: #ffffff; --band: #f6f8fa; --good: #1a7f37; --bad: #cf222e; --link: #0550ae; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --paper: #0d1117; --band: #151b23; --good: #3fb950; --bad: #f85149; --link: #79b8ff; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1000px; margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.25; } h2 { font-size: 1.25rem; margin-top: 2.4rem; border-bottom: 1px solid var(--line); padding-bottom: .3rem; }
a { color: var(--link); } a:focus-visible, summary:focus-visible, .scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.scroll { overflow-x: auto; margin-bottom: .9rem; }
table { border-collapse: collapse; font-size: .85rem; width: 100%; }
th, td { text-align: left; padding: .3rem .55rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; } tr:nth-child(even) td { background: var(--band); }
tr.pass td:last-child { color: var(--good); font-weight: 600; } tr.fail td:last-child { color: var(--bad); font-weight: 700; }
figure { margin: 1rem 0; } figcaption { color: var(--soft); font-size: .85rem; }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .grid { stroke: var(--line); } svg .axis { stroke: var(--soft); } svg .tick { fill: var(--soft); }
svg.chart { display: block; max-width: 760px; } .chart-title { margin: 0 0 .2rem; font-weight: 600; font-size: .95rem; }
.legend-of-chart { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; font-size: .85rem; color: var(--soft); } svg.key { width: 26px; vertical-align: middle; }
@media (max-width: 620px) { svg.chart text { font-size: 19px; } svg.chart .upright { display: none; } }
.tabs > input { position: absolute; opacity: 0; } .tabs > label { display: inline-block; padding: .15rem .7rem; font-size: .85rem; color: var(--soft); border-bottom: 2px solid transparent; cursor: pointer; }
.tabs > input:checked + label { color: var(--ink); border-color: var(--ink); } .tabs > input:focus-visible + label { outline: 2px solid var(--link); } .tabs > .tab { display: none; }
.tabs > input:nth-of-type(1):checked ~ .tab:nth-of-type(1), .tabs > input:nth-of-type(2):checked ~ .tab:nth-of-type(2), .tabs > input:nth-of-type(3):checked ~ .tab:nth-of-type(3) { display: block; }
details { margin: 1rem 0; } summary { cursor: pointer; color: var(--soft); }
blockquote { margin: .6rem 0; padding: .4rem .9rem; border-left: 3px solid var(--line); background: var(--band); white-space: pre-wrap; overflow-wrap: anywhere; font-size: .9rem; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(16rem, 100%), 1fr)); gap: 0 1.5rem; margin: 0 0 1.5rem 1.5rem; } small { color: var(--soft); }
.row { display: flex; flex-wrap: wrap; gap: 0 1rem; } .row figure { margin: .4rem 0; flex: 1 1 9rem; } .row img { image-rendering: pixelated; border: 1px solid var(--line); box-sizing: border-box; width: 100%; height: auto; }
math { font-family: "STIX Two Math", "Latin Modern Math", "Cambria Math", "DejaVu Math TeX Gyre", math, serif; }
@media (prefers-reduced-motion: reduce) { * { scroll-behavior: auto; } }
)css";

std::string cells(const std::vector<std::string>& texts, const char* tag) {
  std::string out;
  for (const std::string& text : texts) out += fmt::format("<{0}>{1}</{0}>", tag, escape(text));
  return out;
}

std::string drawn(const Chart& chart) {
  const std::string title =
      chart.title.empty() ? "" : fmt::format("<p class=\"chart-title\">{}</p>", escape(chart.title));
  return title + legend(chart) + svg(chart);
}

} // namespace

std::string scrolling(const std::string& name, const std::string& html) {
  return fmt::format("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">{}</div>\n", escape(name),
                     html);
}

Page::Page(const std::string& title) : title_(title) {}

void Page::heading(const std::string& text, const std::string& anchor) {
  const std::string id = anchor.empty() ? "" : fmt::format(" id=\"{}\"", escape(anchor));
  body_ += fmt::format("<h2{}>{}</h2>\n", id, escape(text));
}

void Page::paragraph(const std::string& text) { body_ += fmt::format("<p>{}</p>\n", escape(text)); }

void Page::markup(const std::string& html) { body_ += html; }

void Page::style(const std::string& css) { style_ += css; }

void Page::table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows,
                 const std::vector<std::string>& marks) {
  std::string html = "<table>";
  if (!header.empty()) html += fmt::format("<thead><tr>{}</tr></thead>", cells(header, "th"));
  html += "<tbody>\n";
  for (std::size_t i = 0; i < rows.size(); ++i)
    html += fmt::format("<tr class=\"{}\">{}</tr>\n", i < marks.size() ? marks[i] : "", cells(rows[i], "td"));
  body_ += scrolling(header.empty() ? "table" : "table: " + header.front(), html + "</tbody></table>");
}

void Page::chart(const Chart& chart, const std::string& caption) {
  body_ += fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", drawn(chart), escape(caption));
}

void Page::charts(const std::vector<std::pair<std::string, Chart>>& tabs, const std::string& caption) {
  const int group = tab_groups_++;
  body_ += "<figure><div class=\"tabs\">";
  for (std::size_t i = 0; i < tabs.size(); ++i)
    body_ += fmt::format(R"(<input type="radio" name="tabs{0}" id="tab{0}-{1}"{2}><label for="tab{0}-{1}">{3}</label>)",
                         group, i, i == 0 ? R"( checked="checked")" : "", escape(tabs[i].first));
  for (const auto& [name, chart] : tabs) body_ += fmt::format("<div class=\"tab\">{}</div>", drawn(chart));
  body_ += fmt::format("</div><figcaption>{}</figcaption></figure>\n", escape(caption));
}

void Page::begin_details(const std::string& summary) {
  body_ += fmt::format("<details><summary>{}</summary>\n", escape(summary));
}

void Page::end_details() { body_ += "</details>\n"; }

void Page::quote(const std::string& text) { body_ += fmt::format("<blockquote>{}</blockquote>\n", escape(text)); }

void Page::side_by_side(const std::vector<std::pair<std::string, std::string>>& texts) {
  body_ += "<div class=\"columns\">";
  for (const auto& [name, text] : texts)
    body_ += fmt::format("<div><small>{}</small><blockquote>{}</blockquote></div>", escape(name), escape(text));
  body_ += "</div>\n";
}

void Page::figures(const std::vector<Figure>& figures, int width) {
  body_ += "<div class=\"row\">\n";
  for (const Figure& figure : figures)
    body_ += fmt::format("<figure style=\"max-width:{0}px\"><img width=\"{0}\" alt=\"{1}\" src=\"{2}\">"
                         "<figcaption>{1}</figcaption></figure>\n",
                         width, escape(figure.caption), data::png_data_uri(figure.image));
  body_ += "</div>\n";
}

std::string Page::html() const {
  return fmt::format("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
                     "content=\"width=device-width, initial-scale=1\"><title>{0}</title><style>{1}{2}</style></head>\n"
                     "<body><h1>{0}</h1>\n{3}</body></html>\n",
                     escape(title_), own_style, style_, body_);
}

void Page::save(const std::string& path) const { write_file(path, html()); }

} // namespace eg::report
