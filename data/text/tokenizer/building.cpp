#include "data/text/tokenizer_building.h"

#include "core/base/utf8.h"
#include "data/text/tokenizer/byte_words.h"
#include "data/text/tokenizer/normalizer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>
#include <vector>

namespace eg::data {
namespace {

using Json = nlohmann::ordered_json;

/// The characters of several bytes, in the order of their code points.
std::set<std::string_view> long_characters(std::string_view text) {
  std::set<std::string_view> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = utf8_size(text.substr(at));
    if (size > 1) found.insert(text.substr(at, size));
    at += std::max<std::size_t>(size, 1);
  }
  return found;
}

std::string spelt(std::string_view bytes) {
  const tok::ByteLetters& letters = tok::ByteLetters::tables();
  std::string out;
  for (const char byte : bytes) out += letters.letter(static_cast<std::uint8_t>(byte));
  return out;
}

} // namespace

std::string character_tokenizer(std::string_view text) {
  Json vocabulary = Json::object(), merges = Json::array();
  for (int byte = 0; byte < 256; ++byte) vocabulary[spelt(std::string(1, static_cast<char>(byte)))] = byte;
  std::set<std::string> joined; // fronts of characters, and whole ones
  for (const std::string_view character : long_characters(text))
    for (std::size_t size = 2; size <= character.size(); ++size) {
      const std::string token = spelt(character.substr(0, size));
      if (!joined.insert(token).second) continue;
      vocabulary[token] = vocabulary.size();
      merges.push_back(Json::array({spelt(character.substr(0, size - 1)), spelt(character.substr(size - 1, 1))}));
    }
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  const Json file = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", Json::array()},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", byte_level},
                     {"post_processor", nullptr},
                     {"decoder", byte_level},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"vocab", std::move(vocabulary)},
                       {"merges", std::move(merges)}}}};
  return file.dump(1) + "\n";
}

namespace {

constexpr std::array special_tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
constexpr int cls = 2, sep = 3;

using Counts = std::unordered_map<std::string, std::size_t>;

/// Adds the words of a normalised text: what is between white space, punctuation marks by themselves.
void count_words(std::string_view text, Counts& counts) {
  const tok::Unicode& unicode = tok::Unicode::tables();
  std::size_t begin = 0;
  const auto add = [&](std::size_t from, std::size_t to) {
    if (from != to) ++counts[std::string(text.substr(from, to - from))];
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t here = at;
    const std::uint8_t sets = unicode.sets(next_utf8(text, at));
    if ((sets & (tok::space | tok::punctuation)) == 0) continue;
    add(begin, here);
    if ((sets & tok::space) == 0) add(here, at);
    begin = at;
  }
  add(begin, text.size());
}

/// The words that occur at least twice, the most frequent first, equal ones by their bytes.
std::vector<std::string> frequent(const Counts& counts, std::size_t most) {
  std::vector<std::pair<std::size_t, std::string>> words;
  for (const auto& [word, count] : counts)
    if (count > 1 && std::find(special_tokens.begin(), special_tokens.end(), word) == special_tokens.end())
      words.emplace_back(count, word);
  std::sort(words.begin(), words.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  words.resize(std::min(words.size(), most));
  std::vector<std::string> names;
  for (auto& [count, word] : words) names.push_back(std::move(word));
  return names;
}

Json added_token(const char* content, std::size_t id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

} // namespace

std::string word_tokenizer(FunctionRef<void(FunctionRef<void(std::string_view)>)> each, std::size_t most) {
  tok::Normalizer normalizer;
  normalizer.kind = tok::Normalizer::Kind::bert;
  Counts counts;
  tok::Normalized normalized;
  each([&](std::string_view text) {
    normalized.clear();
    count_words(normalizer.apply(text, normalized) ? std::string_view(normalized.text) : text, counts);
  });
  Json vocabulary = Json::object(), added = Json::array();
  for (const char* token : special_tokens) {
    added.push_back(added_token(token, vocabulary.size()));
    vocabulary[token] = vocabulary.size();
  }
  const std::size_t room = most > special_tokens.size() ? most - special_tokens.size() : 0;
  std::size_t id = special_tokens.size();
  for (const std::string& word : frequent(counts, room)) vocabulary.push_back({word, id++});
  const Json file = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", std::move(added)},
                     {"normalizer",
                      {{"type", "BertNormalizer"},
                       {"clean_text", true},
                       {"handle_chinese_chars", true},
                       {"strip_accents", nullptr},
                       {"lowercase", true}}},
                     {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                     {"post_processor",
                      {{"type", "BertProcessing"},
                       {"sep", Json::array({special_tokens[sep], sep})},
                       {"cls", Json::array({special_tokens[cls], cls})}}},
                     {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                     {"model",
                      {{"type", "WordPiece"},
                       {"unk_token", "[UNK]"},
                       {"continuing_subword_prefix", "##"},
                       {"max_input_chars_per_word", 100},
                       {"vocab", std::move(vocabulary)}}}};
  return file.dump(1) + "\n";
}

} // namespace eg::data
