#include "nn/logit_rules.h"

#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace eg::nn {
namespace {

using Ids = std::span<const std::int64_t>;

/// The logits of one step, by token.
class Logits {
public:
  explicit Logits(const Tensor& logits) : values_(logits.to(DType::f64).to_vector<double>()) {}

  void suppress(Ids ids) {
    for (const std::int64_t id : ids)
      if (holds(id)) at(id) = -std::numeric_limits<double>::infinity();
  }

  void penalise(Ids text, double penalty) {
    for (const std::int64_t id : std::set<std::int64_t>(text.begin(), text.end()))
      if (holds(id)) at(id) = at(id) < 0.0 ? at(id) * penalty : at(id) / penalty;
  }

  Tensor tensor() const { return Tensor::from<double>(values_, {std::ssize(values_)}); }

private:
  bool holds(std::int64_t id) const { return id >= 0 && id < std::ssize(values_); }
  double& at(std::int64_t id) { return values_[static_cast<std::size_t>(id)]; }

  std::vector<double> values_;
};

/// Tokens that would end a sequence of `size` tokens that the text holds already.
std::vector<std::int64_t> repeating(Ids text, std::int64_t size) {
  std::vector<std::int64_t> ids;
  const auto before = static_cast<std::size_t>(size - 1);
  if (text.size() < before) return ids;
  const Ids last = text.last(before);
  for (std::size_t i = 0; i + before < text.size(); ++i)
    if (std::equal(last.begin(), last.end(), text.begin() + static_cast<std::ptrdiff_t>(i)))
      ids.push_back(text[i + before]);
  return ids;
}

} // namespace

bool LogitRules::neutral() const {
  return repetition_penalty == 1.0 && no_repeat_ngram_size == 0 && min_length == 0 && min_new_tokens == 0 &&
         suppress_tokens.empty() && begin_suppress_tokens.empty();
}

void check(const LogitRules& r) {
  if (!(r.repetition_penalty > 0.0 && std::isfinite(r.repetition_penalty)))
    throw ValueError(
        fmt::format("generate: repetition_penalty must be positive and finite, it is {}", r.repetition_penalty));
  const auto counts = [](const char* field, std::int64_t value) {
    if (value < 0) throw ValueError(fmt::format("generate: {} must not be negative, it is {}", field, value));
  };
  counts("no_repeat_ngram_size", r.no_repeat_ngram_size);
  counts("min_length", r.min_length);
  counts("min_new_tokens", r.min_new_tokens);
}

Tensor apply(const LogitRules& rules, const Tensor& logits, Ids text, std::int64_t prompt, Ids ends) {
  Logits all(logits);
  if (rules.repetition_penalty != 1.0) all.penalise(text, rules.repetition_penalty);
  if (rules.no_repeat_ngram_size > 0) all.suppress(repeating(text, rules.no_repeat_ngram_size));
  const std::int64_t length = std::ssize(text);
  if (length < rules.min_length || length - prompt < rules.min_new_tokens) all.suppress(ends);
  all.suppress(rules.suppress_tokens);
  if (length == prompt) all.suppress(rules.begin_suppress_tokens);
  return all.tensor();
}

} // namespace eg::nn
