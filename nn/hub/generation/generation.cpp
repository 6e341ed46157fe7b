#include "nn/hub/generation/generation.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "nn/hub/fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace eg::hub {
namespace {

using Use = GenerationField::Use;

constexpr std::array<GenerationField, 72> fields_known{{
    {"do_sample", Use::honoured},
    {"temperature", Use::honoured},
    {"top_k", Use::honoured},
    {"top_p", Use::honoured},
    {"min_p", Use::honoured},
    {"repetition_penalty", Use::honoured},
    {"no_repeat_ngram_size", Use::honoured},
    {"max_new_tokens", Use::honoured},
    {"max_length", Use::honoured},
    {"min_new_tokens", Use::honoured},
    {"min_length", Use::honoured},
    {"suppress_tokens", Use::honoured},
    {"begin_suppress_tokens", Use::honoured},
    {"eos_token_id", Use::honoured},
    {"use_cache", Use::honoured}, // it matters to dynamic rope alone
    // Beams, several texts and other ways to search.
    {"num_beams", Use::refused, "1"},
    {"num_beam_groups", Use::refused, "1"},
    {"num_return_sequences", Use::refused, "1"},
    {"diversity_penalty", Use::refused, "0"},
    {"penalty_alpha", Use::refused, "0"},
    {"dola_layers", Use::refused},
    {"constraints", Use::refused},
    {"force_words_ids", Use::refused},
    {"use_mtp", Use::refused, "false"},
    {"prompt_lookup_num_tokens", Use::refused},
    {"assistant_early_exit", Use::refused},
    // What else is done to logits.
    {"typical_p", Use::refused, "1"},
    {"epsilon_cutoff", Use::refused, "0"},
    {"eta_cutoff", Use::refused, "0"},
    {"top_h", Use::refused},
    {"encoder_repetition_penalty", Use::refused, "1"},
    {"encoder_no_repeat_ngram_size", Use::refused, "0"},
    {"bad_words_ids", Use::refused},
    {"sequence_bias", Use::refused},
    {"exponential_decay_length_penalty", Use::refused},
    {"forced_bos_token_id", Use::refused},
    {"forced_eos_token_id", Use::refused},
    {"guidance_scale", Use::refused, "1"},
    {"watermarking_config", Use::refused},
    {"token_healing", Use::refused, "false"},
    // When a text ends besides.
    {"stop_strings", Use::refused},
    {"max_time", Use::refused},
    // A cache in fewer bits.
    {"cache_implementation", Use::refused, R"(["dynamic", "static", "offloaded", "offloaded_static"])"},
    {"cache_config", Use::refused},
    // Of beams, of what is given back, of speed and memory, of encoders and assistants.
    {"early_stopping", Use::harmless},
    {"length_penalty", Use::harmless},
    {"renormalize_logits", Use::harmless},
    {"remove_invalid_values", Use::harmless}, // NaN is refused
    {"output_attentions", Use::harmless},
    {"output_hidden_states", Use::harmless},
    {"output_scores", Use::harmless},
    {"output_logits", Use::harmless},
    {"return_dict_in_generate", Use::harmless},
    {"return_legacy_cache", Use::harmless},
    {"max_cache_len", Use::harmless},
    {"prefill_chunk_size", Use::harmless},
    {"low_memory", Use::harmless},
    {"compile_config", Use::harmless},
    {"disable_compile", Use::harmless},
    {"continuous_batching_config", Use::harmless},
    {"pad_token_id", Use::harmless},
    {"bos_token_id", Use::harmless}, // a text always has a first token
    {"decoder_start_token_id", Use::harmless},
    {"is_assistant", Use::harmless},
    {"num_assistant_tokens", Use::harmless},
    {"num_assistant_tokens_schedule", Use::harmless},
    {"assistant_confidence_threshold", Use::harmless},
    {"assistant_lookbehind", Use::harmless},
    {"target_lookbehind", Use::harmless},
    {"max_matching_ngram_size", Use::harmless},
    {"assistant_ensemble_weight", Use::harmless},
    {"speculation_type", Use::harmless}, // of assistants, which are refused
}};

/// The file that holds the settings, and its fields.
struct Source {
  std::string path;
  nlohmann::json content;
  bool own = false; ///< generation_config.json
};

std::optional<Source> source_of(const std::string& folder) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    Source source{join_path(folder, name), {}, std::string_view(name) == "generation_config.json"};
    if (!file_exists(source.path)) continue;
    source.content = read_json(source.path);
    if (!source.content.is_object()) throw FileError(source.path + ": is not a JSON object");
    return source;
  }
  return {};
}

std::vector<std::int64_t> ids_of(const Source& source, const char* name) {
  const Fields fields(source.content, source.path);
  std::vector<std::int64_t> all;
  if (!fields.has(name)) return all;
  const nlohmann::json& value = source.content[name];
  if (!value.is_array() && !value.is_number_integer()) fields.refuse(name, "must be a whole number or a list of them");
  if (!value.is_array()) return {fields.integer(name)};
  for (const nlohmann::json& id : value) {
    if (!id.is_number_integer()) fields.refuse(name, "must be a whole number or a list of them");
    all.push_back(id.get<std::int64_t>());
  }
  return all;
}

std::vector<std::int64_t> end_ids_of(const Source& source) {
  constexpr const char* name = "eos_token_id";
  if (source.own || source.content.contains(name)) return ids_of(source, name);
  const nlohmann::json family = source.content.value("model_type", nlohmann::json());
  if (family == "gpt2") return {50256};
  if (family == "llama") return {2};
  return {};
}

/// Whether a field's value changes nothing.
bool is_neutral(const GenerationField& field, const nlohmann::json& value) {
  const nlohmann::json neutral = nlohmann::json::parse(field.neutral);
  if (value.is_null() || value == neutral) return true;
  return neutral.is_array() && std::find(neutral.begin(), neutral.end(), value) != neutral.end();
}

void refuse_others(const Source& source) {
  for (const GenerationField& field : fields_known) {
    const auto at = source.content.find(std::string(field.name));
    if (field.use != Use::refused || at == source.content.end() || is_neutral(field, *at)) continue;
    Fields(source.content, source.path)
        .refuse(at.key().c_str(), fmt::format("is {}, which is not supported and may change the text",
                                              at->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  }
}

/// Reads a number that must be in a range.
class Numbers {
public:
  explicit Numbers(const Source& source) : fields_(source.content, source.path) {}

  std::optional<std::int64_t> count(const char* name, std::int64_t least) const {
    if (!fields_.has(name)) return {};
    const std::int64_t value = fields_.integer(name);
    if (value < least) fields_.refuse(name, fmt::format("is {}, less than {}", value, least));
    return value;
  }
  /// Above `least` (with `from`: or `least` itself) and at most `most`.
  std::optional<double> real(const char* name, double least, bool from, double most) const {
    if (!fields_.has(name)) return {};
    const double value = fields_.real(name, 0.0);
    if (!((from ? value >= least : value > least) && value <= most && std::isfinite(value)))
      fields_.refuse(name, fmt::format("is {}, not a number {} {}{}", value, from ? "from" : "above", least,
                                       std::isfinite(most) ? fmt::format(" to {}", most) : ""));
    return value;
  }
  bool flag(const char* name, bool otherwise) const {
    return fields_.has(name) ? fields_.flag(name, false) : otherwise;
  }

private:
  Fields fields_;
};

void read_sampling(const Numbers& numbers, GenerationSettings& s) {
  s.do_sample = numbers.flag("do_sample", false);
  // Files that do not sample hold 0 here for "not used": flags that ask for sampling find no value.
  const auto share = [&](const char* name, double most) {
    const std::optional<double> value = numbers.real(name, 0.0, !s.do_sample, most);
    return value == 0.0 ? std::nullopt : value;
  };
  s.temperature = share("temperature", HUGE_VAL);
  s.top_p = share("top_p", 1.0);
  s.min_p = numbers.real("min_p", 0.0, true, 1.0);
  s.top_k = numbers.count("top_k", 0);
}

nn::LogitRules rules_of(const Source& source, const Numbers& numbers) {
  const std::optional<std::int64_t> min_length = numbers.count("min_length", 0),
                                    min_new_tokens = numbers.count("min_new_tokens", 0);
  return {.repetition_penalty = numbers.real("repetition_penalty", 0.0, false, HUGE_VAL).value_or(1.0),
          .no_repeat_ngram_size = numbers.count("no_repeat_ngram_size", 0).value_or(0),
          // transformers puts one in the other's place
          .min_length = min_new_tokens ? 0 : min_length.value_or(0),
          .min_new_tokens = min_new_tokens.value_or(0),
          .suppress_tokens = ids_of(source, "suppress_tokens"),
          .begin_suppress_tokens = ids_of(source, "begin_suppress_tokens")};
}

} // namespace

std::span<const GenerationField> generation_fields() { return fields_known; }

std::optional<std::int64_t> GenerationSettings::most_new_tokens(std::int64_t prompt) const {
  if (max_new_tokens) return max_new_tokens;
  if (!max_length) return {};
  if (prompt >= *max_length)
    throw FileError(fmt::format("{}: field 'max_length' is {}, and the prompt has {} tokens: say how many are to "
                                "follow (--max-new-tokens)",
                                source, *max_length, prompt));
  return *max_length - prompt;
}

GenerationSettings read_generation_settings(const std::string& folder) {
  const std::optional<Source> source = source_of(folder);
  GenerationSettings s;
  if (!source) return s;
  s.source = source->path;
  refuse_others(*source);
  const Numbers numbers(*source);
  read_sampling(numbers, s);
  s.max_new_tokens = numbers.count("max_new_tokens", 0);
  s.max_length = numbers.count("max_length", 0);
  s.use_cache = numbers.flag("use_cache", true);
  s.rules = rules_of(*source, numbers);
  s.end_ids = end_ids_of(*source);
  return s;
}

std::vector<std::int64_t> end_ids(const std::string& folder) {
  const std::optional<Source> source = source_of(folder);
  return source ? end_ids_of(*source) : std::vector<std::int64_t>();
}

} // namespace eg::hub
