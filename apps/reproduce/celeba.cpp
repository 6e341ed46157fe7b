#include "apps/reproduce/celeba.h"

#include "core/base/bytes.h"
#include "data/dataset.h"

#include <filesystem>
#include <utility>

namespace eg::reproduce {
namespace {

/// Where CelebA is; "" where it is missing.
std::string celeba_place(const Plan& plan, const RunContext& work) {
  for (const std::string& folder : {plan.celeba->data_dir, work.data_dir, data::default_data_dir()}) {
    if (folder.empty()) continue;
    return std::filesystem::is_directory(join_path(folder, "celeba")) ? folder : "";
  }
  return "";
}

/// Half of the work.
RunContext half_of(const RunContext& work, double begin) {
  RunContext half = work;
  if (work.on_progress)
    half.on_progress = [on_progress = work.on_progress, begin](double done, const std::string& what) {
      on_progress(begin + 0.5 * done, what);
    };
  return half;
}

void append(const Outcome& column, Outcome& o) {
  for (Line line : column.lines) {
    line.what = "CelebA: " + line.what;
    o.lines.push_back(std::move(line));
  }
  for (Claim claim : column.claims) {
    claim.what = "CelebA: " + claim.what;
    o.claims.push_back(std::move(claim));
  }
  for (Picture picture : column.pictures) {
    picture.caption = "CelebA: " + picture.caption;
    o.pictures.push_back(std::move(picture));
  }
  o.setting += "; " + column.setting;
}

} // namespace

void run_with_celeba(const Experiment& experiment, const Plan& plan, const RunContext& work, Outcome& outcome) {
  if (!plan.celeba) return experiment.run(plan, work, outcome);
  const std::string place = celeba_place(plan, work);
  if (place.empty()) {
    experiment.run(plan, work, outcome);
    outcome.remarks.push_back("CelebA's columns are left out: the data folder has no celeba/ (list_attr_celeba.txt, "
                              "list_eval_partition.txt and img_align_celeba/)");
    return;
  }
  experiment.run(plan, half_of(work, 0.0), outcome);
  Plan other = plan;
  other.train = *std::exchange(other.celeba, std::nullopt);
  RunContext there = half_of(work, 0.5);
  there.data_dir = place;
  there.folder = join_path(work.folder, "celeba");
  Outcome column;
  experiment.run(other, there, column);
  append(column, outcome);
}

std::string celeba_number(const Plan& plan, const char* number) {
  return plan.on_celeba() ? number : std::string(number) + " (CelebA)";
}

} // namespace eg::reproduce
