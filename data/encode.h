#pragma once
// Encodes bytes as text, for reports that embed their images.

#include "core/base/bytes.h"
#include "data/image.h"

#include <string>
#include <string_view>

namespace eg::data {

/// Base64 with padding (RFC 4648, section 4).
std::string base64(ByteView bytes);

/// "data:<mime>;base64,...", what an HTML src attribute takes.
std::string data_uri(ByteView bytes, std::string_view mime);
/// The image as a PNG data URI.
std::string png_data_uri(const Image& image);

} // namespace eg::data
