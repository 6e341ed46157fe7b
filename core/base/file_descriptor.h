#pragma once
// Owns a file descriptor and closes it.

#include <unistd.h>

namespace eg {

/// Closes the descriptor when it is destroyed. A negative one, as a failed open() gives, is not closed. Can be neither
/// copied nor moved.
class FileDescriptor {
public:
  explicit FileDescriptor(int value) : value_(value) {}
  ~FileDescriptor() {
    if (value_ >= 0) ::close(value_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return value_; }

private:
  int value_;
};

} // namespace eg
