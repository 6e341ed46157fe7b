#pragma once
// The Criteo sample as tensors.

#include "core/tensor.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace eg::test {

/// The file's rows: click or not, 13 numbers (NaN where empty), 26 categories ("" where empty).
struct Criteo {
  std::vector<int> labels;
  std::vector<std::array<double, 13>> numbers;
  std::vector<std::array<std::string, 26>> categories;
};

/// data_dir()/criteo/criteo_sample.txt; notes a skip of `test` where there is none.
std::optional<Criteo> criteo_or_skip(const std::string& test);

struct CriteoRows {
  Tensor ids;    ///< [rows, 26] i64; 0 for categories that the training rows show less than five times
  Tensor values; ///< [rows, 13] f32: log(1 + x), 0 for x < 0 and where there is none, standardised by the training rows
  Tensor labels; ///< [rows] f32
};
struct CriteoSplit {
  std::vector<std::int64_t> vocabularies;
  CriteoRows train, held_out;
};
/// Every `folds`-th row from `fold` on is held out; vocabularies are those of the training rows.
CriteoSplit split_criteo(const Criteo& table, int fold, int folds);

} // namespace eg::test
