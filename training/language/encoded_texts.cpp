#include "training/language/encoded_texts.h"

#include "core/base/error.h"

#include <algorithm>

namespace eg::training {

EncodedTexts::EncodedTexts(const data::LabelledTexts& texts, const data::Tokenizer& tokenizer, std::int64_t context,
                           StopFlag stop)
    : labels_(texts.labels) {
  constexpr std::size_t some = 512; // encodings are large: ids alone are kept
  data::EncodeOptions options;
  options.truncation = data::Truncation{.max_length = static_cast<std::size_t>(context)};
  for (std::size_t first = 0; first < texts.texts.size(); first += some) {
    if (stop != nullptr && stop->load()) throw Interrupted("interrupted while texts were cut into tokens");
    std::vector<data::TextInput> inputs;
    for (std::size_t i = first; i < std::min(first + some, texts.texts.size()); ++i)
      if (texts.pairs.empty())
        inputs.emplace_back(texts.texts[i]);
      else
        inputs.emplace_back(texts.texts[i], texts.pairs[i]);
    for (const data::Encoding& e : tokenizer.encode_batch(inputs, options)) {
      for (const std::int64_t id : e.ids) ids_.push_back(static_cast<std::int32_t>(id));
      for (const std::int64_t type : e.type_ids) types_.push_back(static_cast<std::uint8_t>(type));
      begins_.push_back(ids_.size());
    }
  }
}

std::int64_t EncodedTexts::length(std::int64_t i) const {
  const auto at = static_cast<std::size_t>(i);
  return static_cast<std::int64_t>(begins_[at + 1] - begins_[at]);
}

TextBatch EncodedTexts::batch(std::span<const std::int64_t> places, std::int64_t padding) const {
  std::int64_t longest = 1;
  for (const std::int64_t place : places) longest = std::max(longest, length(place));
  const auto rows = places.size(), width = static_cast<std::size_t>(longest);
  std::vector<std::int64_t> ids(rows * width, padding), types(rows * width), mask(rows * width), labels;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto at = static_cast<std::size_t>(places[row]);
    labels.push_back(labels_[at]);
    for (std::size_t i = begins_[at]; i < begins_[at + 1]; ++i) {
      const std::size_t to = row * width + i - begins_[at];
      ids[to] = ids_[i];
      types[to] = types_[i];
      mask[to] = 1;
    }
  }
  const Shape shape{static_cast<std::int64_t>(rows), longest};
  return {Tensor::from(ids, shape), Tensor::from(types, shape), Tensor::from(mask, shape),
          Tensor::from(labels, {static_cast<std::int64_t>(rows)})};
}

std::vector<std::int32_t> EncodedTexts::flat() const {
  std::vector<std::int32_t> all = ids_;
  all.insert(all.end(), labels_.begin(), labels_.end());
  return all;
}

} // namespace eg::training
