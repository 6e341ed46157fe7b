#include "training/language/difm_task.h"

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "core/base/words.h"
#include "core/ops.h"
#include "data/safetensors.h"
#include "nn/metrics.h"
#include "training/checkpoint_state.h"
#include "training/language/epoch_order.h"
#include "training/option.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

namespace eg::training {
namespace {

std::vector<std::int64_t> widths_of(const std::string& list) {
  std::vector<std::int64_t> widths;
  for (const std::string& word : words_of_list(list)) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), widths.emplace_back());
    if (error != std::errc() || end != word.data() + word.size())
      throw ValueError(fmt::format("train: hidden must be widths separated by commas, not '{}'", list));
  }
  return widths;
}

/// The options with the columns that were chosen, so that they hold what was done.
void complete(DifmOptions& o, const data::TabularCode& code) {
  const auto names = [](const auto& fields) {
    std::string list;
    for (const auto& field : fields) list += (list.empty() ? "" : ",") + field.column;
    return list;
  };
  o.table.dense = names(code.dense);
  o.table.categorical = names(code.categorical);
}

/// Rows whose logit has the label's sign; 0 counts as label 0.
double count_correct(const Tensor& logits, const Tensor& labels) {
  const PauseRecording pause;
  const std::vector<double> found = logits.to(DType::f64).to_vector<double>();
  const std::vector<double> wanted = labels.to(DType::f64).to_vector<double>();
  double correct = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) correct += (found[i] > 0.0) == (wanted[i] > 0.5) ? 1.0 : 0.0;
  return correct;
}

constexpr const char* weights_file = "model.safetensors";
constexpr const char* table_file = "table.json";

/// What a run begins from: the folder of another one.
struct DifmStart {
  data::TabularCode code;
  nn::StateDict weights;
};

/// Reads it, and gives the options its sizes.
std::optional<DifmStart> open_start(DifmOptions& o) {
  if (!o.start.begins()) return {};
  const auto file = [&](const char* name) { return join_path(o.start.from, name); };
  for (const char* name : {"config.json", table_file, weights_file})
    if (!file_exists(file(name)))
      throw FileError(fmt::format("{}: no such file; from must be the folder of a finished run of difm", file(name)));
  DifmOptions was;
  apply_options(was, read_json(file("config.json")), file("config.json"));
  o.dim = was.dim;
  o.heads = was.heads;
  o.head_dim = was.head_dim;
  o.hidden = was.hidden;
  o.activation = was.activation;
  data::TabularCode code = data::tabular_code_of(read_json(file(table_file)), file(table_file));
  o.table.label = code.label;
  o.table.scale = code.scale;
  o.table.buckets = code.buckets;
  return DifmStart{std::move(code), data::load_safetensors(file(weights_file)).tensors};
}

/// Gives the model those weights that are not to be fresh. Throws ValueError for a pattern that fits none.
void begin_from(nn::Difm& model, const DifmStart& start, const FineTuning& options) {
  nn::StateDict weights = model.state_dict();
  std::vector<std::string> names;
  for (const auto& [name, value] : weights) names.push_back(name);
  const std::vector<std::string> patterns = words_of_list(options.fresh);
  for (const std::string& pattern : patterns)
    if (std::none_of(names.begin(), names.end(), [&](const std::string& n) { return glob_match(pattern, n); }))
      throw ValueError(fmt::format("train: fresh '{}' fits no parameter{}", pattern, did_you_mean(pattern, names)));
  nn::StateDict mixed = start.weights;
  for (auto& [name, value] : mixed) {
    const bool fresh = std::any_of(patterns.begin(), patterns.end(),
                                   [&, n = name](const std::string& pattern) { return glob_match(pattern, n); });
    const auto own =
        std::find_if(weights.begin(), weights.end(), [&, n = name](const auto& e) { return e.first == n; });
    if (fresh && own != weights.end()) value = own->second;
  }
  model.load_state_dict(mixed);
}

class DifmTask final : public ModelTask {
public:
  static std::unique_ptr<DifmTask> make(std::unique_ptr<const DifmOptions> options, data::Tabular table,
                                        const std::optional<DifmStart>& start) {
    auto model = std::make_shared<nn::Difm>(difm_config(*options, table.code), key_of(*options, draw_weights));
    if (start) begin_from(*model, *start, options->start);
    return std::unique_ptr<DifmTask>(new DifmTask(std::move(options), std::move(table), std::move(model)));
  }

  nlohmann::ordered_json options_json() const override { return training::options_json(*o_); }
  nlohmann::ordered_json default_options() const override { return training::options_json(DifmOptions()); }
  std::vector<OptionInfo> option_infos() const override { return option_table(*o_).infos(*o_); }
  std::int64_t steps_per_epoch() const override { return order_.batches(); }
  const char* unit() const override { return "rows"; }
  std::string summary() const override {
    return fmt::format(
        "{}: {} training and {} test rows, {} numbers and {} categories; DIFM with {} parameters; {} rows "
        "a step{}",
        table_.train.name, table_.train.size(), table_.test.size(), table_.train.dense, table_.train.categorical,
        module().parameter_count(), o_->batch,
        o_->permute == permute::PermuteMode::rows ? ", their fields permuted" : "");
  }
  void save_result(const std::string& folder) const override {
    data::save_safetensors(join_path(folder, weights_file), module().state_dict());
    write_file(join_path(folder, table_file), std::string_view(table_.code.json().dump(2) + "\n"));
    with_average(main_variant(),
                 [&] { data::save_safetensors(join_path(folder, "model_ema.safetensors"), module().state_dict()); });
  }

protected:
  std::int64_t draw_batch(std::int64_t step) override {
    batch_ = order_.batch(step);
    orders_ = orders(step * o_->batch, o_->batch, data::Split::train);
    return o_->batch;
  }

  PartLoss loss_of(const Variant&, std::int64_t first, std::int64_t last, RandomKey dropout) override {
    const auto part = batch_.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
    const data::TabularRows::Batch rows = moved(table_.train.batch(part, o_->dtype));
    const Tensor logits =
        permuted_logits(*model_, rows, orders_.defined() ? orders_.slice(0, first, last) : Tensor{}, dropout);
    // A smoothed label lies between 0 and 1.
    const Tensor wanted = rows.labels * (1.0 - o_->label_smoothing) + 0.5 * o_->label_smoothing;
    return {.loss = bce_with_logits(logits, wanted),
            .weight = static_cast<double>(last - first),
            .correct = count_correct(logits, rows.labels)};
  }

  std::int64_t test_batches() const override { return (table_.test.size() + o_->batch - 1) / o_->batch; }
  std::int64_t test_units() const override { return table_.test.size(); }
  TestBatch measure(const Variant&, std::int64_t b) override {
    const std::int64_t at = b * o_->batch;
    std::vector<std::int64_t> places(static_cast<std::size_t>(std::min(o_->batch, table_.test.size() - at)));
    std::iota(places.begin(), places.end(), at);
    const data::TabularRows::Batch rows = moved(table_.test.batch(places, o_->dtype));
    const Tensor logits = permuted_logits(*model_, rows, orders(at, std::ssize(places), data::Split::test));
    return {.loss = bce_with_logits(logits, rows.labels, {}, {}, "sum").item(),
            .correct = count_correct(logits, rows.labels),
            .weight = static_cast<double>(places.size()),
            .scores = logits.to(DType::f64).to_vector<double>()};
  }
  /// NaN where a logit is none: the loss says so.
  double auc_of(const std::vector<double>& scores) const override {
    if (std::any_of(scores.begin(), scores.end(), [](double s) { return std::isnan(s); })) return not_measured;
    const std::vector<std::int64_t> labels(table_.test.labels.begin(), table_.test.labels.end());
    const Shape shape{std::ssize(scores)};
    return nn::auc(Tensor::from(scores, shape), Tensor::from(labels, shape));
  }
  bool has_accuracy() const override { return true; }

private:
  DifmTask(std::unique_ptr<const DifmOptions> options, data::Tabular table, std::shared_ptr<nn::Difm> model)
      : ModelTask(*options, encoder_of(*options)), o_(std::move(options)), table_(std::move(table)),
        model_(std::move(model)), order_(table_.train.size(), o_->batch, key_of(*o_, draw_samples)) {
    data_fingerprint_ = {fingerprint(table_.train), fingerprint(table_.test)};
    add_variant(o_->permute, model_, trained_parameters(*model_, {}, o_->start));
  }

  static PermutedEncoder encoder_of(const DifmOptions& o) {
    return PermutedEncoder(o, {.key = o.key, .draws = {.model = "difm", .rows = 16, .test_rows = 17}});
  }

  data::TabularRows::Batch moved(const data::TabularRows::Batch& batch) const {
    const std::vector<Tensor> all = there({batch.numbers, batch.ids, batch.labels});
    return {all[0], all[1], all[2]};
  }

  /// The order of the fields for each of `samples` rows; undefined when nothing is permuted.
  Tensor orders(std::int64_t first, std::int64_t samples, data::Split split) const {
    return permute::permutes_rows(o_->permute) ? there(encoder_.rows(first, samples, model_->config.fields(), split))
                                               : Tensor{};
  }

  std::unique_ptr<const DifmOptions> o_;
  data::Tabular table_;
  std::shared_ptr<nn::Difm> model_;
  EpochOrder order_;
  std::span<const std::int64_t> batch_; ///< the present one
  Tensor orders_;                       ///< of its fields
};

} // namespace

std::string fingerprint(const data::TabularRows& rows) {
  const auto bytes_of = [](const auto& values) {
    return ByteView{reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof values[0]};
  };
  return fmt::format("{} rows, crc32 {:08x} {:08x} {:08x}", rows.size(), crc32(bytes_of(rows.numbers)),
                     crc32(bytes_of(rows.ids)), crc32(bytes_of(rows.labels)));
}

nn::DifmConfig difm_config(const DifmOptions& o, const data::TabularCode& code) {
  return {.vocabularies = code.vocabularies(),
          .numeric = std::ssize(code.dense),
          .dim = o.dim,
          .heads = o.heads,
          .head_dim = o.head_dim,
          .hidden = widths_of(o.hidden),
          .activation = o.activation,
          .dropout = o.dropout};
}

Tensor permuted_logits(const nn::Difm& model, const data::TabularRows::Batch& batch, const Tensor& rows,
                       RandomKey dropout_key) {
  const Tensor e = model.embed(batch.ids, batch.numbers);
  const Tensor o = permute::PermutedPass{.rows = rows}.through(
      e, [&](const Tensor& permuted) { return model.vector_wise(permuted); });
  return model.machine(batch.ids, batch.numbers, e, model.factors(o, model.bit_wise(e, dropout_key)));
}

std::unique_ptr<Trainer> difm_trainer(const DifmOptions& given, StopFlag stop, distributed::Communicator* processes) {
  auto options = std::make_unique<DifmOptions>(given);
  check(*options);
  const ReductionScope sums(reduction_of(*options));
  auto run = std::make_unique<Run>(*options, processes);
  const std::optional<DifmStart> start = open_start(*options);
  data::TabularOptions wanted = options->table;
  wanted.stop = stop;
  if (start) wanted.like = &start->code;
  data::Tabular table = data::open_tabular(options->data, options->data_dir, wanted);
  complete(*options, table.code);
  if (table.train.size() < options->batch)
    throw ValueError(fmt::format("train: {} has {} training rows, fewer than a batch of {}", table.train.name,
                                 table.train.size(), options->batch));
  auto task = DifmTask::make(std::move(options), std::move(table), start);
  return std::make_unique<Trainer>(std::move(run), std::move(task));
}

} // namespace eg::training
