#pragma once
// Parses JSON as a stream of events, for files whose values would take much more memory as a tree than as text.

#include <cstdint>
#include <string>
#include <string_view>

namespace eg {

/// A value that holds no others.
struct JsonScalar {
  enum class Kind : std::uint8_t { null, boolean, whole, negative, number, text };
  Kind kind = Kind::null;
  std::uint64_t whole = 0;     ///< 0 to 2^64 - 1; a boolean's 0 or 1
  std::int64_t negative = 0;   ///< -2^63 to -1
  double number = 0;           ///< of every kind of number
  std::string* text = nullptr; ///< may be moved from
};

/// Receives the events of a text in order. What a member throws ends the parse.
class JsonVisitor {
public:
  virtual ~JsonVisitor() = default;
  /// An object (or a list) begins; `close` when it ends.
  virtual void open(bool object) = 0;
  virtual void close() = 0;
  /// The key of the value that follows; may be moved from. Keys that are given twice are the visitor's to find.
  virtual void key(std::string& name) = 0;
  virtual void scalar(const JsonScalar& value) = 0;
};

/// Walks one JSON value. Throws FileError that begins with `source` for malformed text (with line and column), invalid
/// UTF-8 and nesting beyond 128 levels.
void walk_json(std::string_view text, const std::string& source, JsonVisitor& visitor);

} // namespace eg
