// From a text to its tokens.

#include "data/text/tokenizer/parts.h"

#include "core/base/error.h"

#include <fmt/format.h>
#include <limits>

namespace eg::data::tok {
namespace {

constexpr std::size_t block_bytes = 1U << 16U; // of text that is normalised at a time

/// Characters before a place of a text, for places that mostly grow.
class CharacterCounter {
public:
  explicit CharacterCounter(std::string_view text) : text_(text) {}

  std::size_t before(std::size_t byte) {
    for (; at_ < byte; ++at_) count_ += is_first(at_) ? 1U : 0U;
    for (; at_ > byte; --at_) count_ -= is_first(at_ - 1) ? 1U : 0U;
    return count_;
  }

private:
  bool is_first(std::size_t byte) const { return (static_cast<unsigned char>(text_[byte]) & 0xC0U) != 0x80; }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t count_ = 0;
};

class TextEncoder {
public:
  TextEncoder(const Tokenizer::Parts& parts, std::string_view text, const EncodeOptions& options)
      : parts_(parts), text_(text), options_(options) {}

  Encoding run() {
    const bool special = options_.special_in_text == SpecialInText::recognise;
    if (parts_.added.any(false))
      parts_.added.split(text_, false, special, workspace_.found_raw);
    else if (!text_.empty())
      workspace_.found_raw = {{nullptr, 0, text_.size()}};
    for (const Found& found : workspace_.found_raw) {
      if (found.token == nullptr)
        add_ordinary(found.begin, found.end);
      else if (found.begin < found.end)
        add(found.token->id, text_.substr(found.begin, found.end - found.begin), {found.begin, found.end});
    }
    count_characters();
    const std::size_t size = out_.size();
    out_.type_ids.assign(size, 0);
    out_.sequence_ids.assign(size, 0);
    out_.attention_mask.assign(size, 1);
    out_.special_tokens_mask.assign(size, 0);
    return std::move(out_);
  }

private:
  /// Text between added tokens, block by block where that changes nothing.
  void add_ordinary(std::size_t begin, std::size_t end) {
    const bool blocks = parts_.cuts_words && !parts_.added.any(true);
    while (begin < end) {
      const std::string_view rest = text_.substr(begin, end - begin);
      const std::size_t size = blocks ? cut_after(rest, block_bytes) : rest.size();
      add_block(rest.substr(0, size), begin);
      begin += size;
      if (options_.progress) options_.progress(begin);
    }
  }

  void add_block(std::string_view text, std::size_t begin) {
    Stretch stretch{text, nullptr, begin};
    Normalized& normalized = workspace_.normalized;
    if (parts_.normalizer.apply(text, normalized)) {
      stretch.text = normalized.text;
      stretch.origin = normalized.origin.data();
    }
    if (!parts_.added.any(true)) return add_stretch(stretch);
    const bool special = options_.special_in_text == SpecialInText::recognise;
    parts_.added.split(stretch.text, true, special, workspace_.found_normalized);
    for (const Found& found : workspace_.found_normalized) {
      if (found.begin == found.end) continue;
      Stretch part{stretch.text.substr(found.begin, found.end - found.begin), stretch.origin, begin};
      if (part.origin != nullptr)
        part.origin += found.begin;
      else
        part.begin += found.begin;
      if (found.token == nullptr) {
        add_stretch(part);
        continue;
      }
      const ByteSpan from = part.original(0, part.text.size());
      add(found.token->id, part.text, {from.begin, from.end});
    }
  }

  void add_stretch(const Stretch& stretch) {
    if (stretch.text.empty()) return;
    pieces_.clear();
    parts_.model->tokenize(stretch, workspace_, pieces_);
    for (const Piece& piece : pieces_)
      add(piece.id, parts_.vocabulary.token(piece.id), {piece.bytes.begin, piece.bytes.end});
  }

  void add(std::uint32_t id, std::string_view token, TextSpan bytes) {
    out_.ids.push_back(id);
    out_.tokens.emplace_back(token);
    out_.byte_offsets.push_back(bytes);
  }

  void count_characters() {
    CharacterCounter counter(text_);
    out_.offsets.reserve(out_.byte_offsets.size());
    for (const TextSpan& bytes : out_.byte_offsets) {
      const std::size_t begin = counter.before(bytes.begin);
      out_.offsets.push_back({begin, counter.before(bytes.end)});
    }
  }

  const Tokenizer::Parts& parts_;
  std::string_view text_;
  const EncodeOptions& options_;
  Workspace workspace_;
  std::vector<Piece> pieces_;
  Encoding out_;
};

} // namespace

Encoding encode_text(const Tokenizer::Parts& parts, std::string_view text, const EncodeOptions& options) {
  if (text.size() >= std::numeric_limits<std::uint32_t>::max())
    throw ValueError(fmt::format("encode: the text has {} bytes, 4 GiB or more", text.size()));
  if (const std::size_t at = find_invalid_utf8(text); at != std::string_view::npos)
    throw ValueError(fmt::format("encode: the text is not UTF-8 at byte {} (0x{:02x})", at,
                                 static_cast<unsigned>(static_cast<unsigned char>(text[at]))));
  return TextEncoder(parts, text, options).run();
}

} // namespace eg::data::tok
