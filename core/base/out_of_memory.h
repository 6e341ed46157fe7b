#pragma once
// Describes a failed allocation: what it was for, how much was wanted, and which limit it met.

#include "core/base/error.h"

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace eg {

/// Bytes that this machine, or its container, has.
std::size_t machine_memory();

/// The limit that this process meets first, and how to raise it: "this process may have 900.0 MB (ulimit -v raises
/// it)", or "this machine, or its container, has 16.8 GB".
std::string memory_limit_words();

/// Throws MemoryError: "WHAT: out of memory: N more bytes could not be had; LIMIT". `wanted`: 0 where it is not known.
[[noreturn]] void fail_out_of_memory(const std::string& what, std::uint64_t wanted = 0);
/// Throws MemoryError that begins with `what`, unless the message of `e` already says what memory ran out for.
[[noreturn]] void fail_out_of_memory(const std::string& what, const MemoryError& e);

/// Returns f(). Where it ends with std::bad_alloc or MemoryError, throws MemoryError that begins with `what`, a file's
/// name, say.
template <class F> decltype(auto) naming_memory(const std::string& what, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const std::bad_alloc&) {
    fail_out_of_memory(what);
  } catch (const MemoryError& e) {
    fail_out_of_memory(what, e);
  }
}

/// Gives a vector or string `size` elements of one byte each, for `what`. Throws MemoryError that names both.
template <class C> void resize_for(const std::string& what, C& bytes, std::size_t size) {
  static_assert(sizeof(typename C::value_type) == 1);
  try {
    bytes.resize(size);
  } catch (const std::bad_alloc&) {
    fail_out_of_memory(what, size);
  }
}

} // namespace eg
