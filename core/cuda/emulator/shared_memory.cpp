#include "core/cuda/emulator/shared_memory.h"

#include <cstring>
#include <new>
#include <sys/mman.h>

namespace eg::emulator {

namespace {

constexpr std::size_t step = 128;             // all banks
constexpr std::size_t guard_bytes = 1U << 16; // a page, however large

std::size_t rounded(std::size_t bytes) { return (bytes + step - 1) / step * step; }

} // namespace

SharedMemory::SharedMemory() : mapped_(area_bytes + guard_bytes) {
  void* const memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  area_ = static_cast<std::byte*>(memory);
  mprotect(area_ + area_bytes, guard_bytes, PROT_NONE);
}

SharedMemory::~SharedMemory() { munmap(area_, mapped_); }

void SharedMemory::start(std::size_t dynamic_bytes) {
  arrays_.clear();
  used_ = static_bytes_ = 0;
  dynamic_bytes_ = dynamic_bytes;
  dynamic_ = area_ + area_bytes - rounded(dynamic_bytes);
  std::memset(dynamic_, 0xff, dynamic_bytes);
}

const SharedMemory::Array& SharedMemory::add(const void* tag, const char* name, std::size_t bytes) {
  arrays_.push_back({tag, name, area_ + used_, bytes});
  std::memset(area_ + used_, 0xff, bytes);
  used_ += rounded(bytes) + step;
  static_bytes_ += bytes;
  return arrays_.back();
}

} // namespace eg::emulator
