#pragma once
// Draws many programs, checks the claims of each, and says what came out.

#include "fuzz/inference/brute_force.h"
#include "fuzz/inference/claims.h"
#include "fuzz/inference/random_program.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace eg::fuzz {

/// Why brute force may find more than there is to infer; empty: no reason. By chance, or since extents are small:
///   - a step gives an axis of extent 1, along which softmax and norms are constant and products only scale;
///   - softmax, a norm, an extremum or an order along an axis of at most 2: it leaves a sign, or one number;
///   - an axis of extent 2 that is flipped, rolled or picked from: all permutations of two places commute;
///   - a step reads a leaf and does not depend on it: x - x, the sum of a softmax, the variance beside an offset.
std::string degenerate_reason(const Program& program);

struct SurveyOptions {
  std::uint64_t seed = 1;
  std::int64_t first = 0, programs = 1000; ///< numbers of the programs
  bool brute_force = false;                ///< also count all permutations
  std::int64_t brute_forced_at_most = -1;  ///< stop there; -1: never
  bool shrink = true;                      ///< counterexamples, and programs of which something was missed
  ProgramLimits limits = {};
  BruteForceOptions brute = {};
  CheckOptions check = {};
  /// Called after each program; false stops the survey.
  std::function<bool(const struct Survey&)> go_on = {};
};

/// How many programs were compared with brute force, and how it ended.
struct WholeGroups {
  std::int64_t whole = 0, smaller = 0;
  /// Not compared: elements that were tried and hold move an output as no permutations of its axes do (each block in
  /// its own way), so brute force cannot see them.
  std::int64_t beyond = 0;
  std::int64_t compared() const { return whole + smaller; }
  /// Of what was compared; 0 of nothing.
  double share() const;
};

/// A program of which brute force found more than was inferred.
struct Missed {
  std::uint64_t number = 0;
  std::string program;     ///< shrunk
  std::string operations;  ///< of the shrunk program: "linear, softmax"
  std::string because;     ///< what the inference says of the axes that it fixed
  bool degenerate = false; ///< the shrunk program is
  std::int64_t inferred = 0, found = 0;
};

struct Survey {
  std::int64_t programs = 0, elements = 0, with_elements = 0, with_gradients = 0;
  std::map<Finding, std::int64_t> findings;
  double largest_error = 0.0;               ///< of sound ones
  WholeGroups all, plain;                   ///< plain: not degenerate
  std::vector<std::string> counterexamples; ///< unsound, thrown: shrunk, with seed and number
  std::vector<Missed> missed;
  RowUses rows;
};

Survey survey(const SurveyOptions& options);
/// One program of a survey.
Program program_of(const SurveyOptions& options, std::int64_t number, RowUses* uses = nullptr);

/// Counts in a few lines.
std::string summary_of(const Survey& survey);
/// What was missed by cause, a Markdown table, most frequent first.
std::string causes_of(const Survey& survey);

} // namespace eg::fuzz
