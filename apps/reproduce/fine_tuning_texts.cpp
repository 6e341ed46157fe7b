#include "apps/reproduce/fine_tuning_texts.h"

#include "apps/reproduce/curves.h"
#include "apps/reproduce/texts.h"
#include "core/base/bytes.h"
#include "core/base/json.h"
#include "data/text/labelled_texts.h"
#include "nn/hub/folder.h"
#include "permute/catalogue/catalogue.h"
#include "training/checkpoint.h"
#include "training/language/text_files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace eg::reproduce {
namespace {

using training::Record;
using training::Trainer;
using Json = nlohmann::json;

/// Reviews in files of the experiment's own: some to learn from before, others to fine-tune on.
class Reviews {
public:
  Reviews(const Plan& plan, const RunContext& work) : folder_(join_path(work.folder, "reviews")) {
    const std::int64_t before = plan.count("reviews_before"), after = plan.count("reviews_after");
    const auto [train, test] = data::open_labelled_texts(
        plan.word("reviews"), work.data_dir,
        {.validation = {}, .train_limit = before + after, .test_limit = plan.count("reviews_test"), .stop = work.stop});
    if (train.size() < before + after)
      throw ValueError(fmt::format("{}: reviews_before and reviews_after are {} and {}, of {} there are {}",
                                   plan.source, before, after, train.name, train.size()));
    training::make_folder(folder_);
    write(train, 0, before, "before");
    write(train, before, before + after, "after");
    write(test, 0, test.size(), "test");
    name_ = train.name;
  }

  const std::string& name() const { return name_; }
  /// The options for the training and test data. GPT-2 reads the reviews as one text, and before them the
  /// text that its plan names.
  Json options(const std::string& model, bool before) const {
    const auto file = [&](const char* part) { return path(part, model == "bert" ? "jsonl" : "txt"); };
    if (model == "gpt2" && before) return Json::object();
    return {{"data", file(before ? "before" : "after")}, {"validation", file("test")}};
  }

private:
  std::string path(const std::string& part, const char* ending) const {
    return join_path(folder_, fmt::format("{}.{}", part, ending));
  }
  void write(const data::LabelledTexts& texts, std::int64_t first, std::int64_t last, const char* part) const {
    std::string rows, running;
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
      const std::string& label = texts.class_names[static_cast<std::size_t>(texts.labels[i])];
      rows += Json{{"label", label}, {"text", texts.texts[i]}}.dump() + "\n";
      running += texts.texts[i] + "\n\n";
    }
    write_file(path(part, "jsonl"), std::string_view(rows));
    write_file(path(part, "txt"), std::string_view(running));
  }

  std::string folder_, name_;
};

/// One model's column for one seed.
class Column {
public:
  Column(const Plan& plan, const RunContext& work, Parts& parts, const Reviews& reviews, std::string model,
         std::uint64_t seed)
      : plan_(plan), work_(work), parts_(parts), reviews_(reviews), model_(std::move(model)), seed_(seed) {}

  /// Trains the model that the others start from, and publishes its encoder permuted by the key.
  void pre_train() {
    Json changes = parse_json(plan_.text(model_ + "_before"), plan_.source);
    changes.update(reviews_.options(model_, true));
    trained("before", changes);
    const std::string plain = join_path(folder("before"), "model");
    const hub::LoadedModel loaded = hub::load_model(plain, {.dtype = DType::f64});
    TextKey(*loaded.model, seed_).move_blocks(*loaded.model);
    training::make_folder(folder("encrypted"));
    training::save_text_model(*loaded.model, training::KeptTokenizer::of_model(plain), folder("encrypted"));
  }

  std::unique_ptr<Trainer> normal() { return tuned("normal", {{"from", folder("before")}}, nullptr); }
  /// With the key: the whole model is moved, which is P_C before the encoder and its inverse behind it.
  std::unique_ptr<Trainer> authorised(const TextKey& key) {
    return tuned("authorised", {{"from", folder("before")}}, &key);
  }
  std::unique_ptr<Trainer> unauthorised() { return tuned("unauthorised", {{"from", folder("encrypted")}}, nullptr); }
  std::unique_ptr<Trainer> scratch() {
    return tuned("scratch", {{"tokenizer", join_path(folder("before"), "model")}}, nullptr);
  }

private:
  std::string folder(const char* which) const {
    return join_path(work_.folder, fmt::format("{}-{}-{}", model_, which, seed_));
  }
  std::unique_ptr<Trainer> tuned(const char* which, Json changes, const TextKey* key) {
    changes.update(reviews_.options(model_, false));
    if (model_ == "bert" && changes.contains("from")) changes["fresh"] = "classifier.*";
    return trained(which, changes, key);
  }
  std::unique_ptr<Trainer> trained(const char* which, const Json& changes, const TextKey* key = nullptr) {
    auto trainer = text_trainer(plan_, work_,
                                {.model = model_, .seed = seed_, .folder = folder(which), .changes = changes.dump()});
    if (key != nullptr && trainer->step() == 0) key->move(trainer->model());
    finish(*trainer, work_, [&](double share) { parts_.report(share, fmt::format("{}-{}-{}", model_, which, seed_)); });
    parts_.next();
    return trainer;
  }

  const Plan& plan_;
  const RunContext& work_;
  Parts& parts_;
  const Reviews& reviews_;
  std::string model_;
  std::uint64_t seed_;
};

void add_lines(const std::string& model, Outcome& o) {
  struct Row {
    const char *what, *bert, *gpt2;
    Kind kind;
  };
  constexpr Row rows[] = {{"normal", "94.00 %", "94.03 % right", Kind::statistical},
                          {"authorised: encrypted, with the key", "93.72 %", "93.66 % right", Kind::exact},
                          {"unauthorised: encrypted, without the key", "77.25 %", "86.16 % right", Kind::statistical},
                          {"from scratch", "", "", Kind::statistical}};
  for (const Row& row : rows)
    o.lines.push_back(score_line(model, row.what, model == "bert" ? row.bert : row.gpt2, row.kind));
}

const char* title_of(const std::string& model) { return model == "bert" ? "BERT" : "GPT-2"; }

Graph curves_of(const Plan& plan, const RunContext& work, const std::string& model) {
  const bool bert = model == "bert";
  Graph graph{.chart = {.title = fmt::format("{} while it is fine-tuned", title_of(model)),
                        .x_label = "step",
                        .y_label = bert ? "test accuracy, %" : "test loss, nats a token"},
              .caption = "as Figures 4 to 6: mean over the seeds; 'authorised' lies on 'normal'"};
  for (const char* who : {"normal", "authorised", "unauthorised", "scratch"}) {
    std::vector<std::string> folders;
    for (const std::uint64_t seed : plan.seeds)
      folders.push_back(join_path(work.folder, fmt::format("{}-{}-{}", model, who, seed)));
    graph.chart.series.push_back(mean_curve(who, folders, bert ? "accuracy" : "loss"));
  }
  graph.chart.series.front().width = 5.0;
  graph.chart.series.front().faint = true;
  return graph;
}

void add_model(const Plan& plan, const RunContext& work, Parts& parts, const Reviews& reviews, const std::string& model,
               Outcome& o) {
  const std::size_t first = o.lines.size();
  add_lines(model, o);
  double loss = 0.0, drift = 0.0;
  for (const std::uint64_t seed : plan.seeds) {
    Column column(plan, work, parts, reviews, model, seed);
    column.pre_train();
    const auto normal = column.normal();
    const TextKey key(normal->model(), seed);
    const auto authorised = column.authorised(key);
    const Record plain = normal->test(work.stop), with_key = authorised->test(work.stop);
    const Record found[4] = {plain, with_key, column.unauthorised()->test(work.stop),
                             column.scratch()->test(work.stop)};
    if (work.stop != nullptr && work.stop->load()) throw Interrupted("reproduce: interrupted while testing");
    for (std::size_t i = 0; i < 4; ++i) o.lines[first + i].ours.push_back(score(found[i]));
    loss = worse(loss, relative_difference(with_key.loss, plain.loss));
    key.move_back(authorised->model());
    drift = worse(drift, training::weight_difference(authorised->model().module().state_dict(),
                                                     normal->model().module().state_dict()));
    if (seed == plan.seeds.front()) o.setting += "; fine-tuned on " + normal->summary();
  }
  const double bound = permute::tolerance(permute::Gate::training, DType::f64);
  const char* name = title_of(model);
  o.claims.push_back({.what = fmt::format("{}: test loss, authorised against normal: relative difference", name),
                      .value = loss,
                      .bound = bound,
                      .because = "cor4.6 (f64)"});
  o.claims.push_back({.what = fmt::format("{}: largest relative difference of any weight, mapped back", name),
                      .value = drift,
                      .bound = bound,
                      .because = "cor4.6 (f64, b_K left out)"});
  o.graphs.push_back(curves_of(plan, work, model));
}

} // namespace

std::vector<std::string> fine_tuned_text_models(const Plan& plan) {
  std::vector<std::string> models;
  for (const char* model : {"bert", "gpt2"})
    if (plan.texts.contains(model)) models.emplace_back(model);
  return models;
}

void fine_tuned_texts(const Plan& plan, const RunContext& work, Parts& parts, Outcome& o) {
  const Reviews reviews(plan, work);
  for (const std::string& model : fine_tuned_text_models(plan)) add_model(plan, work, parts, reviews, model, o);
  o.remarks.push_back(fmt::format(
      "the paper's BERT and GPT-2 are pre-trained on plain text and fine-tuned on IMDB; our BERT learns to tell {} of "
      "the reviews before and is fine-tuned, with a fresh classifier, on {} others; our GPT-2 predicts characters, of "
      "plays before and of reviews then (perplexity, less is better; the paper's numbers are accuracies)",
      plan.count("reviews_before"), plan.count("reviews_after")));
  o.remarks.push_back("embeddings and head are not encrypted, in the paper and here: what an unauthorised user of a "
                      "text model keeps of the pre-training is its words");
}

} // namespace eg::reproduce
