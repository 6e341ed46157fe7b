#include "fuzz/tokenizer_targets.h"

#include "core/base/error.h"
#include "data/text/tokenizer.h"
#include "fuzz/tokenizer_samples.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace eg::fuzz {
namespace {

using data::DecodeStream;
using data::EncodeOptions;
using data::Encoding;
using data::SpecialInText;
using data::TextSpan;
using data::Tokenizer;

void demand(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

bool is_border(std::string_view text, std::size_t at) {
  return at == text.size() || (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80);
}

void check_tokens(const Tokenizer& tokenizer, std::string_view text, const Encoding& got, bool special_allowed) {
  const std::size_t size = got.size();
  demand(got.tokens.size() == size && got.offsets.size() == size && got.byte_offsets.size() == size &&
             got.type_ids.size() == size && got.attention_mask.size() == size &&
             got.special_tokens_mask.size() == size && got.sequence_ids.size() == size,
         "vectors of different lengths");
  std::size_t reached = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const bool unknown = tokenizer.token(got.ids[i]) == "[UNK]";
    demand(special_allowed || unknown || !tokenizer.is_special(got.ids[i]), "the text made a special token");
    const TextSpan& bytes = got.byte_offsets[i];
    demand(bytes.begin <= bytes.end && is_border(text, bytes.begin) && is_border(text, bytes.end),
           "an offset inside a character or beyond the text");
    demand(bytes.begin >= reached, "offsets run backwards");
    reached = bytes.begin;
    demand(got.offsets[i].end - got.offsets[i].begin <= bytes.end - bytes.begin, "more characters than bytes");
  }
}

void check_decoded(const Tokenizer& tokenizer, std::string_view text, const Encoding& got) {
  const data::DecodeOptions all{.skip_special_tokens = false, .clean_up_spaces = {}};
  const std::string whole = tokenizer.decode(got.ids, all);
  demand(tokenizer.kind() != "byte-level BPE" || whole == text, "byte-level tokens do not decode to their text");
  DecodeStream stream(tokenizer, all);
  std::string joined;
  for (const std::int64_t id : got.ids) {
    const std::string piece = stream.push(id);
    demand(find_invalid_utf8(piece) == std::string::npos, "a stream gave half a character");
    joined += piece;
  }
  demand(joined + stream.finish() == whole, "a stream does not give what decode gives");
}

const std::vector<Tokenizer>& samples() {
  static const std::vector<Tokenizer> made = [] {
    using test::replaced;
    const std::string words = test::word_piece_json();
    const std::string bytes = test::byte_pair_json();
    std::vector<Tokenizer> all;
    for (const std::string& json :
         {words, replaced(words, R"("lowercase":true)", R"("lowercase":false)"),
          replaced(words, R"("special":true},{"id":4,"content":"[MASK]","single_word":false,"lstrip":false)",
                   R"("special":false},{"id":4,"content":"[MASK]","single_word":false,"lstrip":true)"),
          bytes, replaced(bytes, R"("ignore_merges":false)", R"("ignore_merges":true)")})
      all.push_back(Tokenizer::parse_json(json, "sample"));
    return all;
  }();
  return made;
}

} // namespace

void tokenizer(ByteView bytes) {
  const std::string_view json(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    const Tokenizer read = Tokenizer::parse_json(json, "fuzz");
    constexpr const char* text =
        "Hello world, it's \u00e9t\u00e9 e\u0323\u0301 \u4e2d\u6587 \u0130\t12345\r\n [SEP]<|end|>  \U0001f600";
    EncodeOptions options = read.defaults();
    for (const SpecialInText special : {SpecialInText::ordinary, SpecialInText::recognise}) {
      options.special_in_text = special;
      const Encoding got = read.encode({text, "un\u200bable"}, options);
      demand(find_invalid_utf8(read.decode(got.ids)) == std::string::npos, "decoded text is not UTF-8");
    }
  } catch (const FileError&) {
    return;
  } catch (const ValueError&) { // truncation and padding that cannot be done
    return;
  }
}

void tokenizer_text(ByteView bytes) {
  if (bytes.empty()) return;
  const Tokenizer& chosen = samples()[bytes[0] % samples().size()];
  EncodeOptions options;
  options.add_special_tokens = false;
  const bool special = (bytes[0] & 0x80U) != 0;
  options.special_in_text = special ? SpecialInText::recognise : SpecialInText::ordinary;
  std::string text(bytes.begin() + 1, bytes.end());
  if (find_invalid_utf8(text) != std::string::npos) {
    bool refused = false;
    try {
      chosen.encode(text, options);
    } catch (const ValueError&) {
      refused = true;
    }
    demand(refused, "text that is not UTF-8 was taken");
    Utf8Stream stream;
    text = stream.push(text);
    text += stream.finish();
  }
  const Encoding got = chosen.encode(text, options);
  check_tokens(chosen, text, got, special);
  check_decoded(chosen, text, got);
  const std::array<data::TextInput, 2> both{text, text};
  for (const Encoding& again : chosen.encode_batch(both, options))
    demand(again.ids == got.ids && again.byte_offsets == got.byte_offsets, "a batch differs from its texts");
}

} // namespace eg::fuzz
