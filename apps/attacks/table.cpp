#include "apps/attacks/table.h"

#include "apps/report/image_record.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eg::attacks {

using permute::BlockWeights;

const char* const not_encryption =
    "A permutation is obfuscation, not encryption: the number of keys says how many there are, not what it costs to "
    "find the right one.";

namespace {

/// The first model that the attack fits and that has the scheme; else the first that it fits; nullptr for none.
const BlockWeights* model_for(const TableRequest& request, const Attack& attack, const permute::SchemeInfo& scheme) {
  const BlockWeights* any = nullptr;
  for (const BlockWeights& model : request.models) {
    if (!fits(attack, model)) continue;
    if (permute::incompatible_because(model, scheme.columns).empty()) return &model;
    if (any == nullptr) any = &model;
  }
  return any;
}

std::string value_text(const Finding& f) {
  if (f.is_rate) return fmt::format("{:.1f} %", 100.0 * f.value);
  return fmt::format("{:.4g} {}", f.value, f.unit);
}

/// The same in a table of main rates.
std::string short_text(const Finding& f) {
  return f.is_rate ? fmt::format("{:.0f} %", 100.0 * f.value) : fmt::format("{:.3f}", f.value);
}

std::string theory_text(const Finding& f) {
  return f.theory ? fmt::format("{:.0f} %", 100.0 * *f.theory) : std::string("-");
}

std::string keys_text(const Cell& cell) {
  const bool defended = cell.protection.defence != Defence::none;
  return fmt::format("{}{}, weights {}, {} keys", cell.scheme->name, defended ? " + " + name_of(cell.protection) : "",
                     name_of(cell.base), cell.fresh ? "fresh" : "fixed");
}

/// Rows and columns of the matrix in the order of the cells.
struct Matrix {
  std::vector<std::string> rows, columns;
  std::vector<std::vector<std::string>> values;

  explicit Matrix(const std::vector<Cell>& cells) {
    for (const Cell& cell : cells) {
      add(rows, keys_text(cell));
      add(columns, cell.attack->name);
    }
    values.assign(rows.size(), std::vector<std::string>(columns.size()));
    for (const Cell& cell : cells)
      values[place(rows, keys_text(cell))][place(columns, cell.attack->name)] =
          cell.findings.list.empty() ? "-" : short_text(cell.findings.list.front());
  }

private:
  static void add(std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  static std::size_t place(const std::vector<std::string>& names, const std::string& name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  }
};

/// What is to be run, without findings.
std::vector<Cell> cells_of(const TableRequest& r) {
  std::vector<Cell> cells;
  for (const permute::SchemeInfo* scheme : r.schemes)
    for (const Protection& protection : r.protections)
      for (const Base base : r.bases)
        for (const bool fresh : r.fresh)
          for (const Attack* attack : r.attacks) {
            if (attack->learns && (base != r.bases.front() || fresh != r.fresh.front())) continue;
            cells.push_back({.attack = attack,
                             .scheme = scheme,
                             .base = base,
                             .fresh = fresh,
                             .protection = protection,
                             .model = {}});
          }
  return cells;
}

} // namespace

std::vector<Cell> run_table(const TableRequest& r) {
  std::vector<Cell> cells = cells_of(r);
  std::vector<const BlockWeights*> models;
  for (Cell& cell : cells) {
    models.push_back(model_for(r, *cell.attack, *cell.scheme));
    if (models.back() == nullptr)
      throw ValueError(fmt::format("{}: the attack is for models of {}", cell.attack->name,
                                   cell.attack->texts ? "texts" : "pictures"));
    cell.model = models.back()->name;
  }
  const auto run = [&](std::size_t i) {
    const Cell& cell = cells[i];
    Effort effort = r.effort;
    effort.on_progress = [&](double share, const std::string& what) {
      if (r.on_progress)
        r.on_progress((static_cast<double>(i) + share) / static_cast<double>(cells.size()),
                      fmt::format("{} {}{}", cell.scheme->name, cell.attack->name, what.empty() ? "" : ", " + what));
    };
    effort.on_progress(0.0, "");
    return run_attack(*cell.attack, {.model = *models[i],
                                     .scheme = *cell.scheme,
                                     .base = cell.base,
                                     .fresh = cell.fresh,
                                     .noise = r.noise,
                                     .delta = r.delta,
                                     .tokens = r.tokens,
                                     .layer = r.layer,
                                     .key = r.key,
                                     .source = r.source,
                                     .protection = cell.protection,
                                     .attack_images = r.attack_images,
                                     .effort = effort});
  };
  if (r.run_cells) {
    std::vector<Findings> findings = r.run_cells(cells, run);
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i].findings = std::move(findings.at(i));
  } else {
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i].findings = run(i);
  }
  return cells;
}

nlohmann::json to_record(const Findings& findings) {
  using nlohmann::json;
  json list = json::array(), pictures = json::array();
  for (const Finding& f : findings.list)
    list.push_back({f.what, f.value, f.is_rate, f.unit, f.theory ? json(*f.theory) : json(nullptr)});
  for (const auto& [image, caption] : findings.pictures) pictures.push_back({report::image_record(image), caption});
  return json::array({list, findings.because, findings.remarks, pictures});
}

Findings findings_from(const nlohmann::json& record) {
  Findings findings{.because = record.at(1).get<std::string>(),
                    .remarks = record.at(2).get<std::vector<std::string>>()};
  for (const nlohmann::json& f : record.at(0)) {
    findings.list.push_back({.what = f.at(0).get<std::string>(),
                             .value = f.at(1).get<double>(),
                             .is_rate = f.at(2).get<bool>(),
                             .unit = f.at(3).get<std::string>()});
    if (!f.at(4).is_null()) findings.list.back().theory = f.at(4).get<double>();
  }
  for (const nlohmann::json& p : record.at(3))
    findings.pictures.emplace_back(report::image_of_record(p.at(0)), p.at(1).get<std::string>());
  return findings;
}

std::string described(const Attack& attack) {
  return fmt::format("{} ({})\n  sees      {}\n  recovers  {}\n  cost      {}\n  source    {}\n", attack.name,
                     attack.id, attack.sees, attack.recovers, attack.cost, attack.source);
}

std::string text_of(const Cell& cell) {
  std::string text = fmt::format("{} against {} ({})\n", cell.attack->name, keys_text(cell), cell.model);
  if (cell.findings.list.empty()) return text + fmt::format("  nothing to attack: {}\n", cell.findings.because);
  for (const Finding& f : cell.findings.list)
    text += fmt::format("  {:<58} {:>16}  theory {:>6}{}\n", f.what, value_text(f), theory_text(f),
                        f.holds() ? "" : "  FAIL");
  for (const std::string& remark : cell.findings.remarks) text += fmt::format("  {}\n", remark);
  return text;
}

std::string matrix_of(const std::vector<Cell>& cells) {
  const Matrix m(cells);
  std::size_t width = 0;
  for (const std::string& row : m.rows) width = std::max(width, row.size());
  std::string text(width, ' ');
  for (const std::string& column : m.columns) text += fmt::format(" {:>10}", column);
  text += "\n";
  for (std::size_t i = 0; i < m.rows.size(); ++i) {
    text += fmt::format("{:<{}}", m.rows[i], width);
    for (const std::string& value : m.values[i]) text += fmt::format(" {:>10}", value);
    text += "\n";
  }
  return text;
}

std::string markdown_of(const std::vector<Cell>& cells) {
  const Matrix m(cells);
  std::string text = fmt::format("| | {} |\n|---|", fmt::join(m.columns, " | "));
  for (std::size_t i = 0; i < m.columns.size(); ++i) text += "---|";
  text += "\n";
  for (std::size_t i = 0; i < m.rows.size(); ++i)
    text += fmt::format("| {} | {} |\n", m.rows[i], fmt::join(m.values[i], " | "));
  return text;
}

nlohmann::ordered_json to_json(const Cell& cell) {
  nlohmann::ordered_json json{{"attack", cell.attack->name},
                              {"id", cell.attack->id},
                              {"scheme", cell.scheme->name},
                              {"base", name_of(cell.base)},
                              {"keys", cell.fresh ? "fresh" : "fixed"},
                              {"defence", name_of(cell.protection)},
                              {"model", cell.model},
                              {"status", cell.findings.list.empty() ? "nothing to attack"
                                         : cell.findings.holds()    ? "pass"
                                                                    : "fail"},
                              {"findings", nlohmann::ordered_json::array()}};
  for (const Finding& f : cell.findings.list) {
    nlohmann::ordered_json each{{"what", f.what}, {"value", f.value}, {"unit", f.is_rate ? "share" : f.unit}};
    each["theory"] = f.theory ? nlohmann::ordered_json(*f.theory) : nlohmann::ordered_json();
    json["findings"].push_back(each);
  }
  if (!cell.findings.because.empty()) json["because"] = cell.findings.because;
  json["remarks"] = cell.findings.remarks;
  return json;
}

report::Page page_of(const std::vector<Cell>& cells) {
  report::Page page("equigrad: attacks");
  page.paragraph(not_encryption);
  const Matrix m(cells);
  std::vector<std::string> header = m.columns;
  header.insert(header.begin(), "");
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < m.rows.size(); ++i) {
    rows.push_back(m.values[i]);
    rows.back().insert(rows.back().begin(), m.rows[i]);
  }
  page.heading("Main rates");
  page.table(header, rows);
  for (const Cell& cell : cells) {
    if (cell.findings.list.empty()) continue;
    page.heading(fmt::format("{} against {}", cell.attack->name, keys_text(cell)));
    page.paragraph(fmt::format("Sees {}; recovers {}. Cost: {}. {}. Model: {}.", cell.attack->sees,
                               cell.attack->recovers, cell.attack->cost, cell.attack->source, cell.model));
    std::vector<std::vector<std::string>> findings;
    for (const Finding& f : cell.findings.list)
      findings.push_back({f.what, value_text(f), theory_text(f), f.holds() ? "pass" : "fail"});
    page.table({"", "measured", "theory, at least", ""}, findings);
    std::vector<report::Page::Figure> figures;
    for (const auto& [image, caption] : cell.findings.pictures) figures.push_back({image, caption});
    if (!figures.empty()) page.figures(figures, 128);
    for (const std::string& remark : cell.findings.remarks) page.paragraph(remark);
  }
  return page;
}

} // namespace eg::attacks
