#pragma once
// Appends to files that are read while they grow.

#include "core/base/file_descriptor.h"

#include <string>
#include <string_view>

namespace eg {

/// Each append is handed to the system whole before the next. When the system refuses in the middle of one, its
/// beginning stays.
class AppendFile {
public:
  /// Opens the file, which is made when it is missing. Throws FileError, as append() does.
  explicit AppendFile(std::string path);
  void append(std::string_view text);

private:
  std::string path_;
  FileDescriptor file_;
};

} // namespace eg
