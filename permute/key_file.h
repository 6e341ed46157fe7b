#pragma once
// Recognises key files by their first bytes.

#include <string>

namespace eg::permute {

/// Whether a file begins as a key of SecretKey::save does, of whatever version, whole or damaged. Throws FileError when
/// it cannot be read.
bool is_key_file(const std::string& path);

} // namespace eg::permute
