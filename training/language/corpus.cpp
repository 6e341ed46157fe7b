#include "training/language/corpus.h"

#include "core/base/error.h"
#include "core/base/out_of_memory.h"
#include "data/text/text.h"

#include <fmt/format.h>

namespace eg::training {
namespace {

/// The corpus whose text lies at `path`.
Corpus read_corpus_of(const std::string& path, const CorpusSource& source,
                      FunctionRef<KeptTokenizer(std::string_view, const std::string&)> tokenizer_for, StopFlag stop) {
  const auto full_text = [](const std::string& file) {
    std::string text = data::read_text(file);
    if (text.empty()) throw ValueError(fmt::format("train: {} is empty", file));
    return text;
  };
  const std::string text = full_text(path);
  const std::string other = source.validation.empty() ? std::string() : full_text(source.validation);
  auto [train, test] = data::held_out(text, source.held_out);
  if (!source.validation.empty()) train = text, test = other;
  Corpus corpus{.name = path,
                .test_name = source.validation.empty() ? path : source.validation,
                .tokenizer = tokenizer_for(train, path),
                .train = {},
                .test = {}};
  corpus.train = data::token_ids(corpus.tokenizer.tokenizer(), train, stop);
  corpus.test = data::token_ids(corpus.tokenizer.tokenizer(), test, stop);
  return corpus;
}

} // namespace

Corpus read_corpus(const CorpusSource& source,
                   FunctionRef<KeptTokenizer(std::string_view, const std::string&)> tokenizer_for, StopFlag stop) {
  const std::string path = data::find_text(source.data, source.data_dir);
  return naming_memory(path, [&] { return read_corpus_of(path, source, tokenizer_for, stop); });
}

DataFingerprint fingerprint_of(const Corpus& corpus) {
  return {.train = fingerprint(corpus.train),
          .test = fingerprint(corpus.test),
          .tokenizer = corpus.tokenizer.fingerprint()};
}

void require_enough(const Corpus& corpus, std::int64_t window) {
  const auto train = static_cast<std::int64_t>(corpus.train.size());
  if (train <= window)
    throw ValueError(fmt::format("train: {} has {} training tokens; a window of context {} and the token after it are "
                                 "{}: use a smaller context or more text",
                                 corpus.name, train, window, window + 1));
  if (corpus.test.size() < 2)
    throw ValueError(fmt::format("train: {} has {} held-out tokens, and a test needs 2: give more text",
                                 corpus.test_name, corpus.test.size()));
}

std::vector<std::size_t> draw_windows(const std::vector<std::int32_t>& ids, std::int64_t length, std::int64_t count,
                                      RandomStream& random) {
  std::vector<std::size_t> starts(static_cast<std::size_t>(count));
  for (std::size_t& start : starts)
    start = static_cast<std::size_t>(random.below(ids.size() - static_cast<std::size_t>(length)));
  return starts;
}

Tensor windows(const std::vector<std::int32_t>& ids, std::span<const std::size_t> starts, std::int64_t shift,
               std::int64_t length) {
  std::vector<std::int64_t> out;
  out.reserve(starts.size() * static_cast<std::size_t>(length));
  for (const std::size_t start : starts) {
    const auto from = ids.begin() + static_cast<std::ptrdiff_t>(start) + shift;
    out.insert(out.end(), from, from + length);
  }
  return Tensor::from(out, {static_cast<std::int64_t>(starts.size()), length});
}

} // namespace eg::training
