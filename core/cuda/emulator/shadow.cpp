#if defined(EG_EMULATOR_CHECKED)

#include "core/cuda/emulator/machine.h"

#include <algorithm>

namespace eg::emulator {

namespace {

std::uintptr_t number(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

} // namespace

Cell* Page::cell(std::size_t offset) {
  if (cells.empty()) cells.resize(bytes >> shift);
  return &cells[offset >> shift];
}

void Page::split() {
  if (shift == 0) return;
  std::vector<Cell> fine;
  if (!cells.empty()) {
    fine.resize(bytes);
    for (std::size_t i = 0; i < bytes; ++i) fine[i] = cells[i >> shift];
  }
  cells = std::move(fine);
  shift = 0;
}

Page* Shadow::find(std::uintptr_t address) {
  const std::uintptr_t page = address / Page::bytes;
  auto& recent = recent_[page % recent_.size()];
  if (recent.first == page && recent.second != nullptr) return recent.second;
  const auto it = pages_.find(page);
  if (it == pages_.end()) return nullptr;
  recent = {page, it->second.get()};
  return recent.second;
}

Page& Shadow::make(std::uintptr_t address) {
  if (Page* const known = find(address)) return *known;
  auto& page = pages_[address / Page::bytes];
  page = std::make_unique<Page>();
  return *page;
}

void Shadow::mark(const void* at, std::size_t bytes, std::uint8_t clear, std::uint8_t set) {
  for (std::uintptr_t from = number(at), end = from + bytes; from < end;) {
    Page& page = make(from);
    const std::size_t offset = from % Page::bytes, count = std::min(end - from, Page::bytes - offset);
    for (std::size_t i = offset; i < offset + count; ++i)
      page.flags[i] = static_cast<std::uint8_t>((page.flags[i] & ~clear) | set);
    from += count;
  }
}

void Shadow::allocated(const void* at, std::size_t bytes) { mark(at, bytes, Page::initialised, Page::allocated); }
void Shadow::written(const void* at, std::size_t bytes) { mark(at, bytes, 0, Page::initialised); }

/// A block has its pages to itself.
void Shadow::freed(const void* at, std::size_t bytes) {
  for (std::uintptr_t page = number(at) / Page::bytes; page <= (number(at) + bytes - 1) / Page::bytes; ++page) {
    recent_[page % recent_.size()] = {};
    pages_.erase(page);
  }
}

void Shadow::copied(const void* to, const void* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    const Page* const source = find(number(from) + i);
    const bool known = (source->flags[(number(from) + i) % Page::bytes] & Page::initialised) != 0;
    mark(static_cast<const std::byte*>(to) + i, 1, Page::initialised, known ? Page::initialised : 0);
  }
}

void Shadow::start_launch(const void* code) {
  ++launch_;
  image_ = machine().reporter.image_of(code);
}

void Shadow::start_block() {
  ++block_;
  traffic_.forget();
  const Emulator& e = machine();
  for (std::size_t warp = 0; warp * 32 < e.thread_count; ++warp) clocks_[warp].reset();
  // What the block before had is no longer there, even where it ended by a finding.
  mark(e.shared.begin(), shared_static_, Page::allocated | Page::initialised, 0);
  shared_static_ = 0;
  mark(shared_dynamic_, shared_dynamic_bytes_, Page::allocated | Page::initialised, 0);
  shared_dynamic_ = e.shared.dynamic();
  shared_dynamic_bytes_ = e.shared.dynamic_bytes();
  mark(shared_dynamic_, shared_dynamic_bytes_, 0, Page::allocated);
}

void Shadow::add_shared(const void* at, std::size_t bytes) {
  shared_static_ = number(at) + bytes - number(machine().shared.begin());
  mark(at, bytes, 0, Page::allocated);
}

void Shadow::end_block() {
  if (traffic_on_) traffic_.count(machine().counts);
}

std::string Shadow::describe(Space space, const std::byte* at) {
  const Emulator& e = machine();
  if (space == Space::device) return e.memory.describe(at);
  std::string words = "the dynamic part of " + std::to_string(e.shared.dynamic_bytes()) + " bytes";
  const std::byte* begin = e.shared.dynamic();
  std::size_t bytes = e.shared.dynamic_bytes();
  for (const auto& array : e.shared.arrays())
    if (at >= array.begin && (begin > at || array.begin > begin)) {
      begin = array.begin;
      bytes = array.bytes;
      words = std::string(array.name) + " of " + std::to_string(array.bytes) + " bytes";
    }
  if (at < begin) return std::to_string(begin - at) + " bytes before " + words;
  if (at < begin + bytes) return "byte " + std::to_string(at - begin) + " of " + words;
  return std::to_string(at - begin - static_cast<std::ptrdiff_t>(bytes)) + " bytes behind " + words;
}

Shadow::Space Shadow::space_of(const std::byte* at, std::size_t size, bool writes, const void* caller) const {
  Emulator& e = machine();
  if (e.memory.contains(at)) return Space::device;
  if (e.shared.contains(at)) return Space::shared;
  const std::byte* const stack = e.fibers.current()->stack;
  if (at >= stack && at < stack + Fibers::stack_bytes) return Space::own;
  const auto* const parameters = static_cast<const std::byte*>(e.call);
  const bool is_parameter = at >= parameters && at < parameters + e.launch->call_bytes;
  if (!writes && (is_parameter || image_.contains(at))) return Space::own;
  const char* what = "host memory";
  if (number(at) < 4096) what = "memory through a null pointer";
  if (is_parameter) what = "the parameters of the launch";
  if (image_.contains(at)) what = "constant memory or a global variable";
  for (const auto& fiber : e.fibers.all())
    if (at >= fiber->stack && at < fiber->stack + Fibers::stack_bytes) what = "the local memory of another thread";
  e.fail([&] {
    return Finding((writes ? "write to " : "read of ") + std::string(what) + " (" + std::to_string(size) + " bytes), ")
           << caller;
  });
}

void Shadow::check_bytes(const Page* page, const std::byte* at, std::size_t size, bool writes, Space space,
                         const void* caller) const {
  const char* const where = space == Space::device ? " device memory" : " shared memory";
  const std::size_t offset = number(at) % Page::bytes;
  for (std::size_t i = 0; i < size; ++i) {
    const unsigned flags = page == nullptr ? 0U : page->flags[offset + i];
    if ((flags & Page::allocated) == 0)
      machine().fail([&] {
        return Finding((writes ? "write out of bounds of" : "read out of bounds of") + std::string(where) + ", " +
                       describe(space, at + i) + ", ")
               << caller;
      });
    if (!writes && (flags & Page::initialised) == 0)
      machine().fail([&] { return Finding("read of" + std::string(where) + " that nobody wrote, ") << caller; });
  }
}

void Shadow::look(const void* address, std::size_t size, Access access, const void* caller, bool aligned) {
  Emulator& e = machine();
  // Another host thread may run code with hooks at the same time, outside kernels.
  if (!e.seeing || pthread_equal(pthread_self(), e.host) == 0) return;
  const Unseen unseen(e);
  const auto* at = static_cast<const std::byte*>(address);
  const bool writes = access != Access::read;
  const Space space = space_of(at, size, writes, caller);
  if (space == Space::own) return;
  if (aligned && size <= 16 && number(at) % size != 0)
    e.fail([&] {
      return Finding("misaligned access: the address is no multiple of " + std::to_string(size) + " bytes, ") << caller;
    });
  for (const std::byte* const end = at + size; at < end;) {
    const std::size_t offset = number(at) % Page::bytes;
    const std::size_t count = std::min(static_cast<std::size_t>(end - at), Page::bytes - offset);
    Page* const page = find(number(at));
    check_bytes(page, at, count, writes && access != Access::atomic && access != Access::float_atomic, space, caller);
    if ((offset | count) % 4 != 0) page->split();
    const std::size_t step = std::size_t{1} << page->shift;
    for (std::size_t i = 0; i < count; i += step) check_cell(*page->cell(offset + i), access, space, at + i, caller);
    if (writes)
      for (std::size_t i = offset; i < offset + count; ++i) page->flags[i] |= Page::initialised;
    at += count;
  }
  if (!traffic_on_) return;
  if (space == Space::device) {
    ++(writes ? e.counts.writes : e.counts.reads);
    (writes ? e.counts.write_bytes : e.counts.read_bytes) += size;
  }
  traffic_.add(caller, e.thread->linear, number(address), size, space == Space::shared);
}

void note(const void* address, std::size_t size, Access access, const void* caller, const Place&) {
  machine().shadow.look(address, size, access, caller);
}

} // namespace eg::emulator

#endif
