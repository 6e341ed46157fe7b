#include "core/memory/storage.h"

#include "core/device/module.h"
#include "core/memory/allocator.h"

#include <utility>

namespace eg {

Storage::Storage(std::size_t size, Device on)
    : bytes(on.is_cpu() ? allocator::allocate(size) : device::allocate(on, size)), size_bytes(size), device(on) {}

// The memory has values already: the next write is a change, not the filling of a new tensor.
Storage::Storage(std::shared_ptr<std::byte> memory, std::size_t size)
    : bytes(std::move(memory)), size_bytes(size), version(1) {}

} // namespace eg
