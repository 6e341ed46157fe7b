#pragma once
// Splits a running text, as tokens, into a training and a test part, and cuts windows from it.

#include "core/base/function_ref.h"
#include "core/base/interrupt.h"
#include "core/random.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "training/checkpoint_state.h"
#include "training/language/text_files.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eg::training {

struct Corpus {
  std::string name, test_name; ///< files
  KeptTokenizer tokenizer;
  std::vector<std::int32_t> train, test;
};

/// Where a corpus comes from.
struct CorpusSource {
  std::string data, data_dir; ///< data::find_text
  std::string validation;     ///< another text to test on; empty: the last `held_out` of the text
  double held_out = 0.1;
};

/// Reads the text and cuts it into tokens; `tokenizer_for` gives the tokenizer, from the training part. Throws
/// ValueError for an empty text, FileError, Interrupted.
Corpus read_corpus(const CorpusSource& source,
                   FunctionRef<KeptTokenizer(std::string_view train, const std::string& name)> tokenizer_for,
                   StopFlag stop);

/// What checkpoints remember of it.
DataFingerprint fingerprint_of(const Corpus& corpus);

/// Throws ValueError unless there are more than `window` tokens to learn from and two to test on.
void require_enough(const Corpus& corpus, std::int64_t window);

/// Places for `count` windows of `length` tokens, each drawn uniformly.
std::vector<std::size_t> draw_windows(const std::vector<std::int32_t>& ids, std::int64_t length, std::int64_t count,
                                      RandomStream& random);

/// Tokens [start + shift, start + shift + length) of every start, i64 [B, length].
Tensor windows(const std::vector<std::int32_t>& ids, std::span<const std::size_t> starts, std::int64_t shift,
               std::int64_t length);

} // namespace eg::training
