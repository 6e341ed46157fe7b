#pragma once
// Selects the tokens of a text that a masked language model has to guess.

#include "core/base/function_ref.h"
#include "core/random.h"
#include "core/tensor.h"
#include "data/text/tokenizer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace eg::training {

/// Windows with tokens to guess: ids [B, T]; places [B k] in them, flattened, and what stood there.
struct MaskedBatch {
  Tensor ids, places, wanted;
};

/// Draws what is masked: of ten tokens to guess 8 become [MASK], one a token drawn from the vocabulary, one stays
/// (Devlin et al., NAACL 2019).
class Masker {
public:
  /// `share`: of the tokens of a window. Throws ValueError for a tokenizer without [MASK], [CLS], [SEP] or ordinary
  /// tokens.
  Masker(const data::Tokenizer& tokenizer, double share);

  /// Tokens to guess in a window of so many.
  std::int64_t count(std::int64_t tokens) const {
    return std::max<std::int64_t>(1, std::llround(share_ * static_cast<double>(tokens)));
  }

  /// `tokens` [B, N] between [CLS] and [SEP]; row i is masked by random(i).
  MaskedBatch operator()(const Tensor& tokens, FunctionRef<RandomStream(std::int64_t)> random) const;
  std::int64_t mask_id() const { return mask_; }

private:
  std::vector<std::int64_t> chosen(std::int64_t tokens, RandomStream& stream) const;

  std::int64_t mask_, begin_, end_;
  std::vector<std::int64_t> words_;
  double share_;
};

} // namespace eg::training
