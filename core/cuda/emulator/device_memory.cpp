#include "core/cuda/emulator/device_memory.h"

#include "core/cuda/emulator/report.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace eg::emulator {

namespace {

constexpr std::size_t alignment = 256; // cudaMalloc's

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t rounded(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// Pages for a block: at most an eighth more than it needs, so that ranges are used again.
std::size_t size_class(std::size_t bytes) {
  const std::size_t pages = rounded(bytes, page_bytes());
  const std::size_t step = std::max(page_bytes(), std::bit_floor(pages) / 8);
  return rounded(pages, step) + page_bytes();
}

} // namespace

DeviceMemory::~DeviceMemory() {
  if (base_ != nullptr) munmap(base_, reserved_);
}

void DeviceMemory::reserve() {
  if (base_ != nullptr) return;
  const std::size_t most = std::size_t{1} << (checked() ? 38 : 40), least = std::size_t{1} << 30;
  for (std::size_t bytes = most; bytes >= least; bytes /= 2) {
    void* const memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    base_ = static_cast<std::byte*>(memory);
    reserved_ = bytes;
    return;
  }
  throw OutOfMemory("emulator: no addresses for device memory");
}

void DeviceMemory::protect(std::byte* at, const Block& block, bool accessible) {
  std::byte* const end = block.range + block.range_bytes - page_bytes();
  std::byte* const begin = block.range + (at - block.range) / static_cast<std::ptrdiff_t>(page_bytes()) *
                                             static_cast<std::ptrdiff_t>(page_bytes());
  if (mprotect(begin, static_cast<std::size_t>(end - begin), accessible ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
    throw OutOfMemory("emulator: the system allows no more blocks of device memory");
}

std::byte* DeviceMemory::allocate(std::size_t bytes, const Place& place) {
  if (bytes == 0) return nullptr;
  reserve();
  if (bytes > limit || use_.live_bytes > limit - bytes)
    throw OutOfMemory("out of device memory: " + words_of(place) + " asks for " + std::to_string(bytes) +
                      " bytes, and " + std::to_string(use_.live_bytes) + " of " + std::to_string(limit) +
                      " are in use");
  Block block{bytes, nullptr, size_class(bytes), false, place};
  auto& ranges = free_ranges_[block.range_bytes];
  const bool again = !ranges.empty();
  if (again) {
    block.range = ranges.back();
  } else {
    if (block.range_bytes > reserved_ - used_)
      throw OutOfMemory("out of device addresses: " + words_of(place) + " asks for " + std::to_string(bytes) +
                        " bytes");
    block.range = base_ + used_;
  }
  // The end lies at the guard page, as far as the alignment allows.
  std::byte* const at = block.range + (block.range_bytes - page_bytes() - rounded(bytes, alignment));
  protect(at, block, true);
  if (again)
    ranges.pop_back();
  else
    used_ += block.range_bytes;
  std::memset(at, 0xff, rounded(bytes, alignment));
  if (locked_ && opened_ == 0) protect(at, block, false);
  blocks_.emplace(at, block);
  use_.live_bytes += bytes;
  ++use_.live_blocks;
  use_.peak_bytes = std::max(use_.peak_bytes, use_.live_bytes);
  return at;
}

DeviceMemory::Block& DeviceMemory::block_at(void* memory, const Place& place) {
  const auto it = blocks_.find(static_cast<std::byte*>(memory));
  if (it != blocks_.end()) return it->second;
  throw Error(words_of(place) +
              (contains(memory) ? ": no block begins here: " + describe(memory) : ": no device memory"));
}

void DeviceMemory::free(void* memory, const Place& place) {
  const Block block = block_at(memory, place);
  blocks_.erase(static_cast<std::byte*>(memory));
  // The pages go back to the system.
  madvise(block.range, block.range_bytes, MADV_DONTNEED);
  mprotect(block.range, block.range_bytes, PROT_NONE);
  if (!checked()) free_ranges_[block.range_bytes].push_back(block.range);
  use_.live_bytes -= block.bytes;
  --use_.live_blocks;
}

void DeviceMemory::check_range(const void* memory, std::size_t bytes, const Place& place) const {
  if (bytes == 0) return;
  auto* const at = static_cast<std::byte*>(const_cast<void*>(memory));
  if (!contains(at)) throw Error(words_of(place) + ": the address is no device memory");
  auto it = blocks_.upper_bound(at);
  if (it != blocks_.begin() && (--it, at + bytes <= it->first + it->second.bytes)) return;
  throw Error(words_of(place) + ": " + std::to_string(bytes) + " bytes do not lie in one block of device memory: " +
              describe(it != blocks_.end() && at >= it->first && at < it->first + it->second.bytes
                           ? it->first + it->second.bytes
                           : at));
}

std::string DeviceMemory::describe(const void* address) const {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(address));
  const auto words = [](const Block& block) {
    return "the block of " + std::to_string(block.bytes) + " bytes allocated at " +
           words_of(Place{"", block.place.file, block.place.line});
  };
  auto it = blocks_.upper_bound(at);
  if (it != blocks_.end() && at >= it->second.range)
    return std::to_string(it->first - at) + " bytes before " + words(it->second);
  if (it != blocks_.begin()) {
    --it;
    const std::ptrdiff_t behind = at - (it->first + it->second.bytes);
    if (behind < 0) return "byte " + std::to_string(at - it->first) + " of " + words(it->second);
    if (at < it->second.range + it->second.range_bytes)
      return std::to_string(behind) + " bytes behind " + words(it->second);
  }
  return at < base_ + used_ ? "memory that was freed" : "memory that was never allocated";
}

void DeviceMemory::set_locked(bool locked) {
  if (locked == locked_) return;
  locked_ = locked;
  for (const auto& [at, block] : blocks_) protect(at, block, !locked);
}

void DeviceMemory::open(bool yes) {
  opened_ += yes ? 1 : -1;
  if (!locked_ || opened_ != (yes ? 1 : 0)) return;
  for (const auto& [at, block] : blocks_) protect(at, block, yes);
}

} // namespace eg::emulator
