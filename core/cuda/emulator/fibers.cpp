#include "core/cuda/emulator/fibers.h"

#include <new>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define EG_FIBERS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EG_FIBERS_ASAN 1
#endif
#endif
#if defined(EG_FIBERS_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// eg_emulator_switch(save, load): pushes what the ABI keeps across a call, changes the stack pointer, pops it.
#if defined(__x86_64__)
asm(R"(
.text
.hidden eg_emulator_switch
.globl eg_emulator_switch
.type eg_emulator_switch,@function
eg_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size eg_emulator_switch,.-eg_emulator_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.hidden eg_emulator_switch
.globl eg_emulator_switch
.type eg_emulator_switch,%function
eg_emulator_switch:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size eg_emulator_switch,.-eg_emulator_switch
)");
#else
#error "the emulator needs eg_emulator_switch for this processor"
#endif
extern "C" void eg_emulator_switch(void** save, void* load);

namespace eg::emulator {

namespace {

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

void switch_context(Context& from, const Context& to, [[maybe_unused]] bool forever) {
#if defined(EG_FIBERS_ASAN)
  __sanitizer_start_switch_fiber(forever ? nullptr : &from.fake_stack, to.bottom, to.size);
#endif
  eg_emulator_switch(&from.stack_pointer, to.stack_pointer);
#if defined(EG_FIBERS_ASAN)
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

} // namespace

Fibers::~Fibers() {
  for (const auto& fiber : all_) munmap(fiber->stack - page_bytes(), stack_bytes + page_bytes());
}

void Fibers::prepare(Fiber& fiber, std::size_t number) const {
#if defined(EG_FIBERS_ASAN)
  __asan_unpoison_memory_region(fiber.stack, stack_bytes);
#endif
  // Tops a multiple of a page apart would all fall into one set of the first cache.
  auto** top = reinterpret_cast<void**>(fiber.stack + stack_bytes - number % 15 * 272);
#if defined(__x86_64__)
  *--top = nullptr; // the return address of main, which aligns the stack as a call does
  *--top = reinterpret_cast<void*>(main_);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
#else
  top -= 20;
  for (int i = 0; i < 20; ++i) top[i] = nullptr;
  top[11] = reinterpret_cast<void*>(main_); // x30
#endif
  fiber.context.stack_pointer = top;
  fiber.context.bottom = fiber.stack;
  fiber.context.size = stack_bytes;
}

Fiber& Fibers::take() {
  if (!idle_.empty()) {
    Fiber& fiber = *idle_.back();
    idle_.pop_back();
    return fiber;
  }
  auto fiber = std::make_unique<Fiber>();
  all_.reserve(all_.size() + 1);
  idle_.reserve(all_.size() + 1);
  void* const memory = mmap(nullptr, stack_bytes + page_bytes(), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, page_bytes(), PROT_NONE);
  fiber->stack = static_cast<std::byte*>(memory) + page_bytes();
  prepare(*fiber, all_.size());
  all_.push_back(std::move(fiber));
  return *all_.back();
}

void Fibers::reset() {
  idle_.clear();
  for (std::size_t i = 0; i < all_.size(); ++i) {
    all_[i]->thread = nullptr;
    prepare(*all_[i], i);
    idle_.push_back(all_[i].get());
  }
  current_ = nullptr;
}

void Fibers::enter(Fiber& fiber) {
#if defined(EG_FIBERS_ASAN)
  if (host_.bottom == nullptr || pthread_equal(host_thread_, pthread_self()) == 0) {
    host_thread_ = pthread_self();
    pthread_attr_t attributes;
    void* bottom = nullptr;
    pthread_getattr_np(host_thread_, &attributes);
    pthread_attr_getstack(&attributes, &bottom, &host_.size);
    pthread_attr_destroy(&attributes);
    host_.bottom = bottom;
  }
#endif
  current_ = &fiber;
  switch_context(host_, fiber.context, false);
  current_ = nullptr;
}

void Fibers::leave(Fiber& from, Fiber* to) {
  current_ = to;
  switch_context(from.context, to == nullptr ? host_ : to->context, false);
}

void Fibers::abandon() {
  Fiber& from = *current_;
  current_ = nullptr;
  switch_context(from.context, host_, true);
  __builtin_unreachable();
}

void Fibers::arrived() {
#if defined(EG_FIBERS_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

} // namespace eg::emulator
