// The files from before tokenizer.json: vocab.txt, or vocab.json and merges.txt, and the configuration beside them.

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/utf8.h"
#include "data/text/tokenizer/byte_pairs.h"
#include "data/text/tokenizer/read_fields.h"
#include "data/text/tokenizer/word_piece.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

namespace eg::data::tok {
namespace {

using nlohmann::json;

constexpr std::array role_names{"unk", "sep", "pad", "cls", "mask", "bos", "eos"};

/// The lines of a file of text, without their ends.
std::vector<std::string> read_lines(const std::string& path) {
  const Bytes bytes = read_file(path);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const std::size_t at = find_invalid_utf8(text); at != std::string_view::npos)
    throw FileError(fmt::format("{}: is not UTF-8 at byte {}", path, at));
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    begin = end + 1;
  }
  return lines;
}

Vocabulary read_vocab_txt(const std::string& path) {
  const std::vector<std::string> lines = read_lines(path);
  Vocabulary vocabulary(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) throw FileError(fmt::format("{}: line {} is empty", path, i + 1));
    vocabulary.add(lines[i], i, path);
  }
  return vocabulary;
}

MergeRules read_merges_txt(const std::string& path) {
  MergeRules rules;
  const std::vector<std::string> lines = read_lines(path);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (line.starts_with("#version")) continue;
    const std::size_t blank = line.find(' ');
    if (blank == std::string::npos || blank == 0 || blank + 1 == line.size() ||
        line.find(' ', blank + 1) != std::string::npos)
      throw FileError(fmt::format("{}: line {} is not two tokens with a blank between them", path, i + 1));
    rules.emplace_back(line.substr(0, blank), line.substr(blank + 1));
  }
  return rules;
}

/// One of the files of configuration, or an empty object when it is missing.
json read_optional(const std::string& path) { return file_exists(path) ? read_json(path) : json::object(); }

/// "[PAD]" or {"content": "[PAD]", ...}; "" when there is none.
std::string content_of(const Fields& fields, const std::string& key) {
  const json* value = fields.find(key.c_str());
  if (value == nullptr) return "";
  return value->is_object() ? Fields(*value, fields.where() + ": " + key).text("content") : fields.text(key.c_str());
}

/// tokenizer_config.json, special_tokens_map.json and added_tokens.json.
class Configuration {
public:
  explicit Configuration(const std::string& folder)
      : config_json_(read_optional(join_path(folder, "tokenizer_config.json"))),
        map_json_(read_optional(join_path(folder, "special_tokens_map.json"))),
        added_json_(read_optional(join_path(folder, "added_tokens.json"))),
        config_(config_json_, join_path(folder, "tokenizer_config.json")),
        map_(map_json_, join_path(folder, "special_tokens_map.json")),
        added_(added_json_, join_path(folder, "added_tokens.json")) {}
  Configuration(const Configuration&) = delete; // the fields look into the JSON
  Configuration& operator=(const Configuration&) = delete;

  const Fields& config() const { return config_; }

  /// The token of a role: as configured, else `otherwise`.
  std::string role(const std::string& name, const std::string& otherwise = "") const {
    std::string content = content_of(config_, name + "_token");
    if (content.empty()) content = content_of(map_, name + "_token");
    return content.empty() ? otherwise : content;
  }

  /// Refuses a class whose rules are others than those of the files' kind.
  void require_class(std::initializer_list<std::string_view> known) const {
    std::string name = config_.text_or("tokenizer_class", std::string(*known.begin()).c_str());
    if (name.ends_with("Fast")) name.resize(name.size() - 4);
    if (std::find(known.begin(), known.end(), name) == known.end())
      config_.fail(fmt::format("tokenizer_class '{}' is not supported without a tokenizer.json", name));
  }

  /// The tokens that the files add, `special` ones among them.
  std::vector<AddedToken> added(const Vocabulary& vocabulary, const std::vector<std::string>& special) const {
    AddedTokenList tokens(vocabulary);
    if (config_.find("added_tokens_decoder") != nullptr) {
      const Fields listed = config_.object("added_tokens_decoder");
      for (const auto& [id, value] : listed.json().items()) {
        const Fields fields(value, listed.where() + ": " + id);
        fields.allow({"content", "lstrip", "normalized", "rstrip", "single_word", "special"});
        tokens.add(fields, fields.text("content"), id_of(listed, id), fields);
      }
    }
    for (const auto& [content, id] : added_.json().items())
      if (tokens.find(content) == nullptr)
        tokens.add(added_, content, added_.number(content.c_str())).normalized = true;
    for (const std::string& content : special) {
      AddedToken* known = tokens.find(content);
      if (known == nullptr && vocabulary.find(content) == none)
        config_.fail(fmt::format("special token '{}' is not in the vocabulary", content));
      if (known == nullptr) known = &tokens.add(config_, content, vocabulary.find(content));
      known->special = true;
    }
    return tokens.take();
  }

  std::vector<std::string> additional_special() const {
    std::vector<std::string> contents;
    for (const Fields* fields : {&config_, &map_}) {
      if (fields->find("additional_special_tokens") == nullptr) continue;
      for (const auto& value : fields->array("additional_special_tokens")) {
        const json entry{{"content", value}};
        contents.push_back(content_of(Fields(entry, fields->where() + ": additional_special_tokens"), "content"));
      }
    }
    return contents;
  }

private:
  static std::uint64_t id_of(const Fields& fields, const std::string& text) {
    std::uint64_t id = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (error != std::errc() || end != text.data() + text.size()) fields.fail(fmt::format("'{}' is not an id", text));
    return id;
  }

  json config_json_, map_json_, added_json_;
  Fields config_, map_, added_;
};

/// Makes the added tokens, special among them those of roles. A token that is not configured but usual
/// counts when the vocabulary has it.
void add_tokens(const Configuration& files, const std::vector<std::pair<std::string, std::string>>& usual,
                Tokenizer::Parts& parts) {
  std::vector<std::string> special = files.additional_special();
  std::vector<std::pair<std::string, std::string>> roles;
  for (const char* name : role_names) {
    std::string content = files.role(name);
    for (const auto& [role, token] : usual)
      if (content.empty() && role == name && parts.vocabulary.find(token) != none) content = token;
    if (content.empty()) continue;
    roles.emplace_back(name, content);
    if (std::find(special.begin(), special.end(), content) == special.end()) special.push_back(content);
  }
  parts.added = AddedTokens(files.added(parts.vocabulary, special), parts.normalizer);
  for (const auto& [name, content] : roles) parts.roles.emplace(name, parts.find(content));
}

} // namespace

Vocabulary read_vocabulary(const Fields& entries) {
  Vocabulary vocabulary(entries.json().size());
  for (const auto& [token, id] : entries.json().items()) {
    if (!id.is_number_unsigned()) entries.fail(fmt::format("the id of '{}' is not a whole number from 0 on", token));
    vocabulary.add(token, id.get<std::uint64_t>(), entries.where());
  }
  return vocabulary;
}

void read_roles(const std::string& folder, Tokenizer::Parts& parts) {
  const Configuration files(folder);
  for (const char* name : role_names) {
    const std::string content = files.role(name);
    const std::uint32_t id = content.empty() ? none : parts.find(content);
    if (id != none) parts.roles.emplace(name, id);
  }
}

std::shared_ptr<Tokenizer::Parts> read_word_piece_folder(const std::string& folder) {
  const std::string path = join_path(folder, "vocab.txt");
  const Configuration files(folder);
  files.require_class({"BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer"});
  const Fields& config = files.config();
  if (!config.flag_or("do_basic_tokenize", true)) config.fail("do_basic_tokenize false is not supported");
  if (const json* never = config.find("never_split"); never != nullptr && !never->empty())
    config.fail("never_split is not supported");
  auto parts = std::make_shared<Tokenizer::Parts>();
  parts->vocabulary = read_vocab_txt(path);
  Normalizer& normalizer = parts->normalizer;
  normalizer.kind = Normalizer::Kind::bert;
  normalizer.space_cjk = config.flag_or("tokenize_chinese_chars", true);
  normalizer.lower_case = config.flag_or("do_lower_case", true);
  normalizer.strip_accents = config.flag_or("strip_accents", normalizer.lower_case);
  add_tokens(files, {{"unk", "[UNK]"}, {"sep", "[SEP]"}, {"pad", "[PAD]"}, {"cls", "[CLS]"}, {"mask", "[MASK]"}},
             *parts);
  WordPieceOptions options;
  options.unknown = files.role("unk", "[UNK]");
  parts->model = make_word_piece(parts->vocabulary, parts->added, options, path);
  parts->decoder.kind = Decoder::Kind::word_piece;
  for (const char* name : {"cls", "sep"})
    if (!parts->roles.contains(name))
      throw FileError(fmt::format("{}: the vocabulary lacks the token for {}", path, name));
  const std::int64_t cls = parts->roles.at("cls");
  const std::int64_t sep = parts->roles.at("sep");
  set_bert_template(*parts->token(cls), cls, *parts->token(sep), sep, parts->post_processor);
  return parts;
}

std::shared_ptr<Tokenizer::Parts> read_byte_pair_folder(const std::string& folder) {
  const std::string path = join_path(folder, "vocab.json");
  const Configuration files(folder);
  files.require_class({"GPT2Tokenizer"});
  const Fields& config = files.config();
  if (config.flag_or("add_bos_token", false)) config.fail("add_bos_token true is not supported");
  auto parts = std::make_shared<Tokenizer::Parts>();
  const json vocabulary = read_json(path);
  parts->vocabulary = read_vocabulary(Fields(vocabulary, path));
  add_tokens(files, {{"bos", "<|endoftext|>"}, {"eos", "<|endoftext|>"}, {"unk", "<|endoftext|>"}}, *parts);
  BytePairOptions options;
  options.prefix_blank = config.flag_or("add_prefix_space", false);
  const std::string merges = join_path(folder, "merges.txt");
  parts->model = make_byte_pairs(parts->vocabulary, parts->added, read_merges_txt(merges), options, merges);
  parts->decoder.kind = Decoder::Kind::byte_level;
  return parts;
}

} // namespace eg::data::tok
