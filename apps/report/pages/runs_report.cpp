#include "apps/report/pages/runs_report.h"

#include "apps/report/pages/curves.h"
#include "core/base/error.h"
#include "training/language/dropout_note.h"

#include <fmt/format.h>

namespace eg::pages {
namespace {

/// Throws Error where there is nothing to show.
void add_figures(report::Page& page, const RunFolder& run, const FigureOptions& o) {
  if (run.model == "vit" || run.model == "deit") return add_vit_figures(page, run, o);
  if (run.model == "bert" && run.options.value("task", "") == "mlm") return add_masked_figures(page, run, o);
  if (run.model == "bert") return add_classifier_figures(page, run, o);
  if (run.model == "difm") return add_table_figures(page, run, o);
  if (run.model == "gpt2" || run.model == "llama") return add_language_figures(page, run, o);
  throw ValueError(fmt::format("{}: there are no figures for models of kind '{}'", run.path, run.model));
}

std::string title_of(const std::vector<RunFolder>& runs) {
  if (runs.size() == 1) return "equigrad: the run " + runs.front().name;
  return fmt::format("equigrad: {} runs side by side", runs.size());
}

/// Why runs that are permuted do not follow those that are not.
void add_dropout_notes(report::Page& page, const std::vector<RunFolder>& runs) {
  for (const RunFolder& run : runs)
    if (const std::string note = training::dropout_note(run.options); !note.empty())
      page.paragraph(fmt::format("{}: {}.", run.name, note));
}

} // namespace

RunsReport runs_report(const std::vector<RunFolder>& runs, const FigureOptions& o) {
  RunsReport out{.page = report::Page(title_of(runs)), .notes = {}};
  out.page.heading("Numbers");
  add_numbers(out.page, runs);
  for (const RunFolder& run : runs) {
    if (run.note.empty()) continue;
    out.notes.push_back(run.note);
    out.page.paragraph(run.note);
  }
  out.page.heading("Curves");
  add_curves(out.page, runs);
  add_dropout_notes(out.page, runs);
  out.page.heading("Options");
  add_options(out.page, runs);
  for (const RunFolder& run : runs) {
    out.page.heading("What the model does: " + run.name);
    try {
      add_figures(out.page, run, o);
    } catch (const Interrupted&) {
      throw;
    } catch (const Error& e) { // a run without its data or its model still has its curves
      out.notes.push_back(fmt::format("no figures of the model of {}: {}", run.path, e.what()));
      out.page.paragraph(fmt::format("Nothing can be shown: {}", e.what()));
    }
  }
  return out;
}

} // namespace eg::pages
