#include "data/text/tokenizer/read_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eg::data::tok {
namespace {

using Kind = TemplatePiece::Kind;

TemplatePiece special(const std::string& token, std::int64_t id, std::int64_t type_id) {
  return {Kind::special, type_id, {id}, {token}};
}

TemplatePiece text(Kind kind, std::int64_t type_id) { return {kind, type_id, {}, {}}; }

std::int64_t checked_id(const Fields& fields, const Tokenizer::Parts& parts, std::uint64_t id) {
  if (id >= none || parts.token(static_cast<std::int64_t>(id)) == nullptr)
    fields.fail(fmt::format("speaks of id {}, which is no token's", id));
  return static_cast<std::int64_t>(id);
}

std::int64_t type_id_of(const Fields& fields) {
  const std::uint64_t type_id = fields.number("type_id");
  if (type_id >= none) fields.fail(fmt::format("type_id {} is too large", type_id));
  return static_cast<std::int64_t>(type_id);
}

/// ["[SEP]", 102]
std::pair<std::string, std::int64_t> token_and_id(const Fields& fields, const char* key,
                                                  const Tokenizer::Parts& parts) {
  const nlohmann::json& pair = fields.array(key);
  if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number_unsigned())
    fields.fail(fmt::format("'{}' is not a token with its id", key));
  return {pair[0].get<std::string>(), checked_id(fields, parts, pair[1].get<std::uint64_t>())};
}

TemplatePiece read_special(const Fields& piece, const Fields& known, const Tokenizer::Parts& parts) {
  piece.allow({"id", "type_id"});
  TemplatePiece read = text(Kind::special, type_id_of(piece));
  const Fields token = known.object(piece.text("id").c_str());
  token.allow({"id", "ids", "tokens"});
  for (const auto& id : token.array("ids")) {
    if (!id.is_number_unsigned()) token.fail("an id is not a whole number");
    read.ids.push_back(checked_id(token, parts, id.get<std::uint64_t>()));
  }
  for (const auto& name : token.array("tokens")) {
    if (!name.is_string()) token.fail("a token is not a text");
    read.tokens.push_back(name.get<std::string>());
  }
  if (read.ids.size() != read.tokens.size()) token.fail("has not as many ids as tokens");
  return read;
}

std::vector<TemplatePiece> read_template(const Fields& fields, const char* key, bool is_pair,
                                         const Tokenizer::Parts& parts) {
  const Fields known = fields.object("special_tokens");
  std::vector<TemplatePiece> pieces;
  std::size_t first = 0;
  std::size_t second = 0;
  for (const auto& entry : fields.array(key)) {
    const Fields piece(entry, fields.where() + ": " + key);
    piece.allow({"SpecialToken", "Sequence"});
    if (entry.size() != 1) piece.fail("a piece is neither a special token nor a sequence");
    if (entry.contains("SpecialToken")) {
      pieces.push_back(read_special(piece.object("SpecialToken"), known, parts));
      continue;
    }
    const Fields sequence = piece.object("Sequence");
    sequence.allow({"id", "type_id"});
    const std::string id = sequence.text("id");
    if (id != "A" && id != "B") sequence.fail(fmt::format("there is no sequence '{}'", id));
    ++(id == "A" ? first : second);
    pieces.push_back(text(id == "A" ? Kind::first : Kind::second, type_id_of(sequence)));
  }
  if (first != 1 || second != (is_pair ? 1U : 0U))
    fields.fail(fmt::format("'{}' does not hold {} exactly once", key, is_pair ? "A and B" : "A (and no B)"));
  return pieces;
}

void read_one(const Fields& fields, Tokenizer::Parts& parts) {
  PostProcessor& processor = parts.post_processor;
  const std::string type = fields.text("type");
  if (type == "TemplateProcessing") {
    fields.allow({"type", "single", "pair", "special_tokens"});
    processor.single = read_template(fields, "single", false, parts);
    processor.pair = read_template(fields, "pair", true, parts);
  } else if (type == "BertProcessing") {
    fields.allow({"type", "sep", "cls"});
    const auto [sep, sep_id] = token_and_id(fields, "sep", parts);
    const auto [cls, cls_id] = token_and_id(fields, "cls", parts);
    set_bert_template(cls, cls_id, sep, sep_id, processor);
  } else if (type == "RobertaProcessing") {
    fields.allow({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    const auto [sep, sep_id] = token_and_id(fields, "sep", parts);
    const auto [cls, cls_id] = token_and_id(fields, "cls", parts);
    processor.trim = {fields.flag_or("trim_offsets", true), fields.flag_or("add_prefix_space", true)};
    processor.single = {special(cls, cls_id, 0), text(Kind::first, 0), special(sep, sep_id, 0)};
    processor.pair = processor.single;
    processor.pair.insert(processor.pair.end(),
                          {special(sep, sep_id, 0), text(Kind::second, 0), special(sep, sep_id, 0)});
  } else if (type == "ByteLevel") {
    fields.allow({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    processor.trim = {fields.flag_or("trim_offsets", true), fields.flag_or("add_prefix_space", true)};
  } else {
    fields.fail(fmt::format("type '{}' is not supported; TemplateProcessing, BertProcessing, RobertaProcessing and "
                            "ByteLevel are",
                            type));
  }
}

} // namespace

void set_bert_template(const std::string& cls, std::int64_t cls_id, const std::string& sep, std::int64_t sep_id,
                       PostProcessor& processor) {
  processor.single = {special(cls, cls_id, 0), text(Kind::first, 0), special(sep, sep_id, 0)};
  processor.pair = processor.single;
  processor.pair.insert(processor.pair.end(), {text(Kind::second, 1), special(sep, sep_id, 1)});
}

void read_post_processor(const Fields& processor, Tokenizer::Parts& parts) {
  if (processor.text("type") != "Sequence") return read_one(processor, parts);
  processor.allow({"type", "processors"});
  const nlohmann::json& list = processor.array("processors");
  // Offsets are trimmed before a template is filled; two of a kind would work on each other's results.
  const auto type_of = [&](std::size_t i) { return Fields(list[i], processor.where()).text("type"); };
  const bool trims_first = list.size() == 2 && type_of(0) == "ByteLevel" &&
                           (type_of(1) == "TemplateProcessing" || type_of(1) == "BertProcessing");
  if (list.size() > 1 && !trims_first)
    processor.fail("a sequence other than ByteLevel with one of TemplateProcessing and BertProcessing behind it is not "
                   "supported");
  for (const auto& entry : list) read_one({entry, processor.where() + ": processors"}, parts);
}

} // namespace eg::data::tok
