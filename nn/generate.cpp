#include "nn/generate.h"

#include "core/base/error.h"
#include "core/base/out_of_memory.h"
#include "core/device/device.h"
#include "core/exact/elementary.h"
#include "core/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

namespace eg::nn {
namespace {

struct Candidate {
  std::int64_t id;
  double logit;
};

bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

std::vector<Candidate> candidates_of(const Tensor& logits) {
  if (logits.rank() != 1)
    throw ShapeError(fmt::format("sample: logits must be [vocabulary], not {}", logits.shape().str()));
  std::vector<Candidate> all;
  all.reserve(static_cast<std::size_t>(logits.numel()));
  for (const double logit : logits.to(DType::f64).to_vector<double>()) {
    if (std::isnan(logit)) throw ValueError(fmt::format("sample: the logit of token {} is NaN", all.size()));
    all.push_back({static_cast<std::int64_t>(all.size()), logit});
  }
  return all;
}

/// Drops those less likely than the k-th; equals of the k-th stay.
void keep_top_k(std::vector<Candidate>& all, std::int64_t k) {
  if (k <= 0 || k >= static_cast<std::int64_t>(all.size())) return;
  const auto kth = all.begin() + (k - 1);
  std::nth_element(all.begin(), kth, all.end(), likelier);
  const double least = kth->logit;
  std::erase_if(all, [&](const Candidate& c) { return c.logit < least; });
}

/// Probabilities in the order of `all`.
std::vector<double> probabilities(const std::vector<Candidate>& all, double largest) {
  std::vector<double> p;
  p.reserve(all.size());
  for (const Candidate& c : all) p.push_back(elementary::exp(c.logit - largest));
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& each : p) each /= total;
  return p;
}

/// Sorts, likeliest first, and cuts where the probabilities reach `p`.
void keep_top_p(std::vector<Candidate>& all, double p) {
  std::sort(all.begin(), all.end(), likelier);
  if (p >= 1.0) return;
  const std::vector<double> each = probabilities(all, all.front().logit);
  double reached = 0.0;
  std::size_t count = 0;
  while (count < each.size() && (count == 0 || reached < p)) reached += each[count++];
  all.resize(count);
}

/// Drops those less than `least` times as likely as the likeliest.
void keep_min_p(std::vector<Candidate>& all, double least) {
  if (least == 0.0) return;
  const double best = std::min_element(all.begin(), all.end(), likelier)->logit;
  std::erase_if(all, [&](const Candidate& c) { return elementary::exp(c.logit - best) < least; });
}

void check_prompt(const Decoder& model, std::span<const std::int64_t> prompt, const GenerateOptions& o) {
  if (model.config.head != Head::language_model)
    throw ValueError(fmt::format("generate: the model's head is {}, not language_model", name_of(model.config.head)));
  if (model.training()) throw ValueError("generate: the model is in training; call eval()");
  if (prompt.empty()) throw ValueError("generate: the prompt is empty");
  if (o.max_new_tokens < 0)
    throw ValueError(fmt::format("generate: max_new_tokens must not be negative, it is {}", o.max_new_tokens));
  for (const std::int64_t id : prompt)
    if (id < 0 || id >= model.config.vocabulary)
      throw ValueError(fmt::format("generate: {} is not one of {} ids", id, model.config.vocabulary));
  if (!model.config.learned_positions) return;
  const auto length = static_cast<std::int64_t>(prompt.size());
  if (length > model.config.positions || o.max_new_tokens > model.config.positions - length)
    throw ValueError(
        fmt::format("generate: a prompt of {} tokens and {} new ones are more than the model's {} positions", length,
                    o.max_new_tokens, model.config.positions));
}

/// A text's passes with a cache, whose capacity doubles as the text grows: it may end far before the limit.
class GrowingText {
public:
  GrowingText(const Decoder& model, std::int64_t prompt, std::int64_t new_tokens)
      : model_(model), prompt_(prompt), new_tokens_(new_tokens) {}

  Tensor hidden_states(const Tensor& ids) {
    const std::int64_t length = ids.size(1) + (cache_ ? cache_->length() : 0);
    return naming_memory(fmt::format("generate: {} tokens (a prompt of {} and up to {} new ones; --max-new-tokens "
                                     "asks for fewer)",
                                     length, prompt_, new_tokens_),
                         [&] {
                           make_room(length);
                           return model_({.ids = ids}, &*cache_);
                         });
  }

private:
  void make_room(std::int64_t length) {
    constexpr std::int64_t first = 256;
    const std::int64_t room = cache_ ? cache_->layers().front().capacity() : 0;
    if (length <= room) return;
    const std::int64_t doubled = std::max({length, 2 * room, first});
    const std::int64_t more = doubled - prompt_ <= new_tokens_ ? doubled : prompt_ + new_tokens_;
    if (!cache_)
      cache_.emplace(model_.config, 1, more, model_.token_embedding.weight.dtype());
    else
      for (KvCache& layer : cache_->layers()) layer = moved(layer, more); // one by one: never twice the whole
  }

  static KvCache moved(const KvCache& from, std::int64_t room) {
    const Tensor keys = from.keys(), values = from.values();
    KvCache to({keys.size(0), keys.size(1)}, room, keys.size(3), values.size(3), keys.dtype());
    to.append(keys, values);
    return to;
  }

  const Decoder& model_;
  std::int64_t prompt_, new_tokens_;
  std::optional<DecoderCache> cache_;
};

} // namespace

void check(const SamplingOptions& o) {
  if (!(o.temperature >= 0.0 && std::isfinite(o.temperature)))
    throw ValueError(fmt::format("sample: temperature must not be negative, it is {}", o.temperature));
  if (o.top_k < 0) throw ValueError(fmt::format("sample: top_k must not be negative, it is {}", o.top_k));
  if (!(o.top_p > 0.0 && o.top_p <= 1.0))
    throw ValueError(fmt::format("sample: top_p must be in (0, 1], it is {}", o.top_p));
  if (!(o.min_p >= 0.0 && o.min_p <= 1.0))
    throw ValueError(fmt::format("sample: min_p must be in [0, 1], it is {}", o.min_p));
}

std::int64_t sample(const Tensor& logits, const SamplingOptions& o, double uniform) {
  check(o);
  std::vector<Candidate> all = candidates_of(logits);
  if (all.empty()) throw ValueError("sample: there are no logits");
  const Candidate best = *std::min_element(all.begin(), all.end(), likelier);
  if (best.logit == -std::numeric_limits<double>::infinity()) throw ValueError("sample: every logit is -infinity");
  if (o.temperature == 0.0 || best.logit == std::numeric_limits<double>::infinity()) return best.id;
  for (Candidate& c : all) c.logit = (c.logit - best.logit) / o.temperature;
  keep_top_k(all, o.top_k);
  keep_top_p(all, o.top_p);
  keep_min_p(all, o.min_p);
  const std::vector<double> p = probabilities(all, 0.0);
  double below = 0.0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    below += p[i];
    if (uniform < below) return all[i].id;
  }
  return all.front().id; // rounding left a gap below 1
}

std::vector<std::int64_t> generate(const Decoder& model, std::span<const std::int64_t> prompt, const GenerateOptions& o,
                                   FunctionRef<bool(std::int64_t)> on_token) {
  check(o.sampling);
  check(o.rules);
  check_prompt(model, prompt, o);
  GrowingText passes(model, static_cast<std::int64_t>(prompt.size()), o.max_new_tokens);
  return generate(model, prompt, o, on_token, [&](const Tensor& ids) { return passes.hidden_states(ids); });
}

std::vector<std::int64_t> generate(const Decoder& model, std::span<const std::int64_t> prompt, const GenerateOptions& o,
                                   FunctionRef<bool(std::int64_t)> on_token, const HiddenStates& hidden_states) {
  check(o.sampling);
  check(o.rules);
  check_prompt(model, prompt, o);
  const DeviceScope there(model.device());
  const CompositeScope untaped; // a profile records the operations, a tape does not
  const auto begin = static_cast<std::ptrdiff_t>(prompt.size());
  std::vector<std::int64_t> text(prompt.begin(), prompt.end());
  Tensor ids = Tensor::from<std::int64_t>(prompt, {1, static_cast<std::int64_t>(prompt.size())});
  for (std::int64_t i = 0; i < o.max_new_tokens; ++i) {
    const Tensor hidden = hidden_states(ids);
    Tensor logits = model.language_model(hidden.select(1, hidden.size(1) - 1)).select(0, 0);
    if (!o.rules.neutral()) logits = apply(o.rules, logits, text, begin, o.end_ids);
    const std::int64_t next = sample(logits, o.sampling, uniform_at(o.key, static_cast<std::uint64_t>(i)));
    text.push_back(next);
    const bool ended = std::find(o.end_ids.begin(), o.end_ids.end(), next) != o.end_ids.end();
    if (!on_token(next) || ended) break;
    ids = Tensor::full({1, 1}, static_cast<double>(next), DType::i64);
  }
  return {text.begin() + begin, text.end()};
}

std::vector<std::int64_t> generate(const Decoder& model, std::span<const std::int64_t> prompt,
                                   const GenerateOptions& options) {
  return generate(model, prompt, options, [](std::int64_t) { return true; });
}

} // namespace eg::nn
