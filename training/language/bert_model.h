#pragma once
// Builds the BERT of a run's options, and checks its tokenizer. For the tasks of this folder.

#include "data/text/tokenizer.h"
#include "nn/hub/model.h"
#include "training/language/classify.h"
#include "training/language/text_files.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <memory>

namespace eg::training {

/// tokenizer_config.json of a tokenizer that data::word_tokenizer made.
extern const char* const bert_tokenizer_config;

/// The id of the token with that role, or called `usual`. Throws ValueError where there is none.
std::int64_t special_id(const data::Tokenizer& tokenizer, const char* role, const char* usual);

/// The tokenizer of the model that options.start names. Throws ValueError when that is no BERT, FileError.
KeptTokenizer start_tokenizer(const ClassifyOptions& options);

/// A model of the options' sizes, or the one that options.start names, whose sizes the options then take; `set_head`
/// writes architecture and classes into its config. Throws ValueError, FileError.
std::unique_ptr<hub::Model> make_bert(ClassifyOptions& options, const data::Tokenizer& tokenizer, std::int64_t padding,
                                      const std::function<void(nlohmann::json& config)>& set_head);

} // namespace eg::training
