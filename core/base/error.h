#pragma once
// Defines the exceptions that the library throws. It never prints and never aborts.

#include <stdexcept>
#include <string>

namespace eg {

/// Base of every error that equigrad throws. what() is one line: `op: what is wrong: a is [4, 3], b is [5, 2]`,
/// then a hint where one cause is likely, then the place of the call in the model.
class Error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Shapes that do not fit the operation.
class ShapeError : public Error {
public:
  using Error::Error;
};

/// An element type that the operation does not take.
class DTypeError : public Error {
public:
  using Error::Error;
};

/// An index, axis or label outside its range.
class IndexError : public Error {
public:
  using Error::Error;
};

/// An option or attribute that does not exist or has a value outside its range.
class ValueError : public Error {
public:
  using Error::Error;
};

/// A request beyond the allocator's limit or the machine's memory.
class MemoryError : public Error {
public:
  using Error::Error;
};

/// Tensors on different devices, a device that is absent or has failed, or host access to device memory.
class DeviceError : public Error {
public:
  using Error::Error;
};

/// A file that is missing, truncated, corrupt or of another kind than its name says. what() begins with the path.
class FileError : public Error {
public:
  using Error::Error;
};

/// A tape used in a way that cannot give a gradient.
class AutogradError : public Error {
public:
  using Error::Error;
};

/// A NaN or an infinity where numbers were wanted (anomaly mode).
class NumericError : public Error {
public:
  using Error::Error;
};

/// The work was interrupted by the user (Ctrl-C).
class Interrupted : public Error {
public:
  using Error::Error;
};

} // namespace eg
