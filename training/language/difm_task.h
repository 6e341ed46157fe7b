#pragma once
// Trains a dual input-aware factorization machine on a table, its fields permuted or not (paper 001, C.4).

#include "core/base/interrupt.h"
#include "data/text/tabular.h"
#include "nn/difm.h"
#include "training/fine_tuning.h"
#include "training/trainer.h"
#include "training/vit_trainer.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace eg::training {

/// All that determines a run. `data` is a table (data::open_tabular), a batch is so many rows of it.
struct DifmOptions : RunOptions {
  DifmOptions();
  data::TabularOptions table; ///< its columns are completed when the data is read
  std::int64_t dim = 8;       ///< width of a field's embedding
  std::int64_t heads = 4;     ///< of the attention over the fields
  std::int64_t head_dim = 8;
  std::string hidden = "128,128"; ///< widths of the bit-wise part's layers
  nn::Activation activation = nn::Activation::relu;
  double dropout = 0.0; ///< behind each of these layers
  /// none or rows: the fields pass the attention in an order of each row's own, drawn anew in every step, and come
  /// back.
  permute::PermuteMode permute = permute::PermuteMode::none;
  std::string key;  ///< secret key file that the orders are drawn from; empty: the seed, publicly
  FineTuning start; ///< from a run, whose sizes, columns and coding count then
};

/// The rows of these options (training/option.h).
const OptionTable<DifmOptions>& option_table(const DifmOptions& options);
/// Throws ValueError that names the option when a value is out of range or options contradict each other.
void check(const DifmOptions& options);
/// The options as one flat JSON object, keys named as the command line's flags with '_' for '-', and "model".
nlohmann::ordered_json options_json(const DifmOptions& options);
/// Overrides the options that `json` names. Throws ValueError, beginning with `source`, for an unknown key (with the
/// nearest one there is), a value of another kind, a word that no option knows, and options of another model.
void apply_options(DifmOptions& options, const nlohmann::json& json, const std::string& source);
/// The options that a run or checkpoint folder was made with, as options_of_run. Throws ValueError when it is a run of
/// another model, FileError.
DifmOptions difm_options_of_run(const std::string& folder);

/// The model for a table's columns. Throws ValueError for widths of `hidden` that are none.
nn::DifmConfig difm_config(const DifmOptions& options, const data::TabularCode& code);

/// What a checkpoint remembers of rows: "60 rows, crc32 1a2b3c4d ..." of numbers, ids and labels.
std::string fingerprint(const data::TabularRows& rows);

/// Logits [B] of rows whose fields pass the vector-wise part in another order and come back: with P_R of each row,
/// factors(P_R^T vector_wise(P_R E), bit_wise(E)). `rows` [B, fields] or undefined for the order as it is.
Tensor permuted_logits(const nn::Difm& model, const data::TabularRows::Batch& batch, const Tensor& rows,
                       RandomKey dropout_key = {});

/// Opens the table, makes the model, resumes. The rows of an epoch come in an order that (seed, epoch) draws; a last
/// batch that is not full is left out. The loss is binary cross-entropy; a test measures it with accuracy and AUC on
/// the held-out rows, permuted as in training. The run folder receives model.safetensors (nn::Difm) and table.json,
/// which says how columns become numbers and ids; options.start.from names such a folder. Throws ValueError, FileError,
/// MemoryError; Interrupted when `stop` becomes true while the table is read.
std::unique_ptr<Trainer> difm_trainer(const DifmOptions& options, StopFlag stop = nullptr,
                                      distributed::Communicator* processes = nullptr);

} // namespace eg::training
