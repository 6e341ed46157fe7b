#include "apps/cli/train_config.h"

#include "core/base/error.h"
#include "core/base/json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string_view>

namespace eg::cli {
namespace {

bool is_word_part(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Whether `words` hold `word` as a whole one.
bool mention(std::string_view words, std::string_view word) {
  for (std::size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word_part(words[at - 1])) && (end == words.size() || !is_word_part(words[end]))) return true;
  }
  return false;
}

/// Messages about options name them as a config does; those about a flag begin with the flag.
bool is_about(const nlohmann::json& options, const nlohmann::json& given, std::string_view words) {
  if (!options.is_object() || words.starts_with("--")) return false;
  for (const auto& [key, value] : given.items())
    if (mention(words, key)) return false;
  for (const auto& [key, value] : options.items())
    if (mention(words, key)) return true;
  return false;
}

} // namespace

void naming_config(const std::string& config, const nlohmann::json& given, FunctionRef<void()> f) {
  try {
    f();
  } catch (const ValueError& error) {
    std::string_view words = error.what();
    if (config.empty() || words.starts_with(config + ":") || !is_about(read_json(config), given, words)) throw;
    constexpr std::string_view verb = "train: ";
    if (words.starts_with(verb)) words.remove_prefix(verb.size());
    throw ValueError(fmt::format("{}: {}", config, words));
  }
}

} // namespace eg::cli
