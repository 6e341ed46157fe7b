#pragma once
// Says which mistakes are a config file's.

#include "core/base/function_ref.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace eg::cli {

/// Calls f(). A ValueError of it that is about an option which the file `config` gives, and no flag of `given`, becomes
/// one that begins with the file's name; others pass. `config`: "" for none.
void naming_config(const std::string& config, const nlohmann::json& given, FunctionRef<void()> f);

} // namespace eg::cli
