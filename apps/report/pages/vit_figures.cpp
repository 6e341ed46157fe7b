#include "apps/report/pages/attention_maps.h"
#include "apps/report/pages/figures.h"
#include "apps/report/pages/predictions.h"
#include "apps/report/pages/run_model.h"
#include "apps/report/pages/vit_subject.h"
#include "apps/report/pages/vit_tables.h"
#include "apps/report/pictures.h"
#include "core/base/error.h"
#include "core/call.h"
#include "core/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>

namespace eg::pages {
namespace {

using report::Page;

void add_pictures(Page& page, const VitSubject& subject, const Predictions& p) {
  const auto figures = [&](const std::vector<std::size_t>& places) {
    std::vector<Page::Figure> list;
    for (const std::size_t i : places)
      list.push_back({subject.data().image(static_cast<std::int64_t>(i)), p.caption(i)});
    page.figures(list, 112);
  };
  page.paragraph("Test images and what the model says of them, with its probability:");
  figures(p.spread(14));
  const std::vector<std::size_t> mistakes = p.surest_mistakes(14);
  if (mistakes.empty()) return;
  page.paragraph("The surest mistakes:");
  figures(mistakes);
}

/// The prediction for an image, by its number.
using Caption = std::function<std::string(std::size_t image)>;

/// Up to `count` of `all` numbers, spread evenly.
std::vector<std::size_t> spread(std::size_t count, std::size_t all) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < std::min(count, all); ++i) places.push_back(i * all / std::min(count, all));
  return places;
}

void add_attention(Page& page, const VitSubject& subject, std::size_t count, const Caption& caption) {
  const nn::VitConfig& config = subject.model().config;
  const std::string who = config.pooling == nn::Pooling::cls ? "the class token" : "the mean of all tokens";
  page.paragraph(
      fmt::format("What {} takes from each patch, dark to bright: the mean of the heads of the last block, and "
                  "attention rollout over all {} blocks (Abnar and Zuidema, 2020), which follows the "
                  "residual connections too.",
                  who, config.layers));
  std::vector<Page::Figure> figures;
  for (const std::size_t i : spread(4, count)) {
    const std::vector<Tensor> scores = subject.attention(static_cast<std::int64_t>(i));
    const Tensor last = mean(scores.back().to(DType::f64), {0, 1});
    figures.push_back({subject.data().image(static_cast<std::int64_t>(i)), caption(i)});
    figures.push_back({report::heat_map(patch_map(last, config)), "last block"});
    figures.push_back({report::heat_map(patch_map(attention_rollout(scores).squeeze(0), config)), "rollout"});
  }
  page.figures(figures, 144);
  const std::vector<Tensor> scores = subject.attention(0);
  page.paragraph("The heads of every block one by one, for the first of these images:");
  for (std::size_t block = 0; block < scores.size(); ++block) {
    std::vector<Page::Figure> heads;
    for (std::int64_t h = 0; h < scores[block].size(1); ++h)
      heads.push_back({report::heat_map(patch_map(scores[block].slice(1, h, h + 1).squeeze(1).squeeze(0), config)),
                       fmt::format("block {}, head {}", block + 1, h + 1)});
    page.figures(heads, 112);
  }
}

void add_positions(Page& page, const VitSubject& subject) {
  const nn::VitConfig& config = subject.model().config;
  if (!subject.model().position_embedding.defined() || config.height() != config.width()) return;
  const Tensor all = subject.model().position_embedding.squeeze(0);
  const std::int64_t side = config.height() / config.patch;
  const Tensor patches = all.slice(0, config.special_tokens(), all.size(0)).contiguous();
  page.paragraph(
      "Position embeddings: each small map is one position, and shows the cosine of its embedding with those "
      "of all positions, from -1 (dark) to 1 (bright).");
  page.figures({{report::position_map(patches, side), fmt::format("{} x {} positions", side, side)}},
               static_cast<int>(std::clamp<std::int64_t>(side * (side + 1) * 6, 200, 560)));
}

/// Test images with the model's predictions, and tables of them.
void add_classes_of(Page& page, const VitSubject& subject, const Predictions& p, const FigureOptions& o) {
  page.paragraph(fmt::format("The model of step {} on {} of {} test images of {}: {:.2f} % right.", subject.step(),
                             p.size(), subject.data().size(), subject.data().name(),
                             100.0 * static_cast<double>(p.correct()) / static_cast<double>(p.size())));
  if (!subject.options().teacher.empty()) add_teacher(page, subject, p, o);
  add_confusion(page, p);
  add_classes(page, p);
  add_pictures(page, subject, p);
}

} // namespace

void add_vit_figures(Page& page, const RunFolder& run, const FigureOptions& o) {
  report_progress(o, run.name + ": reading the model and its images");
  const OpenedVit opened = opened_vit(run, o);
  const VitSubject subject(opened);
  if (opened.split)
    page.paragraph("Its blocks were trained by another party. This is the final model that the run left here.");
  report_progress(o, run.name + ": predicting test images");
  if (subject.data().has_attributes()) {
    const Attributes named = attributes_of(subject, o);
    add_attributes(page, subject, named);
    report_progress(o, run.name + ": attention");
    add_attention(page, subject, named.size(), [&](std::size_t i) { return named_list(subject, named[i]); });
  } else {
    const Predictions p = subject.predict(o.samples, o.stop);
    add_classes_of(page, subject, p, o);
    report_progress(o, run.name + ": attention");
    add_attention(page, subject, p.labels.size(), [&](std::size_t i) { return p.caption(i); });
  }
  add_positions(page, subject);
}

} // namespace eg::pages
