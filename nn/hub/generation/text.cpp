#include "nn/hub/generation/text.h"

#include "core/base/error.h"
#include "nn/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

namespace eg::hub {
namespace {

/// Length of the longest end of `text` that is a proper beginning of `stop`.
std::size_t overlap(const std::string& text, const std::string& stop) {
  for (std::size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n)
    if (text.compare(text.size() - n, n, stop, 0, n) == 0) return n;
  return 0;
}

} // namespace

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    if (stop.empty()) throw ValueError("a stop string must not be empty");
}

std::string StopFilter::push(std::string_view piece) {
  if (stopped_) return {};
  held_ += piece;
  std::size_t first = std::string::npos, keep = 0;
  for (const std::string& stop : stops_) {
    first = std::min(first, held_.find(stop));
    keep = std::max(keep, overlap(held_, stop));
  }
  if (first != std::string::npos) {
    stopped_ = true;
    std::string shown = held_.substr(0, first);
    held_.clear();
    return shown;
  }
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return shown;
}

std::string StopFilter::finish() { return std::exchange(held_, {}); }

GeneratedText generate_text(const Model& model, const data::Tokenizer* tokenizer, std::span<const std::int64_t> prompt,
                            const nn::GenerateOptions& options, const std::vector<std::string>& stops,
                            FunctionRef<void(std::string_view)> on_text, const nn::HiddenStates& hidden) {
  using Clock = std::chrono::steady_clock;
  const nn::Decoder* decoder = model.decoder();
  if (decoder == nullptr)
    throw ValueError(fmt::format("{} is no language model that continues texts", model.architecture()));
  if (tokenizer == nullptr && !stops.empty()) throw ValueError("stop strings need a tokenizer");
  std::optional<data::DecodeStream> stream;
  if (tokenizer != nullptr) stream.emplace(*tokenizer);
  StopFilter filter(stops);
  GeneratedText result{.prompt_ids = {prompt.begin(), prompt.end()}, .ids = {}, .text = {}, .ended = "length"};
  const auto show = [&](const std::string& text) {
    result.text += text;
    on_text(text);
  };
  const Clock::time_point start = Clock::now();
  Clock::time_point first = start;
  const auto on_token = [&](std::int64_t id) {
    if (first == start) first = Clock::now();
    show(stream ? filter.push(stream->push(id)) : std::string());
    return !filter.stopped();
  };
  result.ids = hidden ? nn::generate(*decoder, prompt, options, on_token, hidden)
                      : nn::generate(*decoder, prompt, options, on_token);
  const Clock::time_point end = Clock::now();
  if (stream && !filter.stopped()) show(filter.push(stream->finish()) + filter.finish());
  result.prompt_seconds = std::chrono::duration<double>(first - start).count();
  result.seconds = std::chrono::duration<double>(end - first).count();
  const bool by_id = !result.ids.empty() && std::find(options.end_ids.begin(), options.end_ids.end(),
                                                      result.ids.back()) != options.end_ids.end();
  result.ended = filter.stopped() ? "stop string" : by_id ? "end token" : "length";
  return result;
}

} // namespace eg::hub
