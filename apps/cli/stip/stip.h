#pragma once
// Declares the parts of `equigrad stip`: a word after the verb, each with options of its own.

#include "apps/cli/shell/verb.h"

#include <string>
#include <vector>

namespace eg::cli {

Job declare_stip_transform(CLI::App& app, const CommonOptions& common);
Job declare_stip_serve(CLI::App& app, const CommonOptions& common);
Job declare_stip_query(CLI::App& app, const CommonOptions& common);
Job declare_stip_demonstrate(CLI::App& app, const CommonOptions& common);

/// transform, serve, query, demonstrate.
const std::vector<std::string>& stip_parts();
/// What to ask --help with: "stip serve".
std::string stip_topic(const std::vector<std::string>& words);

} // namespace eg::cli
