#pragma once
// Writes event files that TensorBoard reads, beside the other metrics of a run: `tensorboard --logdir RUN`.

#include "core/base/append_file.h"
#include "training/metrics.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace eg::training {

/// Whether `name` is one that EventFiles gives: events.out.tfevents.SECONDS.equigrad.NNN.
bool is_event_file(std::string_view name);

/// Removes from a run's event files what `kept` does not keep, and what a killed process left torn; files without a
/// value go. Throws FileError.
void trim_event_files(const std::string& folder, const KeptMetrics& kept);

/// The event file of one process; each has one of its own, so that TensorBoard, which reads files in the order of their
/// names, sees a resumed run while it watches. Numbers of records become scalars "train/loss", "test/accuracy",
/// "train/variants/rows/loss".
class EventFile {
public:
  /// Trims what is there and makes a new file. Throws FileError.
  EventFile(const std::string& folder, const KeptMetrics& kept);
  void write(const nlohmann::ordered_json& record);

private:
  AppendFile file_;
};

} // namespace eg::training
