#pragma once
// Writes an image's pixels into a JSON record for another process, and reads them.

#include "data/image.h"

#include <nlohmann/json_fwd.hpp>

namespace eg::report {

/// [height, width, channels, bytes]; the bytes are binary, which CBOR has and JSON's text has not.
nlohmann::json image_record(const data::Image& image);
/// Throws nlohmann::json::exception for what is no such record, ValueError for pixels of another number.
data::Image image_of_record(const nlohmann::json& record);

} // namespace eg::report
