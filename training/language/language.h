#pragma once
// Trains causal language models, GPT-2 and Llama, on plain text.

#include "core/base/interrupt.h"
#include "data/text/tokenizer.h"
#include "training/fine_tuning.h"
#include "training/trainer.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace eg::training {

enum class LanguageModel : std::uint8_t { gpt2, llama };
std::string_view name_of(LanguageModel model);

/// All that determines a run. `data` is a text (data::find_text), a batch is so many windows of it.
struct LanguageOptions : RunOptions {
  LanguageModel model = LanguageModel::gpt2;
  std::string validation;     ///< another text to test on; empty: the end of `data`
  double held_out = 0.1;      ///< share of `data` that is kept to test on, its end
  std::string tokenizer;      ///< folder or file; empty: characters (data::character_tokenizer)
  std::int64_t context = 128; ///< tokens of a window, and the longest text that the model takes
  std::int64_t dim = 128;
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0; ///< Llama: heads of keys and values; 0: as many as heads
  std::int64_t mlp = 0;      ///< width of the hidden layer; 0: 4 dim, for Llama 8/3 dim rounded up to 32
  double dropout = 0.0;      ///< GPT-2: of the embedding, the attention and both residual branches
  bool tied = true;          ///< the language-model head is the embedding matrix
  permute::PermuteMode permute =
      permute::PermuteMode::none; ///< none or columns: a causal mask leaves tokens no other order
  permute::KeyForm key_form = permute::KeyForm::decoupled;
  std::string key;               ///< secret key file (permute/key.h); empty: permutations are drawn from the seed
  bool twin = false;             ///< train the plain model beside the permuted one
  std::int64_t drift_every = 10; ///< steps between measurements of the drift; 0: at the end only
  FineTuning start;              ///< from a model, whose sizes count then

  std::int64_t mlp_width() const;
};

/// The default options of a run.
LanguageOptions language_defaults(LanguageModel model);

/// The rows of these options (training/option.h).
const OptionTable<LanguageOptions>& option_table(const LanguageOptions& options);
/// Throws ValueError that names the option when a value is out of range or options contradict each other.
void check(const LanguageOptions& options);
/// The options as one flat JSON object, keys named as the command line's flags with '_' for '-', and "model".
nlohmann::ordered_json options_json(const LanguageOptions& options);
/// Overrides the options that `json` names. Throws ValueError, beginning with `source`, for an unknown key (with the
/// nearest one there is), a value of another kind, a word that no option knows, and options of another model.
void apply_options(LanguageOptions& options, const nlohmann::json& json, const std::string& source);
/// The options that a run or checkpoint folder was made with, as training::options_of_run. Throws ValueError when it is
/// a run of another model, FileError.
LanguageOptions language_options_of_run(const std::string& folder, LanguageModel model);

/// The config.json of the model, as Hugging Face's transformers has it. `tokenizer` says how many ids there are and
/// which end texts.
nlohmann::json model_config(const LanguageOptions& options, const data::Tokenizer& tokenizer);

/// Sets the config's dropout, where the family has any, to the options'.
void set_dropout(nlohmann::json& config, const LanguageOptions& options);

/// Moves the blocks of a model that a run of such options left as they were trained back to the plain ones. Throws
/// FileError for the key file.
void restore_blocks(nn::Module& decoder, const LanguageOptions& options);

/// Opens text and tokenizer, makes the model, resumes. A batch of step s is `batch` windows of context + 1 tokens whose
/// places are drawn by (seed, s); the loss is -mean log p of each next token, in nats. A test cuts the held-out text
/// into windows of context tokens side by side and predicts every token but the first. RUN/model receives the final
/// model as a folder of Hugging Face's format, with its tokenizer. With options.permute Z passes the blocks as
/// Dec_(C)(Z P_C) P_C^T, their weights coupled to P_C, and stays so in that folder (papers 001 and 004). Throws
/// ValueError, FileError, MemoryError; Interrupted when `stop` becomes true while the text is read.
std::unique_ptr<Trainer> language_trainer(const LanguageOptions& options, StopFlag stop = nullptr,
                                          distributed::Communicator* processes = nullptr);

} // namespace eg::training
