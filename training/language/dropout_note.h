#pragma once
// Says of a permuted run whether dropout keeps it from following the plain one.

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace eg::training {

/// What a person should know of a run with these options (as in RUN/config.json): its dropout draws masks by place, so
/// that permuted features meet other masks than plain ones. "" for a run that is not permuted or drops nothing there.
std::string dropout_note(const nlohmann::ordered_json& options);

} // namespace eg::training
