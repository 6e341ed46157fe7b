#pragma once
// Recognises key files by their first bytes.

#include <string>

namespace eg::permute {

/// Whether a file begins like a key of SecretKey::save, of whatever version, whole or damaged. Throws FileError when
/// it cannot be read.
bool is_key_file(const std::string& path);

} // namespace eg::permute
