// DifmOptions: defaults, checks, to and from JSON.

#include "training/language/difm_task.h"
#include "training/permute_options.h"
#include "training/run.h"

namespace eg::training {

using permute::PermuteMode;
namespace {

using namespace training; // the words of option.h
using D = DifmOptions;

auto of_table(auto field) { return member(&D::table, field); }

std::string sizes_of_start(const D& o) { return unless(!o.start.begins(), "the run {} has its own", o.start.from); }

void add_rows(OptionTable<D>& t) {
  using T = data::TabularOptions;
  t.add("data", &D::data,
        "criteo, or a .csv or .tsv file (other endings: tabs, if the first line has one, else commas)")
      .must([](const D& o) { return unless(!o.data.empty(), "must name a table"); })
      .names(OptionPath::data, OnResume::free);
  t.add("data_dir", &D::data_dir, "Folder with the datasets (default: EQUIGRAD_DATA)")
      .idle([](const D& o) { return unless(o.data == "criteo", "--data names the file {}", o.data); })
      .names(OptionPath::data_folder, OnResume::beside);
  t.add("validation", of_table(&T::validation), "Another such file to test on")
      .names(OptionPath::input, OnResume::free);
  t.add("held_out", of_table(&T::held_out), "Share of the rows that is kept to test on")
      .must(inner_share)
      .idle([](const D& o) { return unless(o.table.validation.empty(), "--validation names the rows to test on"); });
  t.add("train_limit", of_table(&T::train_limit), "At most that many training rows, drawn from all of them (0: all)")
      .must(not_negative);
  t.add("test_limit", of_table(&T::test_limit), "At most that many test rows, drawn from all of them (0: all)")
      .must(not_negative);
  t.add("header", of_table(&T::header), "The first row names the columns; otherwise they are called 1, 2, ...");
  t.add("label", of_table(&T::label), "Column with the label")
      .must([](const std::string& column) { return unless(!column.empty(), "must name a column"); })
      .idle(sizes_of_start);
  t.add("positive", of_table(&T::positive), "Label that counts as 1, all others as 0 (default: the second of two)")
      .idle(sizes_of_start);
  t.add("dense", of_table(&T::dense),
        "Columns with numbers: names and ranges, \"price,I1..I13\" (default: those whose values are all numbers)")
      .idle(sizes_of_start)
      .completed_by_run();
  t.add("categorical", of_table(&T::categorical), "Columns with categories, likewise (default: the others)")
      .idle(sizes_of_start)
      .completed_by_run();
  t.word("scale", of_table(&T::scale), data::number_scale_named,
         "What is done to numbers: log (sign(x) log(1 + |x|), then standard), standard or none")
      .idle(sizes_of_start);
  t.add("min_count", of_table(&T::min_count),
        "Training rows in which a category must stand to have a vector of its own")
      .must(positive)
      .idle([](const D& o) { return unless(o.table.buckets <= 0, "--buckets hashes every category"); })
      .idle(sizes_of_start);
  t.add("buckets", of_table(&T::buckets),
        "Vectors of a categorical column, shared by hashing (0: one for each category)")
      .must([](std::int64_t n) { return unless(n == 0 || n >= 2, "must be 0, or 2 and more, not {}", n); })
      .must(at_most(1 << 28))
      .idle(sizes_of_start);
}

void add_model(OptionTable<D>& t) {
  t.add("dim", &D::dim, "Width of a field's vector").must(positive, at_most(1 << 16)).idle(sizes_of_start);
  t.add("heads", &D::heads, "Heads of the attention over the fields")
      .must(positive, at_most(1 << 16))
      .idle(sizes_of_start);
  t.add("head_dim", &D::head_dim, "Width of a head").must(positive, at_most(1 << 16)).idle(sizes_of_start);
  t.add("hidden", &D::hidden, "Widths of the layers of the bit-wise part").idle(sizes_of_start);
  t.word("activation", &D::activation, nn::activation_named, "gelu, gelu_tanh, relu, silu or tanh")
      .idle(sizes_of_start);
  t.add("dropout", &D::dropout, "Probability behind each layer of the bit-wise part").must(probability);
  t.word("permute", &D::permute, permute::permute_mode_named,
         "none, or rows: the fields of each row pass the attention in an order of their own and come back")
      .must([](PermuteMode mode) {
        return unless(mode == PermuteMode::none || mode == PermuteMode::rows,
                      "must be none or rows, not {}: the fields are the rows", name_of(mode));
      });
  add_key<D>(
      t, [](const D& o) { return o.permute == PermuteMode::rows; },
      "Secret key file that the orders are drawn from (default: from the seed, not secret)");
}

} // namespace

DifmOptions::DifmOptions() {
  data = "criteo";
  batch = 64;
  lr = 1e-3;
}

const OptionTable<DifmOptions>& option_table(const DifmOptions&) {
  static const OptionTable<DifmOptions> table = [] {
    OptionTable<DifmOptions> t;
    add_rows(t);
    add_model(t);
    t.append(option_table(FineTuning()), &DifmOptions::start);
    t.append(run_options({.epochs = "Passes over the training rows",
                          .batch = "Rows a step",
                          .label_smoothing = "Share of a label moved half-way to the other one",
                          .out = "Run folder (default: out/difm, or the first of out/difm-2, ... without a run)"}));
    return t;
  }();
  return table;
}

void check(const DifmOptions& o) {
  check_run_options(o);
  option_table(o).check(o);
  check(o.start, o.out);
}

nlohmann::ordered_json options_json(const DifmOptions& options) {
  nlohmann::ordered_json out{{"model", "difm"}};
  return option_table(options).write(options, out);
}

void apply_options(DifmOptions& options, const nlohmann::json& json, const std::string& source) {
  DifmOptions changed = options;
  OptionReader reader(json, source);
  reader.require_model("difm");
  option_table(changed).read(changed, reader);
  reader.require_all_known();
  options = changed;
}

DifmOptions difm_options_of_run(const std::string& folder) { return options_to_resume(folder, "difm", DifmOptions()); }

} // namespace eg::training
