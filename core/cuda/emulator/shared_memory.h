#pragma once
// Holds the shared memory of the block that runs: static arrays by their tags, and the dynamic part.

#include <cstddef>
#include <vector>

namespace eg::emulator {

/// Static arrays come first, each at a multiple of 128 bytes and 128 bytes from the next. The dynamic part ends at a
/// page that cannot be touched.
class SharedMemory {
public:
  static constexpr std::size_t area_bytes = std::size_t{512} << 10, static_limit = std::size_t{48} << 10;

  struct Array {
    const void* tag;
    const char* name;
    std::byte* begin;
    std::size_t bytes;
  };

  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Bytes that a block may have, static and dynamic.
  std::size_t limit = std::size_t{99} << 10;

  /// For a new block: no static arrays, and a dynamic part of NaN.
  void start(std::size_t dynamic_bytes);
  /// nullptr where the block has none of this tag yet.
  const Array* find(const void* tag) const {
    for (const Array& array : arrays_)
      if (array.tag == tag) return &array;
    return nullptr;
  }
  /// A new array of NaN; the caller has looked at the limits.
  const Array& add(const void* tag, const char* name, std::size_t bytes);

  const std::vector<Array>& arrays() const { return arrays_; }
  std::size_t static_bytes() const { return static_bytes_; }
  std::byte* dynamic() const { return dynamic_; }
  std::size_t dynamic_bytes() const { return dynamic_bytes_; }
  std::byte* begin() const { return area_; }
  bool contains(const void* at) const { return at >= area_ && at < area_ + mapped_; }

private:
  std::byte* area_ = nullptr;
  std::size_t mapped_ = 0;
  std::byte* dynamic_ = nullptr;
  std::size_t dynamic_bytes_ = 0, static_bytes_ = 0, used_ = 0;
  std::vector<Array> arrays_;
};

} // namespace eg::emulator
