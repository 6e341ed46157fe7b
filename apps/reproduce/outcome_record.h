#pragma once
// Writes a reproduced table into a JSON record for another process, every bit of it, and reads it.

#include "apps/reproduce/outcome.h"

namespace eg::reproduce {

nlohmann::json to_record(const Outcome& outcome);
/// Throws nlohmann::json::exception for what is no such record, ValueError for a picture whose bytes do not fill it.
Outcome outcome_of_record(const nlohmann::json& record);

} // namespace eg::reproduce
