#pragma once
// Recognises key files by their first bytes.

#include <array>
#include <string>

namespace eg::permute {

/// What every key file begins with.
inline constexpr std::array<unsigned char, 12> key_file_magic = {'e', 'q', 'u', 'i', 'g', 'r',
                                                                 'a', 'd', '-', 'k', 'e', 'y'};

/// Whether a file begins like a key of SecretKey::save, of whatever version, whole or damaged. Throws FileError when
/// it cannot be read.
bool is_key_file(const std::string& path);

} // namespace eg::permute
