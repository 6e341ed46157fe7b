#include "apps/report/pages/theorem_report.h"

#include "apps/report/image_figures.h"
#include "apps/report/pages/axis_diagram.h"
#include "apps/report/pages/log_strip.h"
#include "apps/report/pages/theorem_cards.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>

namespace eg::report {

using permute::VerifyResult;
namespace {

struct Section {
  const char* title;
  const char* anchor;
};

constexpr std::array sections = {
    Section{"Gradients of a permuted transformer", "figure-gradients"},
    Section{"Attention of a permuted transformer", "figure-attention"},
    Section{"Error against depth", "figure-depth"},
    Section{"Position embeddings, trained plain and shuffled", "figure-positions"},
    Section{"What the encoder sees", "figure-images"},
    Section{"Which axes move together", "figure-axes"},
};
enum SectionPlace : std::uint8_t { gradients, attention, depth, positions, images, axes };

void begin(Page& page, SectionPlace place) { page.heading(sections[place].title, sections[place].anchor); }

/// Links to the papers' cards and to the figures.
std::string contents(const std::vector<VerifyResult>& results) {
  std::string links = paper_links(results);
  for (const Section& section : sections)
    links += fmt::format("<a href=\"#{}\">{}</a> ", section.anchor, section.title);
  return "<p class=\"chips\">" + links + "</p>\n";
}

/// Parts of the whole work, for the progress line.
constexpr double depth_part = 0.6;

void add_how(Page& page, const std::vector<VerifyResult>& results, const TheoremReportOptions& options) {
  const VerifyResult& first = results.front();
  std::string sizes;
  for (const auto& [name, value] : first.sizes) sizes += fmt::format("{}{} {}", sizes.empty() ? "" : ", ", name, value);
  const bool exact =
      std::any_of(results.begin(), results.end(), [](const VerifyResult& r) { return r.differing_exact.has_value(); });
  page.paragraph(fmt::format(
      "Each row computes both sides of one statement on {} and compares them: the error is the largest absolute "
      "difference over the largest expected entry. In f32 the left side is also compared with the right side computed "
      "in f64 from the same numbers. A control is the same comparison with something deliberately wrong, or the claim "
      "that is false: its error must be large, so that a row that compares nothing cannot pass. Gradients come from "
      "the tape.",
      options.model.empty() ? "random values" : "the weights of " + options.model));
  page.paragraph(fmt::format("Seed {}; {}{}{}.", first.seed, sizes,
                             first.device.is_cpu() ? "" : "; computed on " + first.device.str(),
                             options.model.empty() ? " (rows that need other sizes choose their own)" : ""));
  page.paragraph(exact
                     ? "Sums were exact: no order of their terms changes them. Both sides must then have the same "
                       "bits, unless they are two formulas. \"Other bits\" counts the elements that differ with "
                       "ordinary sums, then with exact ones."
                     : "\"Other bits\" counts the elements whose bits differ with ordinary sums. With --exact sums are "
                       "taken so that no order of their terms changes them, and both counts are shown.");
  page.markup("<p class=\"small\">How to read a strip: the green zone is what the tolerance allows, the orange one is "
              "where the control must lie; the dot is the error, the diamond the control. A hollow mark is outside its "
              "zone.</p><div class=\"legend\">" +
              log_strip({{"f64", 4e-16, 1e-11, 0.8, 1e-3}}) + "</div>\n");
}

/// A ViT of one block, as the inference reads it.
SymmetryDiagram vit_diagram() {
  nn::VitConfig config;
  config.layers = 1;
  config.encoder.dim = 192;
  config.encoder.heads = 3;
  config.encoder.mlp = 768;
  const nn::Vit model(config, {1, 0});
  const Tensor images = Tensor::zeros({1, config.channels, config.height(), config.width()});
  permute::SymmetryQuery query;
  query.parameters = model.state_dict();
  query.inputs = {{"images", images}};
  query.data_axes = {{"images", 0}};
  query.run = [&] { return nn::StateDict{{"logits", model(images)}}; };
  return diagram_of(permute::ModelSymmetries(query), query.parameters);
}

void add_axes(Page& page, const TheoremReportOptions& options) {
  const bool given = !options.axes.parameters.empty();
  const SymmetryDiagram diagram = given ? options.axes : vit_diagram();
  const std::string caption = given ? options.axes_caption
                                    : "The parameters of a ViT of one block (dim 192, 3 heads), each with the groups "
                                      "that permute its axes: weights, "
                                      "gradients and optimiser state alike.";
  page.markup(fmt::format("<figure>{}<figcaption>{} A line is as long as the part of the axis that "
                          "its group moves.</figcaption></figure>\n",
                          scrolling("axes", axis_diagram(diagram.parameters, diagram.notes)), escape(caption)));
}

} // namespace

Page theorem_report(const std::vector<VerifyResult>& results, const TheoremReportOptions& options) {
  if (results.empty()) throw ValueError("report: there are no results");
  const ProgressCallback on_progress = [&](double part, const std::string& what) {
    if (options.on_progress) options.on_progress(part, what);
  };
  Page page("equigrad: the permutation theorems of transformers, measured");
  page.style(card_styles);
  page.heading("Summary");
  page.markup(contents(results) + summary(results));
  add_how(page, results, options);
  page.markup(cards(results));
  begin(page, gradients);
  page.paragraph(
      "Two encoder blocks (f64, dim 32, 4 heads), once plain and once with every permutation at once: P_R on "
      "the tokens, P_C on the features, a permutation of its own on every inner axis. Blue is negative, red "
      "positive, white zero.");
  on_progress(0.0, "gradient maps");
  add_gradient_maps(page, options.seed);
  begin(page, attention);
  page.paragraph("S = Softmax(Q K^T / sqrt d), mean over the heads of the first block, for the first sample.");
  add_attention_maps(page, options.seed);
  begin(page, depth);
  add_depth(page, options.seed, [&](double part, const std::string& what) { on_progress(part * depth_part, what); });
  training::VitTrainer trainer(small_training(options.data, options.data_dir, options.seed), options.stop);
  begin(page, positions);
  page.paragraph(fmt::format(
      "Cosine similarity of the position embedding of each of the patches with all others, one small map each, as in "
      "Fig. 9 of \"Shuffled Transformers for Blind Training\": a ViT (dim 32, one block, f64) on {} images, plain and "
      "with a fresh P_R for every image and step. Positions are added before rows are shuffled, so both learn the "
      "same.",
      trainer.train_data().name()));
  add_position_maps(page, trainer, [&](double part, const std::string& what) {
    on_progress(depth_part + part * (1 - depth_part), what);
  });
  begin(page, images);
  page.paragraph("Permutation is obfuscation, not encryption: colours and textures stay, and attacks undo it.");
  add_shuffles(page, trainer);
  begin(page, axes);
  page.paragraph(
      "Read off the model's tape: what an operation does to its axes says which of them must move alike, and the "
      "permutations that are left free are the model's group. (S_64)^3 permutes the elements within each of three "
      "blocks, for themselves.");
  add_axes(page, options);
  return page;
}

} // namespace eg::report
