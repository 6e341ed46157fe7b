#pragma once
// Records a reproduced table or figure, the paper's numbers beside ours. It separates what is exactly equal by theorem
// and was measured as such from what is only statistical.

#include "apps/report/chart.h"
#include "data/image.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace eg::reproduce {

/// exact: equal by theorem to the line that it is compared with; statistical: another draw gives another number; count:
/// derived, without any draw.
enum class Kind { exact, statistical, count };
/// "exact", "statistical", "count".
const char* name_of(Kind kind);

/// One number of a paper's table and ours for it.
struct Line {
  std::string what = {};
  std::string paper = {};        ///< as printed, with its unit; "" where the paper has none
  std::vector<double> ours = {}; ///< one for each seed, in `unit`
  std::string unit = "%";
  int decimals = 2;
  Kind kind = Kind::statistical;

  double mean() const;
  /// Of the seeds, with n - 1 below; 0 for one seed.
  double standard_deviation() const;
};

/// Something that must hold, exactly or within a bound, whatever was drawn.
struct Claim {
  enum class Sense { at_most, at_least };
  std::string what = {};
  double value = 0.0, bound = 0.0;
  Sense sense = Sense::at_most;
  std::string because = {}; ///< identity of docs/catalogue.md, or what the bound is

  bool holds() const { return sense == Sense::at_most ? value <= bound : value >= bound; }
};

/// The larger of two errors; NaN when either is one, so that no claim can hide it.
double worse(double a, double b);

struct Picture {
  data::Image image;
  std::string caption;
};

/// A figure of lines, such as a test's accuracy over steps.
struct Graph {
  report::Chart chart;
  std::string caption;
};

struct Outcome {
  std::string id = {}, title = {}, place = {}; ///< place: which table of which paper
  std::string scale = {}, setting = {};        ///< setting: data, model and steps in one line
  std::vector<Line> lines = {};
  std::vector<Claim> claims = {};
  std::vector<std::string> remarks = {}; ///< what our protocol leaves out or does otherwise
  std::vector<std::string> doubts = {};  ///< where the paper's own numbers are doubtful
  std::vector<Graph> graphs = {};
  std::vector<Picture> pictures = {};
  double seconds = 0.0;

  bool holds() const;
};

/// "78.4 +- 0.3 %"; "-" where we have none.
std::string text_of(const Line& line);
/// "at most 1e-10", "must be 0".
std::string bound_text(const Claim& claim);

nlohmann::ordered_json to_json(const Outcome& outcome);
/// A table, the claims and the remarks for a terminal.
std::string text_of(const Outcome& outcome);
/// The same as a section in Markdown.
std::string markdown_of(const Outcome& outcome);
/// All lines of several in one table in Markdown: id, what, the paper's number, ours with its spread, its kind, and the
/// time that the experiment took.
std::string markdown_table(const std::vector<Outcome>& outcomes);

} // namespace eg::reproduce
