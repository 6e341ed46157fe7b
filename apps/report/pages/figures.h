#pragma once
// Shows how the trained model of a run handles test samples, as part of a page.

#include "apps/report/page.h"
#include "apps/report/pages/run_folder.h"
#include "core/base/interrupt.h"
#include "data/dataset.h"

#include <cstdint>
#include <functional>
#include <string>

namespace eg::pages {

/// Where samples come from, and how many.
struct FigureOptions {
  std::string data_dir = {};   ///< folder with the datasets; empty: the run's own, else EQUIGRAD_DATA
  std::string data = {};       ///< the data of all runs; empty: where each found its own
  std::string key = {};        ///< secret key file of runs that have one; empty: where each run found its own
  std::int64_t samples = 1000; ///< test samples that are predicted; 0: all
  std::uint64_t seed = 0;      ///< of texts that are sampled
  StopFlag stop = nullptr;
  /// Told before each piece of work; may be empty.
  std::function<void(const std::string& what)> on_progress = {};
};

/// Accuracy, confusion matrix, classes, predictions with their images, attention maps, attention rollout and position
/// embeddings of a vision transformer in its newest checkpoint; of a DeiT also how it agrees with its teacher. Throws
/// Error when it cannot be made: no checkpoint, no data, no key; Interrupted.
void add_vit_figures(report::Page& page, const RunFolder& run, const FigureOptions& options);

/// The same for a classifier of texts in RUN/model: predictions with their texts. Throws Error.
void add_classifier_figures(report::Page& page, const RunFolder& run, const FigureOptions& options);

/// Of a masked language model in RUN/model: masked words of the held-out text and what it guesses. Throws Error.
void add_masked_figures(report::Page& page, const RunFolder& run, const FigureOptions& options);

/// Of a factorization machine in RUN/model.safetensors: ROC curve, calibration, confusion matrix. Throws Error.
void add_table_figures(report::Page& page, const RunFolder& run, const FigureOptions& options);

/// Beginnings of the held-out text, how the language model in RUN/model continues them, and how the text does. Throws
/// Error.
void add_language_figures(report::Page& page, const RunFolder& run, const FigureOptions& options);

} // namespace eg::pages
