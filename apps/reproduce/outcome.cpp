#include "apps/reproduce/outcome.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace eg::reproduce {
const char* name_of(Kind kind) {
  switch (kind) {
  case Kind::exact:
    return "exact";
  case Kind::statistical:
    return "statistical";
  case Kind::count:
    return "count";
  }
  return "?";
}

double Line::mean() const {
  return ours.empty() ? 0.0 : std::accumulate(ours.begin(), ours.end(), 0.0) / static_cast<double>(ours.size());
}

double Line::standard_deviation() const {
  if (ours.size() < 2) return 0.0;
  const double middle = mean();
  double squares = 0.0;
  for (const double x : ours) squares += (x - middle) * (x - middle);
  return std::sqrt(squares / static_cast<double>(ours.size() - 1));
}

std::string text_of(const Line& line) {
  if (line.ours.empty()) return "-";
  const std::string mean = fmt::format("{:.{}f}", line.mean(), line.decimals);
  if (line.ours.size() < 2) return fmt::format("{} {}", mean, line.unit);
  return fmt::format("{} +- {:.{}f} {}", mean, line.standard_deviation(), line.decimals, line.unit);
}

std::string bound_text(const Claim& claim) {
  if (claim.sense == Claim::Sense::at_most && claim.bound == 0.0) return "must be 0";
  return fmt::format("{} {:.3g}", claim.sense == Claim::Sense::at_most ? "at most" : "at least", claim.bound);
}

double worse(double a, double b) { return std::isnan(a) || a > b ? a : b; }

bool Outcome::holds() const {
  return std::all_of(claims.begin(), claims.end(), [](const Claim& claim) { return claim.holds(); });
}

namespace {
nlohmann::ordered_json graphs_json(const std::vector<Graph>& graphs) {
  auto json = nlohmann::ordered_json::array();
  for (const auto& [chart, caption] : graphs) {
    auto lines = nlohmann::ordered_json::array();
    for (const report::Series& line : chart.series)
      lines.push_back({{"name", line.name}, {"x", line.x}, {"y", line.y}});
    json.push_back({{"title", chart.title}, {"x", chart.x_label}, {"y", chart.y_label}, {"lines", lines}});
  }
  return json;
}
} // namespace

nlohmann::ordered_json to_json(const Outcome& o) {
  nlohmann::ordered_json json{{"id", o.id},           {"title", o.title},     {"place", o.place},
                              {"scale", o.scale},     {"setting", o.setting}, {"status", o.holds() ? "pass" : "fail"},
                              {"seconds", o.seconds}, {"remarks", o.remarks}, {"doubts", o.doubts}};
  json["lines"] = nlohmann::ordered_json::array();
  for (const Line& line : o.lines)
    json["lines"].push_back({{"what", line.what},
                             {"paper", line.paper},
                             {"ours", line.ours},
                             {"mean", line.mean()},
                             {"standard_deviation", line.standard_deviation()},
                             {"unit", line.unit},
                             {"kind", name_of(line.kind)}});
  json["claims"] = nlohmann::ordered_json::array();
  for (const Claim& claim : o.claims)
    json["claims"].push_back({{"what", claim.what},
                              {"value", claim.value},
                              {claim.sense == Claim::Sense::at_most ? "at_most" : "at_least", claim.bound},
                              {"because", claim.because},
                              {"status", claim.holds() ? "pass" : "fail"}});
  json["graphs"] = graphs_json(o.graphs);
  return json;
}

std::string text_of(const Outcome& o) {
  std::size_t width = 4;
  for (const Line& line : o.lines) width = std::max(width, line.what.size());
  std::string text = fmt::format("{}: {} ({})\n{}\n\n", o.id, o.title, o.place, o.setting);
  text += fmt::format("{:<{}}  {:>16}  {:>22}  {}\n", "", width, "paper", "ours", "kind");
  for (const Line& line : o.lines)
    text += fmt::format("{:<{}}  {:>16}  {:>22}  {}\n", line.what, width, line.paper.empty() ? "-" : line.paper,
                        text_of(line), name_of(line.kind));
  if (!o.claims.empty()) text += "\n";
  for (const Claim& claim : o.claims)
    text += fmt::format("{}  {}: {:.3g} ({}; {})\n", claim.holds() ? "pass" : "FAIL", claim.what, claim.value,
                        bound_text(claim), claim.because);
  for (const std::string& remark : o.remarks) text += fmt::format("note: {}\n", remark);
  for (const std::string& doubt : o.doubts) text += fmt::format("doubt: {}\n", doubt);
  return text + fmt::format("{:.0f} s\n", o.seconds);
}

namespace {

/// Text for a table's cell, where | would end it.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return text;
}

} // namespace

std::string markdown_of(const Outcome& o) {
  std::string text = fmt::format("## {}: {}\n\n{}. {}. {:.0f} s.\n\n| | paper | ours | kind |\n|---|---|---|---|\n",
                                 o.id, o.title, o.place, o.setting, o.seconds);
  for (const Line& line : o.lines)
    text += fmt::format("| {} | {} | {} | {} |\n", cell(line.what), line.paper, text_of(line), name_of(line.kind));
  text += "\n";
  for (const Claim& claim : o.claims)
    text += fmt::format("- {}: {}, {:.3g} ({}; {})\n", claim.holds() ? "holds" : "**fails**", claim.what, claim.value,
                        bound_text(claim), claim.because);
  for (const std::string& remark : o.remarks) text += fmt::format("- {}\n", remark);
  for (const std::string& doubt : o.doubts) text += fmt::format("- doubtful in the paper: {}\n", doubt);
  return text + "\n";
}

std::string markdown_table(const std::vector<Outcome>& outcomes) {
  std::string text = "| id | what | paper | ours | kind | time |\n|---|---|---|---|---|---|\n";
  for (const Outcome& o : outcomes)
    for (std::size_t i = 0; i < o.lines.size(); ++i) // id and time once
      text +=
          fmt::format("| {} | {} | {} | {} | {} | {} |\n", i == 0 ? o.id : "", cell(o.lines[i].what), o.lines[i].paper,
                      text_of(o.lines[i]), name_of(o.lines[i].kind), i == 0 ? fmt::format("{:.0f} s", o.seconds) : "");
  return text + "\n";
}

} // namespace eg::reproduce
