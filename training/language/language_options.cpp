// LanguageOptions: defaults, checks, to and from JSON, and the model's config.json.

#include "training/language/language.h"
#include "training/language/text_options.h"
#include "training/option.h"
#include "training/permute_options.h"

namespace eg::training {
namespace {

using L = LanguageOptions;

bool is_llama(const L& o) { return o.model == LanguageModel::llama; }

void add_text(OptionTable<L>& t) {
  t.add("data", &L::data, "tinyshakespeare, or a UTF-8 text file (.gz and .xz are unpacked)")
      .must([](const L& o) { return unless(!o.data.empty(), "must name a text"); })
      .names(OptionPath::data, OnResume::free);
  t.add("data_dir", &L::data_dir, "Folder with the datasets (default: EQUIGRAD_DATA)")
      .idle([](const L& o) { return unless(o.data == "tinyshakespeare", "--data names the file {}", o.data); })
      .names(OptionPath::data_folder, OnResume::beside);
  t.add("validation", &L::validation, "Another text file to test on (default: the end of the data)")
      .names(OptionPath::input, OnResume::free);
  t.add("held_out", &L::held_out, "Share of the data that is kept to test on, its end")
      .must(inner_share)
      .idle([](const L& o) { return unless(o.validation.empty(), "--validation names the text to test on"); });
  t.add("tokenizer", &L::tokenizer, "Tokenizer's folder or file (default: every character is a token)")
      .names(OptionPath::input, OnResume::same_content);
  t.add("context", &L::context, "Tokens of a window, and the longest text that the model takes")
      .must(positive, at_most(1 << 20));
}

void add_model(OptionTable<L>& t) {
  add_text_width(t, "Width of the model", "Blocks");
  size_row(t.add("kv_heads", &L::kv_heads, "Heads of keys and values (0: as many as heads)"))
      .exists_if(is_llama)
      .must(not_negative);
  add_text_mlp(t, "Width of the MLP's hidden layer (0: 4 dim; Llama: 8/3 dim)");
  t.add("dropout", &L::dropout, "Probability on the embedding, the attention and both residual branches")
      .exists_if([](const L& o) { return !is_llama(o); })
      .must(probability)
      .must([](const L& o) { return dropout_of_twins(o.twin, o.dropout); });
  t.add("tied", &L::tied, "The head that predicts tokens is the embedding matrix").idle(sizes_of_start<L>);
}

void add_permutation(OptionTable<L>& t) {
  t.word("permute", &L::permute, permute::permute_mode_named,
         "none or columns: features in one secret order on the way through the blocks")
      .must([](const L& o) {
        return unless(!permutes_rows(o.permute),
                      "must be none or columns: behind a causal mask tokens have no other order");
      });
  add_key_form<L>(
      t, [](const L& o) { return permutes_columns(o.permute); }, "columns");
  add_key<L>(t, permutes_at_all<L>,
             "Secret key file (equigrad keygen --out KEY) that P_C is drawn from (default: from the seed, not secret)");
  add_twin(t);
  add_drift<L>(t, [](const L& o) { return o.twin; });
}

/// Sizes that must fit each other.
void check_heads(const L& o) {
  if (!is_llama(o) || !has_sizes(o)) return;
  need(o.kv_heads == 0 || o.heads % o.kv_heads == 0, o, o.heads,
       fmt::format("{} is not a multiple of kv_heads {}", o.heads, o.kv_heads));
  need(o.dim / o.heads % 2 == 0, o, o.dim,
       fmt::format("{} with {} heads gives heads of {} features; rotary positions turn pairs of features", o.dim,
                   o.heads, o.dim / o.heads));
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

const OptionTable<LanguageOptions>& option_table(const LanguageOptions&) {
  static const OptionTable<LanguageOptions> table = [] {
    OptionTable<LanguageOptions> t;
    add_text(t);
    add_model(t);
    add_permutation(t);
    t.append(option_table(FineTuning()), &LanguageOptions::start);
    t.append(run_options({.epochs = "Passes over the training text",
                          .batch = "Windows a step",
                          .label_smoothing = "Share of the next token spread over the whole vocabulary",
                          .evaluate_every = "Steps between tests on the held-out text (0: after every epoch)",
                          .out = "Run folder (default: out/MODEL, or the first of out/MODEL-2, ... without a run)"}));
    return t;
  }();
  return table;
}

void check(const LanguageOptions& o) {
  check_run_options(o);
  option_table(o).check(o);
  need(o.best != BestBy::accuracy, o, o.best, "must be loss or off: tests of language models measure no accuracy");
  check_twins(o, o.twin);
  check(o.start, o.out);
  check_heads(o);
}

nlohmann::ordered_json options_json(const LanguageOptions& options) {
  nlohmann::ordered_json out{{"model", std::string(name_of(options.model))}};
  return option_table(options).write(options, out);
}

void apply_options(LanguageOptions& options, const nlohmann::json& json, const std::string& source) {
  LanguageOptions changed = options;
  OptionReader reader(json, source);
  reader.require_model(name_of(options.model));
  option_table(changed).read(changed, reader);
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
