#pragma once
// Trains BERT to classify texts and pairs of texts, or to guess masked words.

#include "core/base/interrupt.h"
#include "data/text/tokenizer.h"
#include "training/fine_tuning.h"
#include "training/permuted_encoder.h"
#include "training/trainer.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace eg::training {

/// What a BERT learns: classes of texts, or words that were masked.
enum class BertTask : std::uint8_t { classify, mlm };
/// "classify" or "mlm". Throws ValueError.
BertTask bert_task_named(std::string_view name);
std::string_view name_of(BertTask task);

/// All that determines a run. `data` are labelled texts (data::open_labelled_texts), a batch is so many of them; for
/// mlm a text (data::find_text), a batch is so many windows of it.
struct ClassifyOptions : RunOptions {
  ClassifyOptions();
  BertTask task = BertTask::classify;
  std::string validation;       ///< another file to test on; empty: the data's own test part
  double held_out = 0.1;        ///< share of a single file that is kept to test on
  std::int64_t train_limit = 0; ///< at most that many training texts; 0: all
  std::int64_t test_limit = 0;
  std::string tokenizer;           ///< folder or file; empty: the words of the training texts (data::word_tokenizer)
  std::int64_t vocabulary = 20000; ///< most tokens of a tokenizer that is made
  std::int64_t context = 256;      ///< longest text, tokens; what is longer is cut at its end
  std::int64_t dim = 128;
  std::int64_t layers = 2;
  std::int64_t heads = 4;
  std::int64_t mlp = 0;           ///< width of the hidden layer; 0: 4 dim
  double dropout = 0.1;           ///< of the embedding, both residual branches and what the classifier reads
  double attention_dropout = 0.0; ///< of attention weights; above 0 a step takes a third more time
  double mask_share = 0.15;       ///< mlm: of the tokens of a window
  permute::PermuteMode permute = permute::PermuteMode::none; ///< what is permuted in the blocks
  permute::KeyForm key_form = permute::KeyForm::decoupled;
  std::string key;  ///< secret key file (permute/key.h); empty: permutations are drawn from the seed
  FineTuning start; ///< from a model, whose sizes count then
};

/// The rows of these options (training/option.h).
const OptionTable<ClassifyOptions>& option_table(const ClassifyOptions& options);
/// Throws ValueError that names the option when a value is out of range or options contradict each other.
void check(const ClassifyOptions& options);
/// The options as one flat JSON object, keys named as the command line's flags with '_' for '-', and "model".
nlohmann::ordered_json options_json(const ClassifyOptions& options);
/// Overrides the options that `json` names. Throws ValueError, beginning with `source`, for an unknown key (with the
/// nearest one there is), a value of another kind, a word that no option knows, and options of another model.
void apply_options(ClassifyOptions& options, const nlohmann::json& json, const std::string& source);
/// The options that a run or checkpoint folder was made with, as training::options_of_run. Throws ValueError when it is
/// a run of another model, FileError.
ClassifyOptions classify_options_of_run(const std::string& folder);

/// The defaults of a BERT whose blocks are elsewhere: no clipping, which needs the joint norm of all gradients.
ClassifyOptions split_bert_defaults();

/// Moves the blocks of a model that a run of such options left as they were trained back to the plain ones. Throws
/// FileError for the key file.
void restore_blocks(nn::Module& bert, const ClassifyOptions& options);

/// The trainer that options.task asks for: classify_trainer or masked_trainer. With options.permute Z passes the blocks
/// as P_R^T Enc(P_R Z P_C) P_C^T, another P_R for every text and step, the mask of padding moved along; the blocks'
/// weights are moved by P_C and the inner permutations of options.key_form before the first step, and stay moved in the
/// model that the run leaves. With split.encoder the blocks are another party's, and the run leaves what
/// split.final_weights says (paper 001, section 4.4; CVPR Table 5).
std::unique_ptr<Trainer> bert_trainer(const ClassifyOptions& options, StopFlag stop = nullptr,
                                      const SplitTraining& split = {}, distributed::Communicator* processes = nullptr);

/// Opens text and tokenizer (without one: the words of the training text), makes the model (BertForMaskedLM), resumes.
/// A step takes `batch` windows of context - 2 tokens between [CLS] and [SEP] at places that (seed, step) draws;
/// mask_share of them, at least one a window, are to be guessed: of ten 8 become [MASK], one a token drawn from the
/// vocabulary, one stays (Devlin et al., NAACL 2019). The loss is the cross-entropy of those. A test cuts the held-out
/// text into such windows side by side, whose masks their number alone draws, and counts what was guessed right.
/// Throws ValueError, FileError, MemoryError; Interrupted.
std::unique_ptr<Trainer> masked_trainer(const ClassifyOptions& options, StopFlag stop = nullptr,
                                        const SplitTraining& split = {},
                                        distributed::Communicator* processes = nullptr);

/// Opens texts and tokenizer, makes the model (BertForSequenceClassification), resumes. The texts of an epoch come in
/// an order that (seed, epoch) draws; a last batch that is not full is left out. A test measures cross-entropy and
/// accuracy on the test texts. RUN/model receives the final model as a folder of Hugging Face's format, with its
/// tokenizer and the classes' names. Throws ValueError, FileError, MemoryError; Interrupted when `stop` becomes true
/// while texts are read.
std::unique_ptr<Trainer> classify_trainer(const ClassifyOptions& options, StopFlag stop = nullptr,
                                          const SplitTraining& split = {},
                                          distributed::Communicator* processes = nullptr);

} // namespace eg::training
