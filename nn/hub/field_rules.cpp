#include "nn/hub/field_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace eg::hub {
namespace {

using nlohmann::json;
using Names = std::span<const char* const>;

/// null, false, and empty texts, lists and objects switch a feature off.
bool is_off(const json& value, const Fields&) {
  return value.is_null() || value == false || value == "" || (value.is_structured() && value.empty());
}
bool is_zero(const json& value, const Fields&) { return value.is_null() || value == 0; }
bool is_true(const json& value, const Fields&) { return value == true; }
bool is_false(const json& value, const Fields&) { return value.is_null() || value == false; }
bool is_one(const json& value, const Fields&) { return value.is_null() || (value.is_number() && value == 1.0); }
bool is_absolute(const json& value, const Fields&) { return value.is_null() || value == "absolute"; }

bool is_full_attention(const json& value, const Fields&) {
  const auto full = [](const json& type) { return type == "full_attention" || type == "attention"; };
  return value.is_null() || (value.is_array() && std::all_of(value.begin(), value.end(), full));
}

bool is_share_of_head(const json& value, const Fields& all) {
  const bool gpt2 = all.has("n_embd") || all.has("n_head");
  const std::int64_t dim = all.integer("hidden_size", gpt2 ? all.integer("n_embd", 768) : 768);
  const std::int64_t heads = all.integer("num_attention_heads", gpt2 ? all.integer("n_head", 12) : 12);
  return value.is_null() || (value.is_number_integer() && heads > 0 && value == dim / heads);
}

// Of every class of transformers.
constexpr std::array of_all_read = {"architectures", "model_type"};
constexpr std::array about_names = {"_commit_hash",         "_name_or_path",   "name_or_path",
                                    "transformers_version", "tokenizer_class", "finetuning_task",
                                    "task_specific_params", "prefix",          "label2id"};
constexpr std::array about_types = {"dtype", "torch_dtype", "torchscript", "use_bfloat16"};
constexpr std::array about_training = {"initializer_range", "problem_type", "gradient_checkpointing", "tf_legacy_loss"};
constexpr std::array about_returning = {"output_attentions", "output_hidden_states", "output_cross_attentions",
                                        "return_dict", "use_cache"};
constexpr std::array about_computing = {"attn_implementation", "_attn_implementation", "experts_implementation",
                                        "_experts_implementation", "chunk_size_feed_forward"};
constexpr std::array about_special_ids = {"bos_token_id", "eos_token_id", "sep_token_id", "decoder_start_token_id"};
constexpr std::array about_generating = {"bad_words_ids",
                                         "begin_suppress_tokens",
                                         "diversity_penalty",
                                         "do_sample",
                                         "early_stopping",
                                         "encoder_no_repeat_ngram_size",
                                         "exponential_decay_length_penalty",
                                         "forced_bos_token_id",
                                         "forced_eos_token_id",
                                         "length_penalty",
                                         "max_length",
                                         "min_length",
                                         "no_repeat_ngram_size",
                                         "num_beam_groups",
                                         "num_beams",
                                         "num_return_sequences",
                                         "output_scores",
                                         "remove_invalid_values",
                                         "repetition_penalty",
                                         "return_dict_in_generate",
                                         "suppress_tokens",
                                         "temperature",
                                         "top_k",
                                         "top_p",
                                         "typical_p"};
constexpr std::array off_everywhere = {"add_cross_attention",
                                       "attention_chunk_size",
                                       "cross_attention_hidden_size",
                                       "decoder",
                                       "fusion_config",
                                       "generator",
                                       "gguf_file",
                                       "is_encoder_decoder",
                                       "kv_sharing_modes",
                                       "mtp_layer_types",
                                       "per_layer_config",
                                       "pruned_heads",
                                       "quantization_config",
                                       "sliding_window",
                                       "text_config",
                                       "text_encoder",
                                       "tie_encoder_decoder",
                                       "transformers_weights",
                                       "vision_aspect_ratio",
                                       "vision_feature_layer",
                                       "vision_feature_select_strategy"};
constexpr std::array about_own_code = {"auto_map"};
constexpr std::array of_rotary = {"rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor"};

constexpr FieldRule two_ways{"is_causal", FieldUse::fixed, "false or null", is_false};
constexpr FieldRule one_way{"is_causal", FieldUse::fixed, "true", is_true};
constexpr FieldRule divided_heads{"head_dim", FieldUse::fixed, "the hidden size over the number of heads",
                                  is_share_of_head};
constexpr FieldRule encoder_only{"is_decoder", FieldUse::fixed, "false", is_false};

constexpr std::array bert_read = {"vocab_size",
                                  "max_position_embeddings",
                                  "type_vocab_size",
                                  "num_hidden_layers",
                                  "hidden_size",
                                  "num_attention_heads",
                                  "intermediate_size",
                                  "hidden_act",
                                  "layer_norm_eps",
                                  "hidden_dropout_prob",
                                  "attention_probs_dropout_prob",
                                  "classifier_dropout",
                                  "id2label",
                                  "num_labels",
                                  "pad_token_id",
                                  "tie_word_embeddings"};
constexpr std::array gpt2_read = {"n_embd",
                                  "hidden_size",
                                  "n_head",
                                  "num_attention_heads",
                                  "n_layer",
                                  "num_hidden_layers",
                                  "vocab_size",
                                  "n_positions",
                                  "max_position_embeddings",
                                  "n_ctx",
                                  "n_inner",
                                  "activation_function",
                                  "layer_norm_epsilon",
                                  "resid_pdrop",
                                  "attn_pdrop",
                                  "embd_pdrop",
                                  "scale_attn_weights",
                                  "scale_attn_by_inverse_layer_idx",
                                  "tie_word_embeddings",
                                  "classifier_dropout",
                                  "hidden_dropout",
                                  "id2label",
                                  "num_labels",
                                  "pad_token_id"};
constexpr std::array gpt2_harmless = {
    "is_decoder",           "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout",
    "summary_last_dropout", "summary_proj_to_labels",  "summary_type",       "summary_use_proj"};
constexpr std::array llama_read = {"num_attention_heads",
                                   "hidden_size",
                                   "num_key_value_heads",
                                   "intermediate_size",
                                   "num_hidden_layers",
                                   "vocab_size",
                                   "max_position_embeddings",
                                   "original_max_position_embeddings",
                                   "head_dim",
                                   "hidden_act",
                                   "rms_norm_eps",
                                   "attention_bias",
                                   "mlp_bias",
                                   "attention_dropout",
                                   "tie_word_embeddings",
                                   "classifier_dropout",
                                   "hidden_dropout",
                                   "id2label",
                                   "num_labels",
                                   "pad_token_id",
                                   "rope_theta",
                                   "rope_scaling",
                                   "rope_parameters"};
constexpr std::array llama_harmless = {"is_decoder", "pretraining_tp"};
constexpr std::array vision_read = {"image_size",
                                    "patch_size",
                                    "num_channels",
                                    "num_hidden_layers",
                                    "hidden_size",
                                    "num_attention_heads",
                                    "intermediate_size",
                                    "hidden_act",
                                    "layer_norm_eps",
                                    "hidden_dropout_prob",
                                    "attention_probs_dropout_prob",
                                    "qkv_bias",
                                    "id2label",
                                    "num_labels",
                                    "pooler_output_size",
                                    "pooler_act"};
constexpr std::array vision_harmless = {"encoder_stride", "embedding_size", "pad_token_id", "tie_word_embeddings",
                                        "vocab_size"};
constexpr std::array timm_read = {"architecture", "num_classes", "global_pool", "model_args"};

using Rules = std::vector<FieldRule>;

void add_read(Rules& rules, Names names) {
  for (const char* name : names) rules.push_back({name, FieldUse::read, ""});
}

void add_harmless(Rules& rules, Names names, const char* about) {
  for (const char* name : names) rules.push_back({name, FieldUse::harmless, about});
}

void add_off(Rules& rules, Names names) {
  for (const char* name : names) rules.push_back({name, FieldUse::fixed, "null, or nothing in it", is_off});
}

void add_common(Rules& rules) {
  add_read(rules, of_all_read);
  add_harmless(rules, about_names, "names and versions");
  add_harmless(rules, about_types, "types of numbers in files");
  add_harmless(rules, about_training, "training and losses");
  add_harmless(rules, about_returning, "what is returned besides");
  add_harmless(rules, about_computing, "how the same is computed");
  add_harmless(rules, about_special_ids, "where texts begin and end");
  add_harmless(rules, about_generating, "generation, whose settings are those of generation_config.json");
  add_harmless(rules, about_own_code, "classes that come with the folder; model_type and architectures decide here");
  add_off(rules, off_everywhere);
  rules.push_back({"num_kv_shared_layers", FieldUse::fixed, "0", is_zero});
  rules.push_back({"layer_types", FieldUse::fixed, "null, or full_attention for every layer", is_full_attention});
}

void add_bert(Rules& rules) {
  add_read(rules, bert_read);
  add_harmless(rules, std::array{"embedding_size"}, "other families");
  add_off(rules, of_rotary);
  rules.insert(rules.end(), {two_ways,
                             divided_heads,
                             encoder_only,
                             {"position_embedding_type", FieldUse::fixed, "\"absolute\"", is_absolute}});
}

void add_gpt2(Rules& rules) {
  add_read(rules, gpt2_read);
  add_harmless(rules, gpt2_harmless, "other classes, or rounding");
  add_off(rules, of_rotary);
  rules.insert(rules.end(), {one_way, divided_heads});
}

void add_llama(Rules& rules) {
  add_read(rules, llama_read);
  add_harmless(rules, llama_harmless, "other classes, or rounding");
  rules.insert(rules.end(), {one_way,
                             {"partial_rotary_factor", FieldUse::fixed, "1", is_one},
                             {"token_classification_bias", FieldUse::fixed, "true", is_true}});
}

void add_vision(Rules& rules) {
  add_read(rules, vision_read);
  add_harmless(rules, vision_harmless, "other families");
  add_off(rules, of_rotary);
  rules.insert(rules.end(), {two_ways, divided_heads, encoder_only});
}

} // namespace

std::vector<FieldRule> field_rules(std::string_view family) {
  Rules rules;
  if (family == "timm") {
    add_read(rules, timm_read);
    return rules;
  }
  add_common(rules);
  if (family == "bert") add_bert(rules);
  if (family == "gpt2") add_gpt2(rules);
  if (family == "llama") add_llama(rules);
  if (family == "vit" || family == "deit") add_vision(rules);
  return rules;
}

void refuse_unread_fields(const Fields& fields, std::string_view family) {
  const json& config = fields.json();
  for (const FieldRule& rule : field_rules(family)) {
    if (rule.use != FieldUse::fixed) continue;
    const auto at = config.find(rule.name);
    if (at == config.end() || rule.fits(*at, fields)) continue;
    constexpr std::size_t most = 60;
    std::string value = at->dump(-1, ' ', true, json::error_handler_t::replace);
    if (value.size() > most) value = value.substr(0, most) + "...";
    fields.refuse(rule.name, fmt::format("is {}, which can change results and is not supported for {}; supported is {}",
                                         value, family, rule.words));
  }
}

} // namespace eg::hub
