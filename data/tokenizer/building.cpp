#include "data/tokenizer_building.h"

#include "core/utf8.h"
#include "data/tokenizer/byte_words.h"

#include <nlohmann/json.hpp>

#include <set>

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

} // namespace eg::data
