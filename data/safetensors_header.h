#pragma once
// Parses headers of safetensors files; used by the files of this folder only.

#include "core/base/input_file.h"
#include "data/safetensors.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace eg::data {

inline constexpr std::uint64_t safetensors_length_bytes = 8;
inline constexpr std::uint64_t safetensors_max_header = 100'000'000; ///< the reference implementation's cap
inline constexpr const char* safetensors_metadata_key = "__metadata__";

/// Length of the header of a file of `file_bytes` bytes that begins with `front`. Throws FileError when the file cannot
/// hold it.
std::uint64_t safetensors_header_length(ByteView front, std::uint64_t file_bytes, const std::string& source);
/// Parses and checks the header of a file of `file_bytes` bytes.
TensorFileHeader parse_safetensors_header(std::string_view text, std::uint64_t file_bytes, const std::string& source);
TensorFileHeader read_safetensors_header(const InputFile& file);

/// Readers of one file and of an index and its shards.
TensorReader open_safetensors(std::unique_ptr<const InputFile> file);
TensorReader open_safetensors_index(const std::string& path);

} // namespace eg::data
