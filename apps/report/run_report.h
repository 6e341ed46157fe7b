#pragma once
// Writes the page of the main job.

#include "apps/report/page.h"
#include "permute/catalogue/catalogue.h"
#include "training/vit_trainer.h"

#include <string>
#include <utility>
#include <vector>

namespace eg::report {

/// Everything that the main job showed.
struct RunStory {
  std::vector<std::pair<std::string, std::string>> machine; ///< doctor's lines
  std::vector<permute::VerifyResult> identities;
  std::vector<training::Record> steps; ///< in order
  training::Record test;
};

/// Opens with a picture and the claim; then loss curves of the variants on each other, drift over steps, shuffled
/// images, attention maps with and without permutation, and the theorems with their errors.
Page run_report(const RunStory& story, const training::VitTrainer& trainer);

} // namespace eg::report
