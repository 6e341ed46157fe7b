#include "apps/reproduce/outcome_record.h"

#include "apps/report/image_record.h"

#include <nlohmann/json.hpp>

namespace eg::reproduce {
namespace {

using nlohmann::json;

json record_of(const report::Chart& chart) {
  json series = json::array();
  for (const report::Series& s : chart.series)
    series.push_back(json::array({s.name, s.x, s.y, s.dashed, s.width, s.color, s.faint, s.dots}));
  return json::array({chart.title, chart.x_label, chart.y_label, series, chart.log_y});
}

report::Chart chart_of(const json& record) {
  report::Chart chart{.title = record.at(0).get<std::string>(),
                      .x_label = record.at(1).get<std::string>(),
                      .y_label = record.at(2).get<std::string>(),
                      .log_y = record.at(4).get<bool>()};
  for (const json& s : record.at(3))
    chart.series.push_back({.name = s.at(0).get<std::string>(),
                            .x = s.at(1).get<std::vector<double>>(),
                            .y = s.at(2).get<std::vector<double>>(),
                            .dashed = s.at(3).get<bool>(),
                            .width = s.at(4).get<double>(),
                            .color = s.at(5).get<int>(),
                            .faint = s.at(6).get<bool>(),
                            .dots = s.at(7).get<bool>()});
  return chart;
}

} // namespace

json to_record(const Outcome& o) {
  json lines = json::array(), claims = json::array(), graphs = json::array(), pictures = json::array();
  for (const Line& l : o.lines)
    lines.push_back(json::array({l.what, l.paper, l.ours, l.unit, l.decimals, static_cast<int>(l.kind)}));
  for (const Claim& c : o.claims)
    claims.push_back(json::array({c.what, c.value, c.bound, static_cast<int>(c.sense), c.because}));
  for (const Graph& g : o.graphs) graphs.push_back(json::array({record_of(g.chart), g.caption}));
  for (const Picture& p : o.pictures) pictures.push_back(json::array({report::image_record(p.image), p.caption}));
  return json::array(
      {o.id, o.title, o.place, o.scale, o.setting, lines, claims, o.remarks, o.doubts, graphs, pictures, o.seconds});
}

Outcome outcome_of_record(const json& record) {
  Outcome o;
  std::size_t at = 0;
  for (std::string* text : {&o.id, &o.title, &o.place, &o.scale, &o.setting}) record.at(at++).get_to(*text);
  for (const json& l : record.at(at++))
    o.lines.push_back({.what = l.at(0).get<std::string>(),
                       .paper = l.at(1).get<std::string>(),
                       .ours = l.at(2).get<std::vector<double>>(),
                       .unit = l.at(3).get<std::string>(),
                       .decimals = l.at(4).get<int>(),
                       .kind = static_cast<Kind>(l.at(5).get<int>())});
  for (const json& c : record.at(at++))
    o.claims.push_back({.what = c.at(0).get<std::string>(),
                        .value = c.at(1).get<double>(),
                        .bound = c.at(2).get<double>(),
                        .sense = static_cast<Claim::Sense>(c.at(3).get<int>()),
                        .because = c.at(4).get<std::string>()});
  record.at(at++).get_to(o.remarks);
  record.at(at++).get_to(o.doubts);
  for (const json& g : record.at(at++)) o.graphs.push_back({chart_of(g.at(0)), g.at(1).get<std::string>()});
  for (const json& p : record.at(at++))
    o.pictures.push_back({report::image_of_record(p.at(0)), p.at(1).get<std::string>()});
  record.at(at++).get_to(o.seconds);
  return o;
}

} // namespace eg::reproduce
