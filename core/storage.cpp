#include "core/storage.h"

#include "core/allocator.h"

namespace eg {

Storage::Storage(std::size_t size) : bytes(allocator::allocate(size)), size_bytes(size) {}

} // namespace eg
