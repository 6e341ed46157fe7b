#pragma once
// Reads generation_config.json, the settings with which a model folder generates text.

#include "nn/generate.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eg::hub {

/// What generation_config.json says, or where a folder has none, fields of these names in config.json, as transformers'
/// generate understands them.
struct GenerationSettings {
  std::string source; ///< the file
  bool do_sample = false;
  std::optional<double> temperature, top_p, min_p;
  std::optional<std::int64_t> top_k, max_new_tokens;
  std::optional<std::int64_t> max_length; ///< tokens, the prompt's included
  nn::LogitRules rules;
  bool use_cache = true;
  std::vector<std::int64_t> end_ids; ///< eos_token_id

  /// The new tokens at most that the file allows after such a prompt; nothing where it gives no limit. Throws FileError
  /// where the prompt leaves no tokens below max_length.
  std::optional<std::int64_t> most_new_tokens(std::int64_t prompt) const;
};

/// Reads them. Throws FileError that names file and field for a value of the wrong kind or range, and for a field that
/// could change the text and is not supported (num_beams, stop_strings, ...), unless its value changes nothing.
GenerationSettings read_generation_settings(const std::string& folder);

/// Ids that end a text: eos_token_id (one or a list) of generation_config.json, or where the folder has none, of
/// config.json or its model_type's default (gpt2 50256, llama 2). Null: no id does. Throws FileError when it is neither
/// a number nor a list of numbers.
std::vector<std::int64_t> end_ids(const std::string& folder);

/// One field of transformers' GenerationConfig (4.57 and 5.x), and what is made of it.
struct GenerationField {
  enum class Use : std::uint8_t {
    honoured, ///< done as there
    harmless, ///< changes no token of one text of a causal model
    refused   ///< may change the text: refused unless null or neutral
  };
  std::string_view name;
  Use use;
  std::string_view neutral = "null"; ///< JSON of the value that changes nothing
};
/// All of them. What is not among them transformers passes over, and so does this reader.
std::span<const GenerationField> generation_fields();

} // namespace eg::hub
