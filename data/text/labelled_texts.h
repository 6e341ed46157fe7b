#pragma once
// Reads labelled texts, and pairs of texts, for classification.

#include "core/base/interrupt.h"
#include "data/dataset.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace eg::data {

/// One part of a set: texts[i] (with pairs[i], where there are any) is of class labels[i].
struct LabelledTexts {
  std::string name;
  std::vector<std::string> class_names;
  std::vector<std::string> texts, pairs; ///< pairs is empty or as long as texts
  std::vector<std::int32_t> labels;

  std::int64_t size() const { return static_cast<std::int64_t>(texts.size()); }
};

struct LabelledTextOptions {
  std::string validation;       ///< another file to test on
  double held_out = 0.1;        ///< share of a single file, or of class folders, that is kept to test on, in (0, 1)
  std::int64_t train_limit = 0; ///< at most that many (drawn_rows); 0: all
  std::int64_t test_limit = 0;
  StopFlag stop = nullptr;
};

/// Whether a set below the folder with all data has that name: imdb, mrpc, rte, snli. A path of that name is ./imdb.
bool is_text_set(std::string_view name);

/// The training and the test part of
/// - `imdb` (imdb/imdb_{train,test}.tsv or .tsv.xz; its "<br />" become line ends), `mrpc`, `rte` (glue-small/), `snli`
///   (whose validation part is learnt from) in `data_dir` (empty: EQUIGRAD_DATA);
/// - a folder with train/ and test/ (or val/), each with a folder of .txt files for every class (`unsup` is left out),
///   or a folder of class folders, of which about held_out of the texts is for testing: CLASS/FILE alone draws it;
/// - a file of rows (read_labelled_texts), of which about held_out is for testing: a row's number alone draws it.
/// Classes are the training part's labels: in the order of their numbers, if all are numbers, else of their names.
/// Throws FileError for what is missing, damaged, empty, or labelled in the test part alone; Interrupted.
std::pair<LabelledTexts, LabelledTexts> open_labelled_texts(const std::string& name, const std::string& data_dir,
                                                            const LabelledTextOptions& options = {});

/// One labelled row of a file.
struct LabelledRow {
  std::string label, text, pair;
  std::size_t line = 0; ///< its line, from 1
};

/// Rows of a .tsv, .csv or .jsonl file (.gz and .xz are unpacked). Columns and keys are called `label`, and `text` or
/// `sentence`; of pairs `sentence1` and `sentence2`, `premise` and `hypothesis`, or `text` and `pair`. A file without
/// such a header has two columns (label, text) or three (label, text, pair). CSV fields may be in double quotes, and
/// then hold commas, line ends and doubled quotes; TSV fields too, within a line. Labels of JSON are texts, whole
/// numbers, true or false. Throws FileError that names the line.
std::vector<LabelledRow> read_labelled_texts(const std::string& path, StopFlag stop = nullptr);

} // namespace eg::data
