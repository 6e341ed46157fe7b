#pragma once
// Prints the lines of `train`, for every model.

#include "apps/cli/shell/progress.h"
#include "apps/cli/shell/verb.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace eg::cli {

/// "1.2 GB", what the process holds of the machine's memory now; the field goes early where there is no room.
ProgressField memory_field();

/// A line that says something happened to a step, in the columns of the lines of tests: "skip   step     12  why\n".
std::string skipped_line(std::int64_t step, const std::string& why);

/// Says "note: SENTENCE" unless there is none or the command is quiet.
void say_note(const CommonOptions& common, const std::string& sentence);

/// Adds "skipped_steps", and of the best checkpoint its step and folder as "best" (null without one).
void add_run_fields(nlohmann::json& json, std::int64_t skipped, std::optional<std::int64_t> best,
                    const std::string& out);

/// ", best checkpoint FOLDER", or "" when there is none or it is the last one.
std::string best_words(std::optional<std::int64_t> best, std::int64_t steps, const std::string& out);

} // namespace eg::cli
