#include "data/text/labelled_texts.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/function_ref.h"
#include "core/base/out_of_memory.h"
#include "data/text/table.h"
#include "data/text/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <map>

namespace eg::data {
namespace {

namespace fs = std::filesystem;

/// Sets that have a name: the files of their parts, below the folder with all data.
struct NamedSet {
  const char* name;
  const char* train;
  const char* test;
};
constexpr std::array<NamedSet, 4> named_sets{
    {{"imdb", "imdb/imdb_train.tsv.xz", "imdb/imdb_test.tsv.xz"},
     {"mrpc", "glue-small/mrpc_train.tsv.gz", "glue-small/mrpc_test.tsv.gz"},
     {"rte", "glue-small/rte_train.tsv.gz", "glue-small/rte_validation.tsv.gz"},
     {"snli", "snli/snli_validation.tsv.gz", "snli/snli_test.tsv.gz"}}};

using Rows = std::vector<LabelledRow>;

/// The parts of a set before labels are classes.
struct TextParts {
  std::string train_name, test_name;
  Rows train, test;
};

void replace_breaks(Rows& rows) {
  constexpr std::string_view mark = "<br />";
  for (LabelledRow& row : rows)
    for (std::size_t at = row.text.find(mark); at != std::string::npos; at = row.text.find(mark, at))
      row.text.replace(at, mark.size(), "\n");
}

/// `packed`, a .gz or .xz, or the same file unpacked; "" when both are missing.
std::string packed_or_plain(const std::string& packed) {
  const std::string plain = packed.substr(0, packed.rfind('.'));
  return file_exists(packed) ? packed : file_exists(plain) ? plain : std::string();
}

TextParts read_named(const NamedSet& set, const std::string& data_dir, StopFlag stop) {
  const std::string folder = data_dir.empty() ? default_data_dir() : data_dir;
  TextParts parts{packed_or_plain(join_path(folder, set.train)), packed_or_plain(join_path(folder, set.test)), {}, {}};
  for (const std::string& file : {parts.train_name, parts.test_name})
    if (folder.empty() || file.empty())
      throw FileError(
          fmt::format("{}: dataset {} is not here: looked for {} and {}; give the folder that holds it with "
                      "--data-dir or EQUIGRAD_DATA{}",
                      folder.empty() ? "no data folder is given" : folder, set.name, set.train, set.test,
                      folder_exists(set.name) ? fmt::format(" (for the folder {0} here say ./{0})", set.name) : ""));
  parts.train = read_labelled_texts(parts.train_name, stop);
  parts.test = read_labelled_texts(parts.test_name, stop);
  if (set.name == std::string_view("imdb")) {
    replace_breaks(parts.train);
    replace_breaks(parts.test);
  }
  return parts;
}

std::vector<std::string> entries(const std::string& folder, fs::file_type kind) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code unknown;
    const std::string name = it->path().filename().string();
    if (!name.starts_with(".") && it->status(unknown).type() == kind) names.push_back(name);
  }
  if (error) throw FileError(fmt::format("{}: cannot list the folder: {}", folder, error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

/// Every .txt file of every class folder. `names`, if any, receives CLASS/FILE of each.
Rows read_class_folders(const std::string& folder, StopFlag stop, std::vector<std::string>* names = nullptr) {
  Rows rows;
  for (const std::string& label : entries(folder, fs::file_type::directory)) {
    if (label == "unsup") continue;
    const std::string place = join_path(folder, label);
    const std::size_t before = rows.size();
    for (const std::string& file : entries(place, fs::file_type::regular)) {
      if (!file.ends_with(".txt")) continue;
      if (stop != nullptr && stop->load()) throw Interrupted("interrupted while texts were read");
      rows.push_back({label, read_text(join_path(place, file)), "", 0});
      if (names != nullptr) names->push_back(label + '/' + file);
    }
    if (rows.size() == before) throw FileError(place + ": the class has no .txt file");
  }
  if (rows.empty()) throw FileError(folder + ": has no class folders with .txt files");
  return rows;
}

/// `number_of` row i draws it.
void hold_out(TextParts& parts, double share, FunctionRef<std::uint64_t(std::size_t)> number_of) {
  Rows train;
  for (std::size_t i = 0; i < parts.train.size(); ++i)
    (row_is_held_out(number_of(i), share) ? parts.test : train).push_back(std::move(parts.train[i]));
  parts.train = std::move(train);
}

TextParts read_folder(const std::string& folder, const LabelledTextOptions& options) {
  TextParts parts{folder, folder, {}, {}};
  const StopFlag stop = options.stop;
  if (const std::string train = join_path(folder, "train"); folder_exists(train)) {
    for (const char* name : {"test", "val"})
      if (parts.test_name = join_path(folder, name); folder_exists(parts.test_name)) break;
    if (!folder_exists(parts.test_name)) throw FileError(folder + ": has train, but neither test nor val");
    parts.train_name = train;
    parts.train = read_class_folders(train, stop);
    parts.test = read_class_folders(parts.test_name, stop);
    return parts;
  }
  std::vector<std::string> names;
  parts.train = read_class_folders(folder, stop, &names);
  hold_out(parts, options.held_out, [&](std::size_t i) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(names[i].data());
    return crc32({bytes, names[i].size()});
  });
  return parts;
}

TextParts read_parts(const std::string& name, const std::string& data_dir, const LabelledTextOptions& options) {
  for (const NamedSet& set : named_sets)
    if (name == set.name) {
      if (!options.validation.empty())
        throw ValueError(
            fmt::format("{} has a test part of its own; validation {} is for single files", name, options.validation));
      return read_named(set, data_dir, options.stop);
    }
  if (folder_exists(name)) {
    if (!options.validation.empty())
      throw ValueError(
          fmt::format("{}: validation {}: another file is for data of one file", name, options.validation));
    return read_folder(name, options);
  }
  if (!file_exists(name)) {
    std::string known;
    for (const NamedSet& set : named_sets) known += fmt::format("{}, ", set.name);
    throw FileError(fmt::format("{}: no such data: give {}a folder, or a .tsv, .csv or .jsonl file", name, known));
  }
  TextParts parts{name, options.validation.empty() ? name : options.validation, {}, {}};
  parts.train = read_labelled_texts(name, options.stop);
  if (options.validation.empty())
    hold_out(parts, options.held_out, [](std::size_t row) { return row; });
  else
    parts.test = read_labelled_texts(options.validation, options.stop);
  return parts;
}

bool is_number(const std::string& text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string> classes_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const LabelledRow& row : rows) names.push_back(row.label);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::int64_t ignored = 0;
  if (std::all_of(names.begin(), names.end(), [&](const std::string& n) { return is_number(n, ignored); }))
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      std::int64_t x = 0, y = 0;
      return is_number(a, x) && is_number(b, y) && x < y;
    });
  return names;
}

std::string some_of(const std::vector<std::string>& classes) {
  constexpr std::size_t most = 20;
  std::string list;
  for (std::size_t i = 0; i < std::min(most, classes.size()); ++i) list += (i == 0 ? "" : ", ") + shown(classes[i]);
  return classes.size() <= most ? list : fmt::format("{}, ... ({} in all)", list, classes.size());
}

LabelledTexts labelled(Rows rows, const std::string& name, const std::vector<std::string>& classes,
                       std::int64_t limit) {
  LabelledTexts set{.name = name, .class_names = classes, .texts = {}, .pairs = {}, .labels = {}};
  std::map<std::string, std::int32_t> place;
  for (const std::string& one : classes) place.emplace(one, static_cast<std::int32_t>(place.size()));
  const bool paired = std::any_of(rows.begin(), rows.end(), [](const LabelledRow& row) { return !row.pair.empty(); });
  const std::vector<bool> kept = drawn_rows(rows.size(), limit);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    LabelledRow& row = rows[i];
    const auto found = place.find(row.label);
    if (found == place.end())
      throw FileError(fmt::format("{}: {}label '{}' is not one of the training part's: {}", name,
                                  row.line > 0 ? fmt::format("line {}: ", row.line) : "", shown(row.label),
                                  some_of(classes)));
    if (!kept[i]) continue;
    set.labels.push_back(found->second);
    set.texts.push_back(std::move(row.text));
    if (paired) set.pairs.push_back(std::move(row.pair));
  }
  return set;
}

} // namespace

bool is_text_set(std::string_view name) {
  return std::any_of(named_sets.begin(), named_sets.end(), [&](const NamedSet& set) { return name == set.name; });
}

std::pair<LabelledTexts, LabelledTexts> open_labelled_texts(const std::string& name, const std::string& data_dir,
                                                            const LabelledTextOptions& options) {
  TextParts parts = naming_memory(name, [&] { return read_parts(name, data_dir, options); });
  if (parts.train.empty()) throw FileError(parts.train_name + ": has no labelled texts to learn from");
  const std::vector<std::string> classes = classes_of(parts.train);
  if (classes.size() < 2)
    throw FileError(fmt::format("{}: all texts are labelled '{}'; there must be two classes", parts.train_name,
                                shown(classes.front())));
  if (parts.test.empty()) throw FileError(parts.test_name + ": has no labelled texts to test on");
  const auto paired = [](const Rows& rows) {
    return std::any_of(rows.begin(), rows.end(), [](const LabelledRow& row) { return !row.pair.empty(); });
  };
  const auto kind = [](bool pairs) { return pairs ? "pairs of texts" : "single texts"; };
  if (const bool pairs = paired(parts.train); pairs != paired(parts.test))
    throw FileError(
        fmt::format("{}: has {}, where {} has {}", parts.test_name, kind(!pairs), parts.train_name, kind(pairs)));
  return {labelled(std::move(parts.train), parts.train_name, classes, options.train_limit),
          labelled(std::move(parts.test), parts.test_name, classes, options.test_limit)};
}

} // namespace eg::data
