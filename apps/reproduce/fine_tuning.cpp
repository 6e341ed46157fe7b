// CVPR Table 7 with Figures 4 to 6: fine-tuning an encrypted model with its key, without it, and by learning it.

#include "apps/reproduce/curves.h"
#include "apps/reproduce/experiments.h"
#include "apps/reproduce/fine_tuning_texts.h"
#include "apps/reproduce/learnt_key.h"
#include "apps/reproduce/vision.h"
#include "nn/hub/folder.h"
#include "permute/catalogue/catalogue.h"
#include "training/checkpoint.h"

#include "core/base/bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace eg::reproduce {
namespace {

using Images = std::pair<data::ImageDataset, data::ImageDataset>;

/// The images of classes [first, last), at most `limit` of them (0: all), their labels counted from 0.
data::ImageDataset classes_of(const data::ImageDataset& set, std::int64_t first, std::int64_t last,
                              std::int64_t limit) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < set.size() && (limit == 0 || std::ssize(places) < limit); ++i)
    if (set.label(i) >= first && set.label(i) < last) places.push_back(i);
  const data::ImageDataset chosen = set.select(places);
  Bytes pixels;
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < chosen.size(); ++i) {
    const ByteView image = chosen.pixels(i);
    pixels.insert(pixels.end(), image.begin(), image.end());
    labels.push_back(static_cast<std::int32_t>(chosen.label(i) - first));
  }
  const auto& names = set.class_names();
  return {fmt::format("{}, classes {} to {}", set.name(), first, last - 1),
          set.channels(),
          set.height(),
          set.width(),
          {names.begin() + first, names.begin() + last},
          std::move(pixels),
          std::move(labels)};
}

/// Both splits of one half of the classes.
Images half_of(const Plan& plan, const RunContext& work, bool first_half, std::int64_t limit) {
  const auto open = [&](data::Split split) {
    return data::open_dataset(plan.train.data, work.data_dir, split, {.size = plan.train.size, .stop = work.stop});
  };
  const data::ImageDataset train = open(data::Split::train), test = open(data::Split::test);
  const std::int64_t half = plan.count("first_classes"), all = train.classes();
  const std::int64_t from = first_half ? 0 : half, to = first_half ? half : all;
  return {classes_of(train, from, to, limit), classes_of(test, from, to, plan.train.test_limit)};
}

/// A copy of a run's model folder whose encoder the key has moved: what the encrypted model's holder gives away.
void save_encrypted(const std::string& run, const std::string& folder, const permute::BlocksKey& key, DType dtype) {
  const hub::LoadedModel loaded = hub::load_model(join_path(run, "model"), {.dtype = dtype});
  auto& vit = dynamic_cast<nn::Vit&>(loaded.model->module());
  permute::transform_module(vit, permute::vit_axes(vit.config), key.permutations(vit.config.encoder));
  training::make_folder(folder);
  hub::save_model(*loaded.model, folder);
  const std::string how = "preprocessor_config.json"; // what is done to pixels
  const Bytes steps = read_file(join_path(run, "model/" + how));
  write_file(join_path(folder, how), ByteView(steps));
}

/// How far every ViT was while it was fine-tuned.
Graph vit_curves(const Plan& plan, const RunContext& work) {
  const auto curve = [&](const char* name, const char* run, const char* metric) {
    std::vector<std::string> folders;
    for (const std::uint64_t seed : plan.seeds)
      folders.push_back(join_path(work.folder, fmt::format("{}-{}", run, seed)));
    return mean_curve(name, folders, metric);
  };
  Graph graph{.chart = {.title = "ViT while it is fine-tuned", .x_label = "step", .y_label = "test accuracy, %"},
              .caption = "as Figures 4 to 6: mean over the seeds; 'authorised' lies on 'normal'"};
  graph.chart.series = {curve("normal", "authorised", "variants.none.accuracy"),
                        curve("authorised", "authorised", "variants.columns.accuracy"),
                        curve("unauthorised", "unauthorised", "accuracy"),
                        curve("from scratch", "scratch", "accuracy")};
  graph.chart.series.front().width = 5.0;
  graph.chart.series.front().faint = true;
  return graph;
}

} // namespace

void fine_tuned(const Plan& plan, const RunContext& work, Outcome& o) {
  o.lines = {{.what = "ViT, normal", .paper = "97.74 %", .ours = {}},
             {.what = "ViT, authorised: encrypted, with the key", .paper = "97.94 %", .ours = {}, .kind = Kind::exact},
             {.what = "ViT, unauthorised: encrypted, without the key", .paper = "78.03 %", .ours = {}},
             {.what = "ViT, unauthorised, learning P_C", .paper = "", .ours = {}},
             {.what = "ViT, places of P_C that it found", .paper = "", .ours = {}},
             {.what = "ViT, from scratch", .paper = "78 % (curve)", .ours = {}}};
  const Images before = half_of(plan, work, true, plan.train.train_limit),
               after = half_of(plan, work, false, plan.count("fine_tuning_images"));
  Parts parts(work, 5 * plan.seeds.size() * (1 + fine_tuned_text_models(plan).size()));
  double differ = 0.0, drift = 0.0;
  for (const std::uint64_t seed : plan.seeds) {
    const std::string pre = fmt::format("pre-{}", seed), encrypted = fmt::format("encrypted-{}", seed);
    trained(options_for(plan, work, seed, {PermuteMode::none}), work, pre, parts, before);
    const auto fine_tune = [&](const std::string& name, const std::string& from, std::vector<PermuteMode> variants) {
      VitOptions options = options_for(plan, work, seed, std::move(variants));
      options.steps = plan.count("fine_tuning_steps");
      options.evaluate_every = plan.count("fine_tuning_evaluate_every");
      options.epochs = 0;
      if (!from.empty()) options.start.from = join_path(work.folder, from);
      return trained(options, work, fmt::format("{}-{}", name, seed), parts, after);
    };
    const auto both = fine_tune("authorised", pre, {PermuteMode::none, PermuteMode::columns});
    const permute::BlocksKey& key = *both->column_key();
    save_encrypted(join_path(work.folder, pre), join_path(work.folder, encrypted), key, plan.train.dtype);
    const auto without = fine_tune("unauthorised", encrypted, {PermuteMode::none});
    const auto scratch = fine_tune("scratch", "", {PermuteMode::none});
    const LearntKey learnt = learn_key(plan, work, join_path(work.folder, encrypted), after, seed,
                                       [&](double share, const std::string& what) { parts.report(share, what); });
    parts.next();
    const Answers normal = answers_of(*both, both->model(0), {}, work),
                  authorised = answers_of(*both, both->model(1), {.key = &key}, work);
    o.lines[0].ours.push_back(normal.accuracy);
    o.lines[1].ours.push_back(authorised.accuracy);
    o.lines[2].ours.push_back(answers_of(*without, without->model(0), {}, work).accuracy);
    o.lines[3].ours.push_back(learnt.accuracy);
    o.lines[4].ours.push_back(100.0 * learnt.columns.found(key.residual));
    o.lines[5].ours.push_back(answers_of(*scratch, scratch->model(0), {}, work).accuracy);
    differ += differing(authorised, normal);
    drift = worse(drift, both->drift(1));
    o.setting =
        fmt::format("pre-trained on {}; fine-tuned on {}", before.first.name(), setting_of(*both, plan.seeds.size()));
  }
  o.claims = {none_differ("ViT: authorised against normal", differ, "cor4.6"),
              {.what = "ViT: largest relative difference of any weight, mapped back",
               .value = drift,
               .bound = permute::tolerance(permute::Gate::training, plan.train.dtype),
               .because = "cor4.6 (b_K left out)"}};
  o.graphs.push_back(vit_curves(plan, work));
  o.remarks.push_back("the ViT's pre-training and fine-tuning are halves of one set's classes");
  o.remarks.push_back(
      "'learning P_C' keeps the encrypted encoder fixed and learns a doubly stochastic matrix (Sinkhorn) "
      "in place of P_C beside the head: the attack that the paper's unauthorised user does not try");
  if (!fine_tuned_text_models(plan).empty()) fine_tuned_texts(plan, work, parts, o);
}

} // namespace eg::reproduce
