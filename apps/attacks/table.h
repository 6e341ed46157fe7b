#pragma once
// Runs attacks against schemes, and reports them as text, JSON and a page.

#include "apps/attacks/attack.h"
#include "apps/report/page.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>
#include <vector>

namespace eg::attacks {

/// One run.
struct Cell {
  const Attack* attack = nullptr;
  const permute::SchemeInfo* scheme = nullptr;
  Base base = Base::published;
  bool fresh = false;
  Protection protection = {};
  std::string model;
  Findings findings = {};
};

/// Calls `run` once for each of `cells` cells, in any order, and returns the findings in the cells' order.
using RunCells = std::function<std::vector<Findings>(const std::vector<Cell>& cells,
                                                     const std::function<Findings(std::size_t)>& run)>;

/// What is to be run: every attack under every scheme and protection for every base, with fixed or fresh keys. Attacks
/// that learn take minutes each and are run for the first base and the first kind of keys alone.
struct TableRequest {
  std::vector<permute::BlockWeights> models; ///< an attack takes the first that it fits and that has the scheme
  std::vector<const Attack*> attacks;
  std::vector<const permute::SchemeInfo*> schemes;
  std::vector<Base> bases{Base::published};
  std::vector<bool> fresh{false};
  std::vector<Protection> protections{Protection{}};
  const AttackImages* attack_images = nullptr;
  Effort effort = {}; ///< its `on_progress` is not used
  double noise = 0.3, delta = 0.05;
  std::int64_t tokens = 16, layer = -1;
  RandomKey key;
  permute::PermutationSource source;
  std::function<void(double done, const std::string& what)> on_progress = {}; ///< share of the whole; may be empty
  RunCells run_cells = {};                                                    ///< empty: here, one after another
};

/// Runs all of it. Throws ValueError for an attack that fits no model, and what run_attack throws.
std::vector<Cell> run_table(const TableRequest& request);

/// Every bit of what an attack found, pictures too, for another process.
nlohmann::json to_record(const Findings& findings);
/// Throws nlohmann::json::exception for what is no such record, ValueError for a picture whose bytes do not fill it.
Findings findings_from(const nlohmann::json& record);

/// What every text and page ends with.
extern const char* const not_encryption;

/// A line of text for each finding of a cell, and what the attack sees and costs.
std::string described(const Attack& attack);
std::string text_of(const Cell& cell);
/// Main rates: a row for each scheme, base and keys, a column for each attack; "-" where there is nothing to attack.
std::string matrix_of(const std::vector<Cell>& cells);
/// The same in Markdown.
std::string markdown_of(const std::vector<Cell>& cells);
nlohmann::ordered_json to_json(const Cell& cell);
report::Page page_of(const std::vector<Cell>& cells);

} // namespace eg::attacks
