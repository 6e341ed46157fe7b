#include "data/text/tokenizer/post_process.h"

#include "core/base/error.h"
#include "data/text/tokenizer/unicode.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <utility>

namespace eg::data::tok {
namespace {

/// Calls `act` on every vector of an encoding, or of two side by side.
template <class F, class... E> void each_vector(F&& act, E&... encodings) {
  act(encodings.ids...);
  act(encodings.tokens...);
  act(encodings.offsets...);
  act(encodings.byte_offsets...);
  act(encodings.type_ids...);
  act(encodings.attention_mask...);
  act(encodings.special_tokens_mask...);
  act(encodings.sequence_ids...);
}

void shorten(Encoding& encoding, std::size_t size, Side side) {
  if (size >= encoding.size()) return;
  const auto extra = static_cast<std::ptrdiff_t>(encoding.size() - size);
  encoding.truncated += static_cast<std::size_t>(extra);
  each_vector(
      [&](auto& values) {
        if (side == Side::right)
          values.erase(values.end() - extra, values.end());
        else
          values.erase(values.begin(), values.begin() + extra);
      },
      encoding);
}

/// How long two texts may be, so that they have `most` tokens together and the shorter one loses as little as can be.
std::pair<std::size_t, std::size_t> shares(std::size_t first, std::size_t second, std::size_t most) {
  std::size_t shorter = std::min(first, second);
  std::size_t longer = shorter > most ? shorter : std::max(shorter, most - shorter);
  if (shorter + longer > most) {
    shorter = most / 2;
    longer = shorter + most % 2;
  }
  return first > second ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

void append(Encoding& to, Encoding&& from) {
  each_vector(
      [](auto& all, auto& more) {
        if (all.empty())
          all = std::move(more);
        else
          all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
      },
      to, from);
  to.truncated += from.truncated;
}

void append_special(Encoding& to, const TemplatePiece& piece) {
  for (std::size_t i = 0; i < piece.ids.size(); ++i) {
    to.ids.push_back(piece.ids[i]);
    to.tokens.push_back(piece.tokens[i]);
    to.offsets.push_back({});
    to.byte_offsets.push_back({});
    to.type_ids.push_back(piece.type_id);
    to.attention_mask.push_back(1);
    to.special_tokens_mask.push_back(1);
    to.sequence_ids.push_back(-1);
  }
}

/// Characters at one end of a token that are blanks, or the byte letter for one.
template <class Take> std::size_t blanks(std::string_view token, Take&& take) {
  constexpr char32_t blank_letter = 0x120;
  std::size_t count = 0;
  for (std::size_t left = token.size(); left > 0; ++count) {
    const char32_t c = take(left);
    if (c != blank_letter && !Unicode::tables().is(c, space)) break;
  }
  return count;
}

std::size_t width(const TextSpan& span) { return span.end > span.begin ? span.end - span.begin : 0; }

void move_begin(TextSpan& characters, TextSpan& bytes, std::size_t count, std::string_view text) {
  const std::size_t steps = std::min(count, width(characters));
  for (std::size_t i = 0; i < steps; ++i) next_utf8(text, bytes.begin);
  characters.begin += steps;
}

void move_end(TextSpan& characters, TextSpan& bytes, std::size_t count, std::string_view text) {
  const std::size_t steps = std::min(count, width(characters));
  for (std::size_t i = 0; i < steps; ++i) bytes.end = previous_utf8(text, bytes.end);
  characters.end -= steps;
}

} // namespace

std::size_t PostProcessor::added(bool is_pair) const {
  std::size_t count = 0;
  for (const TemplatePiece& piece : is_pair ? pair : single) count += piece.ids.size();
  return count;
}

void truncate(Encoding& first, Encoding* second, const Truncation& truncation, std::size_t max_length) {
  const std::size_t total = first.size() + (second != nullptr ? second->size() : 0);
  if (total <= max_length) return;
  if (max_length == 0) {
    shorten(first, 0, truncation.side);
    if (second != nullptr) shorten(*second, 0, truncation.side);
    return;
  }
  if (truncation.strategy == TruncationStrategy::longest_first) {
    const auto [of_first, of_second] = shares(first.size(), second != nullptr ? second->size() : 0, max_length);
    shorten(first, second != nullptr ? of_first : max_length, truncation.side);
    if (second != nullptr) shorten(*second, of_second, truncation.side);
    return;
  }
  const bool of_second = truncation.strategy == TruncationStrategy::only_second;
  if (of_second && second == nullptr)
    throw ValueError("truncation: only the second text is to be shortened, but there is one text");
  Encoding& target = of_second ? *second : first;
  if (target.size() <= total - max_length)
    throw ValueError(fmt::format("truncation: {} tokens are too many, but the {} text, the only one to be shortened, "
                                 "has {}",
                                 total - max_length, of_second ? "second" : "first", target.size()));
  shorten(target, target.size() - (total - max_length), truncation.side);
}

void trim_offsets(Encoding& encoding, std::string_view text, const OffsetTrim& trim) {
  if (!trim.wanted) return;
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    const std::string_view token = encoding.tokens[i];
    std::size_t at = 0;
    std::size_t leading = blanks(token, [&](std::size_t& left) {
      const char32_t c = next_utf8(token, at);
      left = token.size() - at;
      return c;
    });
    const std::size_t trailing = blanks(token, [&](std::size_t& left) {
      left = previous_utf8(token, left);
      std::size_t begin = left;
      return next_utf8(token, begin);
    });
    TextSpan& characters = encoding.offsets[i];
    // A single blank at the beginning may be the one that was put there, which the text does not have.
    if (leading == 1 && trim.prefix_blank && (i == 0 || characters.begin == 0)) leading = 0;
    move_begin(characters, encoding.byte_offsets[i], leading, text);
    if (characters.end >= trailing) move_end(characters, encoding.byte_offsets[i], trailing, text);
  }
}

Encoding assemble(const PostProcessor& processor, Encoding first, std::optional<Encoding> second,
                  bool add_special_tokens) {
  const std::vector<TemplatePiece>& pieces = second ? processor.pair : processor.single;
  if (pieces.empty()) {
    if (second) append(first, std::move(*second));
    return first;
  }
  Encoding all;
  for (const TemplatePiece& piece : pieces) {
    if (piece.kind == TemplatePiece::Kind::special) {
      if (add_special_tokens) append_special(all, piece);
      continue;
    }
    Encoding& part = piece.kind == TemplatePiece::Kind::first ? first : *second;
    std::fill(part.type_ids.begin(), part.type_ids.end(), piece.type_id);
    append(all, std::move(part));
  }
  return all;
}

void pad(Encoding& encoding, std::size_t length, const Padding& padding, std::int64_t id, const std::string& token) {
  if (encoding.size() >= length) return;
  const std::size_t missing = length - encoding.size();
  const auto fill = [&](auto& values, const auto& value) {
    values.insert(padding.side == Side::right ? values.end() : values.begin(), missing, value);
  };
  fill(encoding.ids, id);
  fill(encoding.tokens, token);
  fill(encoding.offsets, TextSpan{});
  fill(encoding.byte_offsets, TextSpan{});
  fill(encoding.type_ids, padding.type_id);
  fill(encoding.attention_mask, std::int64_t{0});
  fill(encoding.special_tokens_mask, std::int64_t{1});
  fill(encoding.sequence_ids, std::int64_t{-1});
}

} // namespace eg::data::tok
