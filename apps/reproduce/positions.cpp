// Paper 001, Table 3 and Figure 9: position embeddings, which stay on the edge, and shuffling behind them.

#include "apps/report/pictures.h"
#include "apps/reproduce/celeba.h"
#include "apps/reproduce/experiments.h"
#include "apps/reproduce/vision.h"
#include "core/ops.h"
#include "permute/catalogue/catalogue.h"

#include <fmt/format.h>

#include <algorithm>

namespace eg::reproduce {
namespace {

/// Of the patches alone, [patches, dim].
Tensor positions_of(const nn::Vit& model) {
  const PauseRecording pause;
  const Tensor all = model.position_embedding.squeeze(0);
  return all.slice(0, model.config.special_tokens(), all.size(0)).contiguous();
}

} // namespace

void without_positions(const Plan& plan, const RunContext& work, Outcome& o) {
  o.lines = {{.what = "with positions, plain", .paper = celeba_number(plan, "91.91 %"), .ours = {}},
             {.what = "with positions, tokens shuffled",
              .paper = celeba_number(plan, "91.83 %"),
              .ours = {},
              .kind = Kind::exact},
             {.what = "without positions, plain", .paper = celeba_number(plan, "91.52 %"), .ours = {}},
             {.what = "without positions, tokens shuffled",
              .paper = celeba_number(plan, "91.40 %"),
              .ours = {},
              .kind = Kind::exact}};
  Parts parts(work, 2 * plan.seeds.size());
  double differ = 0.0;
  for (const std::uint64_t seed : plan.seeds)
    for (const bool with : {true, false}) {
      VitOptions options = options_for(plan, work, seed, {PermuteMode::none, PermuteMode::rows});
      options.model.position = with ? nn::PositionEmbedding::learned : nn::PositionEmbedding::none;
      const auto t = trained(options, work, fmt::format("{}-{}", with ? "with" : "without", seed), parts);
      const Answers plain = answers_of(*t, t->model(0), {}, work),
                    shuffled = answers_of(*t, t->model(1), {.rows = true}, work);
      o.lines[with ? 0 : 2].ours.push_back(plain.accuracy);
      o.lines[with ? 1 : 3].ours.push_back(shuffled.accuracy);
      differ += differing(shuffled, plain);
      if (with) o.setting = setting_of(*t, plan.seeds.size());
    }
  o.claims = {none_differ("shuffled against plain", differ, "thm4.1, cor4.3")};
  o.doubts.push_back("the text's drop of 0.506 points for removing positions is that of RS without positions against "
                     "plain with them (91.908 - 91.402); removing them alone costs 0.39");
}

void position_maps(const Plan& plan, const RunContext& work, Outcome& o) {
  Parts parts(work, plan.seeds.size());
  o.lines = {{.what = "relative difference of the embeddings, shuffled against plain",
              .paper = "similar",
              .ours = {},
              .unit = "x 1e-12",
              .decimals = 3,
              .kind = Kind::exact}};
  double worst = 0.0;
  for (const std::uint64_t seed : plan.seeds) {
    const auto t = trained(options_for(plan, work, seed, {PermuteMode::none, PermuteMode::rows}), work,
                           fmt::format("coupled-{}", seed), parts);
    const Tensor plain = positions_of(t->model(0)), shuffled = positions_of(t->model(1));
    const double apart = relative_error(shuffled, plain);
    o.lines[0].ours.push_back(1e12 * apart);
    worst = worse(worst, apart);
    o.setting = setting_of(*t, plan.seeds.size());
    if (seed != plan.seeds.front()) continue;
    const std::int64_t side = t->options().model.height() / t->options().model.patch;
    o.pictures = {{report::position_map(plain, side), "position embeddings learnt plain: how each position "
                                                      "looks to all (cosine)"},
                  {report::position_map(shuffled, side), "learnt with tokens shuffled behind them"}};
  }
  o.claims = {{.what = "relative difference of the embeddings",
               .value = worst,
               .bound = permute::tolerance(permute::Gate::training, plan.train.dtype),
               .because = "thm10.1, cor4.3"},
              {.what = fmt::format("weights with other bits after {} steps in exact mode", plan.count("exact_steps")),
               .value = differing_bits_in_exact_mode(plan, work, {PermuteMode::none, PermuteMode::rows}),
               .because = "the same, with sums whose order cannot matter"}};
}

} // namespace eg::reproduce
