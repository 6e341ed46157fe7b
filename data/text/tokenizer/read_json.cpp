// tokenizer.json, the file of Hugging Face's tokenizers.

#include "core/base/json.h"
#include "data/text/tokenizer/byte_pairs.h"
#include "data/text/tokenizer/parts.h"
#include "data/text/tokenizer/read_fields.h"
#include "data/text/tokenizer/word_piece.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eg::data::tok {
namespace {

using nlohmann::json;

constexpr std::uint64_t longest_padding = 1U << 20U; // most tokens that a file can configure

std::vector<AddedToken> read_added_tokens(const Fields& file, const Vocabulary& vocabulary) {
  AddedTokenList tokens(vocabulary);
  if (file.find("added_tokens") == nullptr) return {};
  for (const auto& entry : file.array("added_tokens")) {
    const Fields fields(entry, file.where() + ": added_tokens");
    fields.allow({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    tokens.add(fields, fields.text("content"), fields.number("id"), fields);
  }
  return tokens.take();
}

void read_normalizer(const Fields& fields, Normalizer& normalizer) {
  const std::string type = fields.text("type");
  if (type == "NFC") {
    fields.allow({"type"});
    normalizer.kind = Normalizer::Kind::nfc;
  } else if (type == "BertNormalizer") {
    fields.allow({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
    normalizer.kind = Normalizer::Kind::bert;
    normalizer.clean_text = fields.flag_or("clean_text", true);
    normalizer.space_cjk = fields.flag_or("handle_chinese_chars", true);
    normalizer.lower_case = fields.flag_or("lowercase", true);
    normalizer.strip_accents = fields.flag_or("strip_accents", normalizer.lower_case);
  } else {
    fields.fail(fmt::format("type '{}' is not supported; BertNormalizer and NFC are", type));
  }
}

/// The settings of a byte-level model's pre-tokenizers.
struct ByteLevelWords {
  BytePairOptions options;
  bool maps_bytes = false; ///< a ByteLevel was among them
};

void read_byte_level(const Fields& fields, const std::optional<WordPattern>& split, ByteLevelWords& words) {
  fields.allow({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  words.maps_bytes = true;
  words.options.prefix_blank = fields.flag_or("add_prefix_space", true);
  const bool splits = fields.flag_or("use_regex", true);
  if (split && (splits || words.options.prefix_blank))
    fields.fail("behind a Split, ByteLevel is supported with use_regex and add_prefix_space false alone");
  words.options.pattern = split ? *split : splits ? WordPattern::gpt2 : WordPattern::none;
}

WordPattern read_split(const Fields& fields) {
  fields.allow({"type", "pattern", "behavior", "invert"});
  const Fields pattern = fields.object("pattern");
  pattern.allow({"Regex"});
  const std::string expression = pattern.text("Regex");
  if (fields.text("behavior") != "Isolated" || fields.flag_or("invert", false))
    fields.fail("a Split is supported with behavior Isolated and invert false alone");
  const std::optional<WordPattern> known = known_pattern(expression);
  if (!known)
    fields.fail(fmt::format("the expression {} is not supported; those of GPT-2, Llama 3 and Qwen 2 are", expression));
  return *known;
}

ByteLevelWords read_byte_level_words(const Fields& fields) {
  ByteLevelWords words;
  const std::string type = fields.text("type");
  if (type == "ByteLevel") {
    read_byte_level(fields, std::nullopt, words);
    return words;
  }
  if (type != "Sequence")
    fields.fail(
        fmt::format("type '{}' is not supported for BPE; ByteLevel, and a Sequence of Split and ByteLevel, are", type));
  fields.allow({"type", "pretokenizers"});
  std::optional<WordPattern> split;
  for (const auto& entry : fields.array("pretokenizers")) {
    const Fields part(entry, fields.where() + ": pretokenizers");
    const std::string part_type = part.text("type");
    if (part_type == "Split" && !split && !words.maps_bytes)
      split = read_split(part);
    else if (part_type == "ByteLevel" && !words.maps_bytes)
      read_byte_level(part, split, words);
    else
      part.fail(fmt::format("type '{}' is not supported here; a Split, then a ByteLevel, are", part_type));
  }
  if (!words.maps_bytes) fields.fail("has no ByteLevel: BPE is supported on bytes alone");
  return words;
}

MergeRules read_merges(const Fields& model) {
  MergeRules rules;
  for (const auto& entry : model.array("merges")) {
    std::string left;
    std::string right;
    if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
      left = entry[0].get<std::string>();
      right = entry[1].get<std::string>();
    } else if (entry.is_string()) {
      const auto& both = entry.get_ref<const std::string&>();
      const std::size_t blank = both.find(' ');
      if (blank != std::string::npos && both.find(' ', blank + 1) == std::string::npos) {
        left = both.substr(0, blank);
        right = both.substr(blank + 1);
      }
    }
    if (left.empty() || right.empty()) model.fail(fmt::format("merge {} is not two tokens", rules.size() + 1));
    rules.emplace_back(std::move(left), std::move(right));
  }
  return rules;
}

void refuse_unless(const Fields& model, const char* key, bool is_default) {
  if (!is_default) model.fail(fmt::format("'{}' is not supported for BPE on bytes", key));
}

void make_bpe(const Fields& file, const Fields& model, Tokenizer::Parts& parts) {
  model.allow({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
               "byte_fallback", "ignore_merges", "vocab", "merges"});
  // An unknown token is never needed: the vocabulary has all bytes.
  const json* dropout = model.find("dropout");
  refuse_unless(model, "dropout", dropout == nullptr || *dropout == 0);
  refuse_unless(model, "continuing_subword_prefix", model.text_or("continuing_subword_prefix", "").empty());
  refuse_unless(model, "end_of_word_suffix", model.text_or("end_of_word_suffix", "").empty());
  refuse_unless(model, "byte_fallback", !model.flag_or("byte_fallback", false));
  ByteLevelWords words = read_byte_level_words(file.object("pre_tokenizer"));
  words.options.whole_words = model.flag_or("ignore_merges", false);
  parts.cuts_words = words.options.pattern != WordPattern::none;
  if (parts.normalizer.kind == Normalizer::Kind::bert) file.fail("a BertNormalizer is not supported for BPE");
  parts.model = make_byte_pairs(parts.vocabulary, parts.added, read_merges(model), words.options, model.where());
}

void make_wordpiece(const Fields& file, const Fields& model, Tokenizer::Parts& parts) {
  model.allow({"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  WordPieceOptions options;
  options.unknown = model.text_or("unk_token", "[UNK]");
  options.prefix = model.text_or("continuing_subword_prefix", "##");
  options.longest_word = model.number_or("max_input_chars_per_word", 100);
  const Fields words = file.object("pre_tokenizer");
  if (words.text("type") != "BertPreTokenizer")
    words.fail(fmt::format("type '{}' is not supported for WordPiece; BertPreTokenizer is", words.text("type")));
  words.allow({"type"});
  parts.model = make_word_piece(parts.vocabulary, parts.added, options, model.where());
}

void read_decoder(const Fields& file, Decoder& decoder) {
  if (file.find("decoder") == nullptr) return; // tokens with blanks between them
  const Fields fields = file.object("decoder");
  const std::string type = fields.text("type");
  if (type == "ByteLevel") {
    fields.allow({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    decoder.kind = Decoder::Kind::byte_level;
  } else if (type == "WordPiece") {
    fields.allow({"type", "prefix", "cleanup"});
    decoder = {Decoder::Kind::word_piece, fields.text_or("prefix", "##"), fields.flag_or("cleanup", true)};
  } else {
    fields.fail(fmt::format("type '{}' is not supported; WordPiece and ByteLevel are", type));
  }
}

Side read_side(const Fields& fields, const char* key) {
  const std::string side = fields.text_or(key, "Right");
  if (side != "Left" && side != "Right") fields.fail(fmt::format("'{}' is neither Left nor Right", key));
  return side == "Left" ? Side::left : Side::right;
}

void read_truncation(const Fields& fields, EncodeOptions& options) {
  fields.allow({"direction", "max_length", "strategy", "stride"});
  Truncation truncation;
  truncation.max_length = static_cast<std::size_t>(fields.number("max_length"));
  truncation.side = read_side(fields, "direction");
  const std::string strategy = fields.text_or("strategy", "LongestFirst");
  if (strategy == "OnlyFirst")
    truncation.strategy = TruncationStrategy::only_first;
  else if (strategy == "OnlySecond")
    truncation.strategy = TruncationStrategy::only_second;
  else if (strategy != "LongestFirst")
    fields.fail(fmt::format("strategy '{}' is not supported", strategy));
  if (fields.number_or("stride", 0) != 0) fields.fail("a stride other than 0 is not supported");
  options.truncation = truncation;
}

void read_padding(const Fields& fields, Tokenizer::Parts& parts) {
  fields.allow({"strategy", "direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token"});
  Padding padding;
  const json& strategy = fields.at("strategy");
  if (strategy.is_object() && strategy.size() == 1 && strategy.contains("Fixed"))
    padding.length = static_cast<std::size_t>(Fields(strategy, fields.where() + ": strategy").number("Fixed"));
  else if (strategy != "BatchLongest")
    fields.fail("the strategy is neither BatchLongest nor Fixed");
  padding.side = read_side(fields, "direction");
  padding.multiple_of = static_cast<std::size_t>(fields.number_or("pad_to_multiple_of", 0));
  if (padding.length > longest_padding || padding.multiple_of > longest_padding)
    fields.fail(fmt::format("more than {} tokens", longest_padding));
  const std::uint64_t type_id = fields.number_or("pad_type_id", 0);
  const std::uint64_t pad_id = fields.number("pad_id");
  if (type_id >= none || pad_id >= none) fields.fail("pad_id or pad_type_id is too large");
  padding.type_id = static_cast<std::int64_t>(type_id);
  const auto id = static_cast<std::int64_t>(pad_id);
  const std::string* token = parts.token(id);
  if (token == nullptr || *token != fields.text("pad_token"))
    fields.fail(fmt::format("pad_id {} is not the id of pad_token '{}'", id, fields.text("pad_token")));
  padding.id = id;
  parts.roles.emplace("pad", id);
  parts.defaults.padding = padding;
}

} // namespace

std::shared_ptr<Tokenizer::Parts> read_tokenizer_json(std::string_view text, const std::string& source) {
  const json parsed = parse_json(text, source);
  const Fields file(parsed, source);
  file.allow({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
              "decoder", "model"});
  auto parts = std::make_shared<Tokenizer::Parts>();
  const Fields model = file.object("model");
  // Files of older versions leave the type out; merges distinguish BPE from WordPiece.
  const std::string type = model.text_or("type", model.find("merges") != nullptr ? "BPE" : "WordPiece");
  if (type != "BPE" && type != "WordPiece")
    model.fail(fmt::format("type '{}' is not supported; WordPiece and BPE are", type));
  parts->vocabulary = read_vocabulary(model.object("vocab"));
  if (file.find("normalizer") != nullptr) read_normalizer(file.object("normalizer"), parts->normalizer);
  parts->added = AddedTokens(read_added_tokens(file, parts->vocabulary), parts->normalizer);
  if (type == "BPE")
    make_bpe(file, model, *parts);
  else
    make_wordpiece(file, model, *parts);
  read_decoder(file, parts->decoder);
  if (file.find("post_processor") != nullptr) read_post_processor(file.object("post_processor"), *parts);
  if (file.find("truncation") != nullptr) read_truncation(file.object("truncation"), parts->defaults);
  if (file.find("padding") != nullptr) read_padding(file.object("padding"), *parts);
  return parts;
}

} // namespace eg::data::tok
