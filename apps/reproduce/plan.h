#pragma once
// Reads an experiment's parameters: a file of examples/papers/ at one scale.

#include "training/vit_trainer.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace eg::reproduce {

/// One scale of an experiment's file:
/// {"id": ID, "scales": {"small": {"seeds": 3, "train": {options of `train vit`}, "numbers": {...}, "words": {...},
///                                   "celeba": {options of `train vit` that are others for the columns on CelebA},
///                                   "texts": {"gpt2": {options of `train gpt2`}}}}}
struct Plan {
  std::string id = {}, scale = {}, source = {}; ///< source: the file, for errors
  std::vector<std::uint64_t> seeds = {};
  training::VitOptions train = {};
  std::optional<training::VitOptions> celeba = {}; ///< `train` with the changes for the paper's CelebA columns
  std::map<std::string, double> numbers = {};
  std::map<std::string, std::string> words = {};
  std::map<std::string, std::string> texts = {}; ///< options of `train bert` and `train gpt2` as JSON, by model

  /// Throws FileError that names the file when a key is missing.
  double number(const std::string& name) const;
  /// The same that must be whole. Throws FileError.
  std::int64_t count(const std::string& name) const;
  const std::string& word(const std::string& name) const;
  const std::string& text(const std::string& model) const;
  /// `train` is on CelebA.
  bool on_celeba() const { return train.data == "celeba"; }
};

/// Ids of the files that are built in.
std::vector<std::string> plan_ids();
/// A built-in file's text. Throws ValueError with the nearest id.
std::string plan_text(const std::string& id);
/// Reads one scale. Throws FileError for what is missing, unknown or of another kind; `first_seed` is that of the first
/// run.
Plan parse_plan(const std::string& text, const std::string& source, const std::string& scale, std::uint64_t first_seed);

} // namespace eg::reproduce
