// LanguageOptions: defaults, checks, to and from JSON, and the model's config.json.

#include "training/language.h"
#include "training/option_fields.h"

namespace eg::training {
namespace {

/// The one list that reading and writing share: see option_fields.h.
template <class Visit> void each_option(LanguageOptions& o, Visit&& visit) {
  const bool llama = o.model == LanguageModel::llama;
  visit("data", o.data);
  visit("data_dir", o.data_dir);
  visit("validation", o.validation);
  visit("held_out", o.held_out);
  visit("tokenizer", o.tokenizer);
  visit("context", o.context);
  visit("dim", o.dim);
  visit("layers", o.layers);
  visit("heads", o.heads);
  if (llama) visit("kv_heads", o.kv_heads);
  visit("mlp", o.mlp);
  if (!llama) visit("dropout", o.dropout);
  visit("tied", o.tied);
  visit.word("permute", name_of(o.permute),
             [&](const std::string& word) { o.permute = permute::train_mode_named(word); });
  visit.word("key_form", name_of(o.key_form),
             [&](const std::string& word) { o.key_form = permute::key_form_named(word); });
  visit("key", o.key);
  visit("twin", o.twin);
  visit("drift_every", o.drift_every);
  each_fine_tuning_option(o.start, visit);
  each_run_option(o, visit);
}

} // namespace

std::string_view name_of(LanguageModel model) { return model == LanguageModel::gpt2 ? "gpt2" : "llama"; }

std::int64_t LanguageOptions::mlp_width() const {
  if (mlp > 0) return mlp;
  return model == LanguageModel::gpt2 ? 4 * dim : (8 * dim / 3 + 31) / 32 * 32;
}

LanguageOptions language_defaults(LanguageModel model) {
  LanguageOptions o;
  o.model = model;
  o.data = "tinyshakespeare";
  o.batch = 16;
  o.lr = 2e-3;
  o.warmup = 100;
  o.final_fraction = 0.1;
  o.weight_decay = 0.1;
  o.clip = 1.0;
  return o;
}

void check(const LanguageOptions& o) {
  check_run_options(o);
  need(!o.data.empty(), "data", "must name a text");
  need(o.best != BestBy::accuracy, "best", "must be loss or off: tests of language models measure no accuracy");
  need_share("held_out", o.held_out);
  need_positive("context", o.context);
  need_at_most("context", o.context, 1 << 20);
  need_probability("dropout", o.dropout);
  need(!permutes_rows(o.permute), "permute",
       "must be none or columns: behind a causal mask tokens have no other order");
  need_not_negative("drift_every", o.drift_every);
  const bool permutes = o.permute != permute::TrainMode::none;
  check_twins(o, o.twin, o.twin, permutes, o.dropout);
  need(o.key.empty() || permutes, "key", "is given, but nothing is permuted");
  check(o.start, o.out);
  if (o.start.begins()) return;
  check_body(o.dim, o.layers, o.heads, o.mlp);
  if (o.model != LanguageModel::llama) return;
  need_not_negative("kv_heads", o.kv_heads);
  need(o.kv_heads == 0 || o.heads % o.kv_heads == 0, "heads",
       fmt::format("{} is not a multiple of kv_heads {}", o.heads, o.kv_heads));
  need(o.dim / o.heads % 2 == 0, "dim",
       fmt::format("{} with {} heads gives heads of {} features; rotary positions turn pairs of features", o.dim,
                   o.heads, o.dim / o.heads));
}

nlohmann::ordered_json options_json(const LanguageOptions& options) {
  nlohmann::ordered_json out{{"model", std::string(name_of(options.model))}};
  LanguageOptions copy = options;
  each_option(copy, OptionWriter{out});
  return out;
}

void apply_options(LanguageOptions& options, const nlohmann::json& json, const std::string& source) {
  LanguageOptions changed = options;
  OptionReader reader(json, source);
  reader.require_model(name_of(options.model));
  each_option(changed, reader);
  reader.require_all_known();
  options = changed;
}

LanguageOptions language_options_of_run(const std::string& folder, LanguageModel model) {
  return options_to_resume(folder, std::string(name_of(model)), language_defaults(model));
}

nlohmann::json model_config(const LanguageOptions& o, const data::Tokenizer& tokenizer) {
  const auto id = [&](const char* role) {
    const std::optional<std::int64_t> found = tokenizer.role(role);
    return found ? nlohmann::json(*found) : nlohmann::json(); // null: not the family's customary id
  };
  nlohmann::json config = {{"vocab_size", tokenizer.id_end()},
                           {"bos_token_id", id("bos")},
                           {"eos_token_id", id("eos")},
                           {"tie_word_embeddings", o.tied}};
  if (o.model == LanguageModel::gpt2)
    config.update({{"model_type", "gpt2"},
                   {"architectures", {"GPT2LMHeadModel"}},
                   {"n_positions", o.context},
                   {"n_embd", o.dim},
                   {"n_layer", o.layers},
                   {"n_head", o.heads},
                   {"n_inner", o.mlp_width()},
                   {"activation_function", "gelu_new"},
                   {"layer_norm_epsilon", 1e-5}});
  else
    config.update({{"model_type", "llama"},
                   {"architectures", {"LlamaForCausalLM"}},
                   {"max_position_embeddings", o.context},
                   {"hidden_size", o.dim},
                   {"num_hidden_layers", o.layers},
                   {"num_attention_heads", o.heads},
                   {"num_key_value_heads", o.kv_heads > 0 ? o.kv_heads : o.heads},
                   {"intermediate_size", o.mlp_width()},
                   {"hidden_act", "silu"},
                   {"rms_norm_eps", 1e-6},
                   {"rope_theta", 10000.0}});
  set_dropout(config, o);
  return config;
}

void set_dropout(nlohmann::json& config, const LanguageOptions& o) {
  if (o.model == LanguageModel::gpt2)
    for (const char* place : {"embd_pdrop", "attn_pdrop", "resid_pdrop"}) config[place] = o.dropout;
}

} // namespace eg::training
