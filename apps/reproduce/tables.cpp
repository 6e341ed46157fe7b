// Paper 001, C.4: DIFM on a table of advertisements, its fields permuted on their way through the attention.

#include "apps/reproduce/experiments.h"
#include "apps/reproduce/texts.h"
#include "permute/catalogue/catalogue.h"
#include "training/language/difm_task.h"

#include "core/base/bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace eg::reproduce {

void permuted_tables(const Plan& plan, const RunContext& work, Outcome& o) {
  o.lines = {
      {.what = "AUC, fields as they are", .paper = "0.777", .ours = {}, .unit = "", .decimals = 4},
      {.what = "AUC, fields permuted", .paper = "0.777", .ours = {}, .unit = "", .decimals = 4, .kind = Kind::exact}};
  const double parts = static_cast<double>(2 * plan.seeds.size());
  double done = 0.0, auc = 0.0, loss = 0.0;
  for (const std::uint64_t seed : plan.seeds) {
    const auto tested = [&](permute::PermuteMode mode) {
      const std::string name = fmt::format("{}-{}", permute::name_of(mode), seed);
      const auto trainer = table_trainer(plan, work, seed, mode, join_path(work.folder, name));
      finish(*trainer, work, [&](double share) {
        if (work.on_progress) work.on_progress((done + share) / parts, name);
      });
      done += 1.0;
      if (o.setting.empty()) o.setting = fmt::format("{}; {} seeds", trainer->summary(), plan.seeds.size());
      return trainer->test(work.stop);
    };
    const training::Record plain = tested(permute::PermuteMode::none), rows = tested(permute::PermuteMode::rows);
    o.lines[0].ours.push_back(plain.auc);
    o.lines[1].ours.push_back(rows.auc);
    auc = worse(auc, std::abs(rows.auc - plain.auc));
    loss = worse(loss, std::abs(rows.loss - plain.loss) / plain.loss);
  }
  o.claims = {{.what = "AUC, largest difference", .value = auc, .bound = 0.0, .because = "thm4.1, cor4.3"},
              {.what = "test loss, largest relative difference",
               .value = loss,
               .bound = permute::tolerance(permute::Gate::training, DType::f64),
               .because = "the same (f64)"}};
  o.remarks.push_back(
      "the paper learns from all of Criteo, ours from a sample of a few hundred rows: its AUC cannot be "
      "reached, and the spread over seeds says how little a number means here");
}

} // namespace eg::reproduce
