#pragma once
// Reads JSON files without duplicate keys, and writes them complete or not at all. Callers that use the value's members
// include <nlohmann/json.hpp> in their source files.

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace eg {

/// Parses one JSON value. Throws FileError that begins with `source` for malformed text (with line and column), invalid
/// UTF-8, a key given twice in one object, or nesting beyond 128 levels.
nlohmann::json parse_json(std::string_view text, const std::string& source);
/// Parses a file.
nlohmann::json read_json(const std::string& path);

/// Writes with `indent` spaces (-1: one line) and a final newline, atomically. Throws ValueError for text that is not
/// UTF-8, FileError when the file cannot be written.
void write_json(const std::string& path, const nlohmann::json& value, int indent = 2);
void write_json(const std::string& path, const nlohmann::ordered_json& value, int indent = 2);

} // namespace eg
