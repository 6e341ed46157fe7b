#pragma once
// Stores labelled texts as token ids, packed, and makes batches of them.

#include "core/base/interrupt.h"
#include "core/tensor.h"
#include "data/text/labelled_texts.h"
#include "data/text/tokenizer.h"

#include <cstdint>
#include <span>
#include <vector>

namespace eg::training {

/// A batch: ids, types and mask [B, T] i64, T being its longest text; labels [B] i64.
struct TextBatch {
  Tensor ids, types, mask, labels;
};

/// Token ids of texts, with the tokenizer's template around them, cut to `context` tokens.
class EncodedTexts {
public:
  /// Throws ValueError for a text that cannot be encoded (which one), Interrupted.
  EncodedTexts(const data::LabelledTexts& texts, const data::Tokenizer& tokenizer, std::int64_t context, StopFlag stop);

  std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
  std::int64_t length(std::int64_t i) const;
  /// The texts at `places`, filled up with `padding`.
  TextBatch batch(std::span<const std::int64_t> places, std::int64_t padding) const;
  /// Everything as one row of numbers, for a fingerprint.
  std::vector<std::int32_t> flat() const;

private:
  std::vector<std::int32_t> ids_;
  std::vector<std::uint8_t> types_;
  std::vector<std::size_t> begins_{0}; ///< of every text, and the end
  std::vector<std::int32_t> labels_;
};

} // namespace eg::training
