// ClassifyOptions: defaults, checks, to and from JSON.

#include "core/base/bytes.h"
#include "data/text/labelled_texts.h"
#include "training/language/classify.h"
#include "training/language/text_options.h"
#include "training/option.h"
#include "training/permute_options.h"

namespace eg::training {
namespace {

using C = ClassifyOptions;

bool is_masked(const C& o) { return o.task == BertTask::mlm; }

bool is_named_set(const C& o) { return is_masked(o) ? o.data == "tinyshakespeare" : data::is_text_set(o.data); }

/// A folder of class folders without parts, which is cut into training and test texts as a file is.
bool is_class_folder(const C& o) {
  return !is_masked(o) && !is_named_set(o) && folder_exists(o.data) && !folder_exists(join_path(o.data, "train"));
}

/// Why nothing of the data is held out or replaced to test on: it has a test part.
std::string has_test_part(const C& o) {
  const bool known = is_named_set(o) || folder_exists(o.data); // else it is not there, which is for its reader to say
  return unless(is_masked(o) || !known || is_class_folder(o), "{} has a test part of its own; it is for single files",
                o.data);
}

std::string learns_from_all(const C& o) { return unless(!is_masked(o), "--task mlm learns from all of a text"); }

void add_texts(OptionTable<C>& t) {
  t.word("task", &C::task, bert_task_named,
         "classify: classes of texts or pairs; mlm: words that are masked, from plain text");
  t.add("data", &C::data,
        "imdb, mrpc, rte, snli, a .tsv, .csv or .jsonl file of labelled texts or pairs, or a folder of class folders "
        "with .txt files; for mlm tinyshakespeare or a UTF-8 text file")
      .must([](const C& o) { return unless(!o.data.empty(), "must name labelled texts"); })
      .names(OptionPath::data, OnResume::free);
  t.add("data_dir", &C::data_dir, "Folder with the datasets (default: EQUIGRAD_DATA)")
      .idle([](const C& o) {
        const bool own = !is_named_set(o) && (file_exists(o.data) || folder_exists(o.data));
        return unless(!own, "--data names {}", o.data);
      })
      .names(OptionPath::data_folder, OnResume::beside);
  t.add("validation", &C::validation, "Another such file to test on")
      .idle([](const C& o) {
        return unless(!is_class_folder(o), "{} is a folder; --validation is for data of one file", o.data);
      })
      .idle(has_test_part)
      .names(OptionPath::input, OnResume::free);
  t.add("held_out", &C::held_out, "Share of a single file that is kept to test on")
      .must(inner_share)
      .idle([](const C& o) { return unless(o.validation.empty(), "--validation names the texts to test on"); })
      .idle(has_test_part);
  t.add("train_limit", &C::train_limit, "At most that many training texts, drawn from all of them (0: all)")
      .must(not_negative)
      .idle(learns_from_all);
  t.add("test_limit", &C::test_limit, "At most that many test texts, drawn from all of them (0: all)")
      .must(not_negative)
      .idle(learns_from_all);
  t.add("tokenizer", &C::tokenizer, "Tokenizer's folder or file (default: the words of the training texts)")
      .names(OptionPath::input, OnResume::same_content);
  t.add("vocabulary", &C::vocabulary, "Most tokens of a tokenizer that is made from the training texts")
      .must(from_to(6, 1 << 24))
      .idle([](const C& o) { return unless(o.tokenizer.empty(), "--tokenizer has a vocabulary of its own"); })
      .idle([](const C& o) { return unless(!o.start.begins(), "the model's tokenizer has a vocabulary of its own"); });
  t.add("context", &C::context, "Longest text in tokens; what is longer is cut at its end").must(from_to(4, 1 << 16));
}

void add_model(OptionTable<C>& t) {
  add_text_width(t, "Width of the encoder", "Encoder blocks");
  add_text_mlp(t, "Width of the MLP's hidden layer (0: 4 dim)");
  t.add("dropout", &C::dropout, "Probability on the embedding, both residual branches and what the classifier reads")
      .must(probability);
  t.add("attention_dropout", &C::attention_dropout,
        "Probability on attention weights; above 0 a step takes a third more time")
      .must(probability);
  t.add("mask_share", &C::mask_share,
        "mlm: share of the tokens that is to be guessed; of ten 8 are masked, one is another, one stays")
      .must(inner_share)
      .idle([](const C& o) { return unless(is_masked(o), "--task classify masks nothing"); });
  t.word("permute", &C::permute, permute::permute_mode_named,
         "none, rows (another order of tokens for every text), columns (features, one order) or both, on the way "
         "through the blocks");
  add_key_form<C>(
      t, [](const C& o) { return permutes_columns(o.permute); }, "columns or both");
  add_key<C>(t, permutes_at_all<C>,
             "Secret key file (equigrad keygen --out KEY) that P_R and P_C are drawn from (default: from the seed, not "
             "secret)");
}

} // namespace

ClassifyOptions::ClassifyOptions() {
  data = "imdb";
  batch = 32;
  lr = 5e-4;
  warmup = 200;
  weight_decay = 0.05;
  clip = 1.0;
}

ClassifyOptions split_bert_defaults() {
  ClassifyOptions options;
  options.clip = 0.0;
  return options;
}

BertTask bert_task_named(std::string_view name) {
  for (const BertTask task : {BertTask::classify, BertTask::mlm})
    if (name_of(task) == name) return task;
  throw ValueError(fmt::format("task: '{}' is neither classify nor mlm", name));
}

std::string_view name_of(BertTask task) { return task == BertTask::classify ? "classify" : "mlm"; }

const OptionTable<ClassifyOptions>& option_table(const ClassifyOptions&) {
  static const OptionTable<ClassifyOptions> table = [] {
    OptionTable<ClassifyOptions> t;
    add_texts(t);
    add_model(t);
    t.append(option_table(FineTuning()), &ClassifyOptions::start);
    t.append(run_options({.epochs = "Passes over the training texts",
                          .batch = "Texts a step",
                          .out = "Run folder (default: out/bert, or the first of out/bert-2, ... without a run)"}));
    return t;
  }();
  return table;
}

void check(const ClassifyOptions& o) {
  check_run_options(o);
  option_table(o).check(o);
  check(o.start, o.out);
}

nlohmann::ordered_json options_json(const ClassifyOptions& options) {
  nlohmann::ordered_json out{{"model", "bert"}};
  return option_table(options).write(options, out);
}

void apply_options(ClassifyOptions& options, const nlohmann::json& json, const std::string& source) {
  ClassifyOptions changed = options;
  OptionReader reader(json, source);
  reader.require_model("bert");
  option_table(changed).read(changed, reader);
  reader.require_all_known();
  options = changed;
}

ClassifyOptions classify_options_of_run(const std::string& folder) {
  return options_to_resume(folder, "bert", ClassifyOptions());
}

} // namespace eg::training
