#include "training/language/masker.h"

#include "core/base/error.h"
#include "training/language/bert_model.h"

#include <numeric>

namespace eg::training {
namespace {

/// The ids of a vocabulary that stand for text.
std::vector<std::int64_t> ordinary_ids(const data::Tokenizer& tokenizer) {
  std::vector<std::int64_t> ids;
  for (std::size_t id = 0; id < tokenizer.id_end(); ++id) try {
      if (!tokenizer.is_special(static_cast<std::int64_t>(id))) ids.push_back(static_cast<std::int64_t>(id));
    } catch (const IndexError&) { // a gap in the vocabulary
    }
  if (ids.empty()) throw ValueError("train: the tokenizer has special tokens alone");
  return ids;
}

} // namespace

Masker::Masker(const data::Tokenizer& tokenizer, double share)
    : mask_(special_id(tokenizer, "mask", "[MASK]")), begin_(special_id(tokenizer, "cls", "[CLS]")),
      end_(special_id(tokenizer, "sep", "[SEP]")), words_(ordinary_ids(tokenizer)), share_(share) {}

MaskedBatch Masker::operator()(const Tensor& tokens, FunctionRef<RandomStream(std::int64_t)> random) const {
  const std::int64_t rows = tokens.size(0), inner = tokens.size(1), width = inner + 2;
  const std::vector<std::int64_t> text = tokens.to_vector<std::int64_t>();
  std::vector<std::int64_t> ids, places, wanted;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto from = text.begin() + row * inner;
    ids.push_back(begin_);
    ids.insert(ids.end(), from, from + inner);
    ids.push_back(end_);
    RandomStream stream = random(row);
    for (const std::int64_t at : chosen(inner, stream)) {
      std::int64_t& id = ids[static_cast<std::size_t>(row * width + 1 + at)];
      places.push_back(row * width + 1 + at);
      wanted.push_back(id);
      const double kind = stream.uniform();
      if (kind < 0.8)
        id = mask_;
      else if (kind < 0.9)
        id = words_[static_cast<std::size_t>(stream.below(words_.size()))];
    }
  }
  const auto guesses = static_cast<std::int64_t>(places.size());
  return {Tensor::from(ids, {rows, width}), Tensor::from(places, {guesses}), Tensor::from(wanted, {guesses})};
}

/// count(tokens) of 0 .. tokens - 1, ascending: the beginning of a Fisher-Yates shuffle.
std::vector<std::int64_t> Masker::chosen(std::int64_t tokens, RandomStream& stream) const {
  std::vector<std::int64_t> all(static_cast<std::size_t>(tokens));
  std::iota(all.begin(), all.end(), 0);
  const auto wanted = static_cast<std::size_t>(count(tokens));
  for (std::size_t i = 0; i < wanted; ++i)
    std::swap(all[i], all[i + static_cast<std::size_t>(stream.below(all.size() - i))]);
  all.resize(wanted);
  std::sort(all.begin(), all.end());
  return all;
}

} // namespace eg::training
