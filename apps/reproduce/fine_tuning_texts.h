#pragma once
// Reproduces the columns of CVPR Table 7 for BERT and GPT-2.

#include "apps/reproduce/vision.h"

#include <string>
#include <vector>

namespace eg::reproduce {

/// Those of "bert" and "gpt2" that the plan has options for.
std::vector<std::string> fine_tuned_text_models(const Plan& plan);

/// Fine-tunes encrypted text models, with the key and without it. Of the plan: texts "bert" and "gpt2" with the
/// options of fine-tuning, "bert_before" and "gpt2_before" with those that are others in pre-training; the word
/// "reviews" (labelled texts) and the numbers "reviews_before", "reviews_after" and "reviews_test", how many to learn
/// from before, to fine-tune on and to test on. Five parts a seed and model. Throws Interrupted.
void fine_tuned_texts(const Plan& plan, const RunContext& work, Parts& parts, Outcome& outcome);

} // namespace eg::reproduce
