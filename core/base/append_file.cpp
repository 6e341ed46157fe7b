#include "core/base/append_file.h"

#include "core/base/write_all.h"

#include <fcntl.h>

namespace eg {

AppendFile::AppendFile(std::string path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (file_.get() < 0) fail_errno(path_, "cannot create");
}

void AppendFile::append(std::string_view text) { write_all(file_.get(), text, path_); }

} // namespace eg
