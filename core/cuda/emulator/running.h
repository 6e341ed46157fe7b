#pragma once
// Declares what a kernel asks of the emulator: who runs, barriers, meetings of a warp, shared memory, accesses to
// check.

#include "core/cuda/emulator/emulator.h"

#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

// What the hooks do not look at; in the checked build such functions are not inlined.
#define EG_UNSEEN __attribute__((no_sanitize("thread"))) inline
// Functions whose caller is the code that accesses memory.
#if defined(EG_EMULATOR_CHECKED)
#define EG_ACCESS __attribute__((no_sanitize("thread"), noinline)) inline
#define EG_CALLER __builtin_return_address(0)
#else
#define EG_ACCESS EG_UNSEEN
#define EG_CALLER nullptr
#endif

namespace eg::emulator {

struct Fiber;

/// One thread of the block that runs.
struct Thread {
  Extent index;
  unsigned linear = 0, lane = 0, warp = 0;
  Fiber* fiber = nullptr;
  Place place; ///< where it waits
};

/// What a kernel may read of the emulator.
struct Running {
  Thread* thread = nullptr;
  Extent block, block_extent, grid;
  bool seeing = false; ///< a kernel's own code runs, and its accesses count
};
extern Running* const running __attribute__((visibility("hidden")));

/// Waits for every thread of the block.
void block_barrier(const Place& place);

/// Computes everybody's result from what the lanes of `mask` deposited.
using Finish = void (*)(std::byte* const* results, const std::byte* const* deposits, unsigned mask, void* extra);
struct Meeting {
  unsigned mask = 0;
  Finish finish = nullptr;
  void* extra = nullptr;
  bool orders_memory = false; ///< what was written before is seen after it
};
/// Waits for every lane of the mask; the last one to come calls `finish`.
void warp_meet(const Meeting& meeting, const void* deposit, void* result, const Place& place);

/// The array of this block that `tag` stands for.
void* shared_array(const void* tag, const char* name, std::size_t bytes, std::size_t alignment, const Place& place);
void* dynamic_shared(const Place& place);

enum class Access : std::uint8_t { read, write, atomic, float_atomic };
/// Checks an access that the hooks do not see. Without hooks the alignment alone.
void note(const void* address, std::size_t size, Access access, const void* caller, const Place& place);

void accuse(const std::string& words, const Place& place);
[[noreturn]] void leave_kernel();
/// Ends the kernel with an Error, whose words `make` gives: nothing that owns memory may live where it is called.
template <class Make> [[noreturn]] void fail(Make make, const Place& place) {
  accuse(make(), place);
  leave_kernel();
}

EG_UNSEEN Extent thread_index() { return running->thread->index; }
EG_UNSEEN Extent block_index() { return running->block; }
EG_UNSEEN Extent block_extent() { return running->block_extent; }
EG_UNSEEN Extent grid_extent() { return running->grid; }
EG_UNSEEN unsigned lane() { return running->thread->lane; }

inline constexpr unsigned whole_warp = 0xffffffffU;

/// Every lane gives a value and takes that of lane `from`.
template <class T> EG_UNSEEN T exchange(unsigned mask, T value, unsigned from, const Place& place) {
  static_assert(std::is_trivially_copyable_v<T>);
  struct Deposit {
    T value;
    unsigned from;
    const Place* place;
  };
  const Deposit mine{value, from, &place};
  T result;
  warp_meet({.mask = mask,
             .finish =
                 [](std::byte* const* results, const std::byte* const* deposits, unsigned who, void*) {
                   for (unsigned at = 0; at < 32; ++at) {
                     if ((who >> at & 1U) == 0) continue;
                     Deposit own, other;
                     std::memcpy(&own, deposits[at], sizeof own);
                     if ((who >> (own.from & 31U) & 1U) == 0)
                       fail(
                           [&] {
                             return "lane " + std::to_string(at) + " reads lane " + std::to_string(own.from & 31U) +
                                    ", which takes no part";
                           },
                           *own.place);
                     std::memcpy(&other, deposits[own.from & 31U], sizeof other);
                     std::memcpy(results[at], &other.value, sizeof(T));
                   }
                 }},
            &mine, &result, place);
  return result;
}

EG_UNSEEN unsigned ballot(unsigned mask, bool predicate, const Place& place) {
  unsigned result = 0;
  warp_meet({.mask = mask,
             .finish =
                 [](std::byte* const* results, const std::byte* const* deposits, unsigned who, void*) {
                   unsigned votes = 0;
                   for (unsigned at = 0; at < 32; ++at)
                     if ((who >> at & 1U) != 0 && deposits[at][0] != std::byte{0}) votes |= 1U << at;
                   for (unsigned at = 0; at < 32; ++at)
                     if ((who >> at & 1U) != 0) std::memcpy(results[at], &votes, sizeof votes);
                 }},
            &predicate, &result, place);
  return result;
}

/// Replaces *to by next(*to) and returns what was there.
template <class T, class F> EG_UNSEEN T atomic(T* to, F next, const void* caller, const Place& place) {
  note(to, sizeof(T), std::is_floating_point_v<T> ? Access::float_atomic : Access::atomic, caller, place);
  const T before = *to;
  *to = next(before);
  return before;
}

template <class Tag> inline constexpr char shared_tag = 0;

template <class Tag, class T> EG_UNSEEN T& shared(const char* name, const Place& place) {
  static_assert(std::is_trivially_default_constructible_v<T>, "shared memory holds no objects with constructors");
  return *static_cast<T*>(shared_array(&shared_tag<Tag>, name, sizeof(T), alignof(T), place));
}

/// A kernel and its arguments. What runs before the kernel's own code is hidden from the hooks.
template <class... P> struct Call {
  static_assert((std::is_trivially_copyable_v<P> && ...), "arguments of a kernel are copied byte by byte");
  void (*kernel)(P...);
  std::tuple<P...> parameters;
  template <std::size_t... I> EG_UNSEEN static void with(const Call& self, std::index_sequence<I...>) {
    self.kernel(std::get<I>(self.parameters)...);
  }
  EG_UNSEEN static void enter(const void* self) {
    with(*static_cast<const Call*>(self), std::index_sequence_for<P...>());
  }
};

} // namespace eg::emulator
