#pragma once
// Trains split models with a defence and attacks what leaves the edge. CVPR's Table 6 and Figure 7 and Tables 4 to 6 of
// paper 001 are made of it.

#include "apps/attacks/defences.h"
#include "apps/reproduce/experiment.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace eg::reproduce {

/// One way of training.
struct Arm {
  std::string name;
  attacks::Protection protection = {};
  bool rows = false, columns = false;
  double adversary = 0.0;        ///< lambda of adversarial representation learning; 0: none
  bool private_training = false; ///< DP-SGD with the plan's dp_noise, dp_clip, dp_batch, dp_steps
  bool fixed_edge = false;       ///< F1 keeps its initial weights
};

/// Which attacks a table has.
struct Looks {
  bool black_box = true; ///< a decoder on features of test images
  bool white_box = false;
  bool training = false; ///< a decoder on features of training images in several rounds
};

/// What came out for one arm and seed.
struct Cell {
  /// "accuracy" in percent; "black.ssim", "black.psnr" (peak 1), "black.fsim"; likewise "white", "printed" (white box
  /// with an order of rows of the attacker's own draw), "training"; "linear": the largest error of a pixel by least
  /// squares, rows in their order, where nothing but permutations was done; "epsilon" of DP-SGD at delta 1 / images.
  std::map<std::string, double> numbers;
  std::vector<std::int64_t> answers;           ///< of all test images, as of Answers::classes
  std::map<std::string, data::Image> pictures; ///< strips of what an attack got back, by attack
};

/// Rows of a table: an arm and what the paper has for it, by the names of Cell::numbers.
struct DefendedRow {
  DefendedRow(Arm a, std::map<std::string, const char*> papers) : arm(std::move(a)), paper(std::move(papers)) {}
  Arm arm;
  std::map<std::string, const char*> paper;
};

/// Every arm and seed: cells that are in the work folder from the same plan are not done again. Numbers of the plan:
/// attack_steps, attack_pretraining, attack_batch, targets, judge_steps; white_steps; rounds; dp_*; adversary is the
/// arm's. Throws Interrupted.
class DefendedTable {
public:
  DefendedTable(const Plan& plan, const RunContext& work, std::vector<DefendedRow> rows, Looks looks);

  const std::vector<DefendedRow>& rows() const { return rows_; }
  /// Of a row, one for each seed.
  const std::vector<Cell>& cells(std::size_t row) const { return cells_[row]; }
  /// Lines, galleries and the setting; claims that `row` is seen as its arm without permutations, by theorem, for rows
  /// that have such a twin in the table, and that least squares see through P_C.
  void write(Outcome& outcome) const;
  /// The mean over seeds of one number.
  double mean(std::size_t row, const std::string& number) const;

private:
  void add_claims(Outcome& outcome) const;

  std::vector<DefendedRow> rows_;
  std::vector<std::vector<Cell>> cells_;
  std::vector<data::Image> originals_; ///< strips of the images that are attacked: of the tests, of training
  std::string setting_;
};

} // namespace eg::reproduce
