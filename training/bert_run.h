#pragma once
// Training a BERT whose tokens, features or both pass the blocks permuted, here or at another party (paper 001, section
// 4.4; CVPR Table 5).

#include "core/base/interrupt.h"
#include "training/classify.h"
#include "training/vit_trainer.h"

#include <functional>
#include <memory>

namespace eg::permute {

/// The defaults of a BERT whose blocks are elsewhere: no clipping, which needs the joint norm of all gradients.
training::ClassifyOptions split_bert_defaults();

struct BertRun {
  std::unique_ptr<training::Trainer> trainer;
  /// Split learning with permuted columns: a test for who holds the encoder and not the key, its features going in as
  /// they are; computed here, on blocks that are fetched. To be called when the run is over, since the trainer's model
  /// keeps them. Empty otherwise.
  std::function<training::Record(StopFlag stop)> test_without_key;
};

/// training::bert_trainer with options.permute: Z becomes P_R^T Enc(P_R Z P_C) P_C^T, another P_R for every text and
/// step, the mask of padding moved along; the blocks' weights are moved by P_C and the inner permutations of
/// options.key_form before the first step, and stay moved in the model that the run leaves. With split.encoder the
/// blocks are another party's, and the run leaves what split.ending says. Throws the same; ValueError for options that
/// a split run cannot have (check_split); FileError for a key file.
BertRun bert_run(const training::ClassifyOptions& options, StopFlag stop = nullptr, const SplitTraining& split = {});

/// Takes the blocks of a model that a run of such options left as they were trained back to the plain ones. Throws
/// FileError for the key file.
void undo_columns(nn::Bert& bert, const training::ClassifyOptions& options);

} // namespace eg::permute
