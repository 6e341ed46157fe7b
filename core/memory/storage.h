#pragma once
// Owns a block of bytes shared by all views of one tensor, with a version that counts writes.

#include "core/base/device.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace eg {

/// Shared bytes behind one or more tensors, in the memory of `device`. `version` grows with every write; the tape
/// compares it with the version that it saw when it saved a value. `writer` is the name of the last operation that
/// wrote in place, `writer_place` the part of the model where it did.
struct Storage {
  std::shared_ptr<std::byte> bytes;
  std::size_t size_bytes = 0;
  Device device = {};
  std::uint64_t version = 0;
  const char* writer = "";
  std::string writer_place = {};

  explicit Storage(std::size_t size, Device on = {});
  /// Memory with another owner (a mapped file, another library's array), kept alive by `memory`.
  Storage(std::shared_ptr<std::byte> memory, std::size_t size);
};

} // namespace eg
