// Paper 001, Table 7: the size of patches.

#include "apps/attacks/jigsaw.h"
#include "apps/reproduce/experiments.h"
#include "apps/reproduce/vision.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>

namespace eg::reproduce {
namespace {

constexpr std::uint64_t draw_jigsaws = 78;

} // namespace

void patch_sizes(const Plan& plan, const RunContext& work, Outcome& o) {
  struct Row {
    std::int64_t patch;
    const char *accuracy, *jigsaw, *seconds;
  };
  constexpr Row rows[] = {{2, "82.64 %", "< 0.1 %", "33.66 s"},
                          {4, "79.67 %", "1.16 %", "7.75 s"},
                          {8, "77.25 %", "60.03 %", "2.19 s"},
                          {16, "66.51 %", "83.52 %", "0.69 s"}};
  const std::int64_t jigsaws = plan.count("jigsaw_images");
  const std::int64_t smallest = plan.count("smallest_patch");
  if (smallest > 16)
    throw FileError(fmt::format("{}: smallest_patch {} leaves no size up to 16", plan.source, smallest));
  const auto sizes = std::count_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.patch >= smallest; });
  Parts parts(work, plan.seeds.size() * static_cast<std::size_t>(sizes));
  std::vector<double> seconds_of_sizes, solved_of_sizes;
  for (const Row& row : rows) {
    if (row.patch < smallest) continue;
    Line accuracy{.what = fmt::format("patches of {0} x {0}: accuracy", row.patch), .paper = row.accuracy, .ours = {}};
    Line solved{.what = fmt::format("patches of {0} x {0}: put back by the jigsaw attack", row.patch),
                .paper = row.jigsaw,
                .ours = {}};
    Line seconds{.what = fmt::format("patches of {0} x {0}: time for 2000 images", row.patch),
                 .paper = row.seconds,
                 .ours = {},
                 .unit = "s",
                 .decimals = 3};
    for (const std::uint64_t seed : plan.seeds) {
      VitOptions options = options_for(plan, work, seed, {PermuteMode::none});
      options.model.patch = row.patch;
      const auto t = trained(options, work, fmt::format("patch-{}-{}", row.patch, seed), parts);
      const auto begin = std::chrono::steady_clock::now();
      const Answers answers = answers_of(*t, t->model(0), {}, work);
      const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      accuracy.ours.push_back(answers.accuracy);
      seconds.ours.push_back(took * 2000.0 / static_cast<double>(answers.classes.size()));
      solved.ours.push_back(
          attacks::jigsaw_accuracy(t->test_data(), row.patch, jigsaws, RandomKey{seed, draw_jigsaws}, work.stop));
      o.setting = setting_of(*t, plan.seeds.size()) + "; the patches vary";
    }
    seconds_of_sizes.push_back(seconds.mean());
    solved_of_sizes.push_back(solved.mean());
    for (Line* line : {&accuracy, &solved, &seconds}) o.lines.push_back(std::move(*line));
  }
  o.claims = {{.what = "time with the smallest patches over time with the largest",
               .value = seconds_of_sizes.front() / seconds_of_sizes.back(),
               .bound = 2.0,
               .sense = Claim::Sense::at_least,
               .because = "the number of tokens grows with the square of 1 / patch"},
              {.what = "patches put back: the largest ones minus the smallest ones, in points",
               .value = solved_of_sizes.back() - solved_of_sizes.front(),
               .bound = 20.0,
               .sense = Claim::Sense::at_least,
               .because = "large patches show more of what stood beside them"}};
  o.remarks.push_back(fmt::format(
      "the paper's attacker is a JigsawGAN; ours needs no training: it fits borders (Pomeranz et al., CVPR 2011) by "
      "annealing, on the pixels of {} shuffled test images. Percent of patches at their own place; chance is one in "
      "their number",
      jigsaws));
  if (smallest > 2) o.remarks.push_back(fmt::format("patches below {} are left out at this scale", smallest));
}

} // namespace eg::reproduce
