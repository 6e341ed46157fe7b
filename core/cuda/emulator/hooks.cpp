// The hooks of -fsanitize=thread, answered here instead of by libtsan: every access of kernels compiled with it.

#if defined(EG_EMULATOR_CHECKED)

#include "core/cuda/emulator/machine.h"

#define EG_SEE(ADDRESS, SIZE, ACCESS, ALIGNED)                                                                         \
  ::eg::emulator::machine().shadow.look(ADDRESS, SIZE, ::eg::emulator::Access::ACCESS, __builtin_return_address(0),    \
                                        ALIGNED)

// NOLINTBEGIN(bugprone-reserved-identifier,readability-non-const-parameter): the compiler's names and types
extern "C" {

#define EG_HOOKS(SIZE)                                                                                                 \
  void __tsan_read##SIZE(void* at) { EG_SEE(at, SIZE, read, true); }                                                   \
  void __tsan_write##SIZE(void* at) { EG_SEE(at, SIZE, write, true); }                                                 \
  void __tsan_unaligned_read##SIZE(void* at) { EG_SEE(at, SIZE, read, false); }                                        \
  void __tsan_unaligned_write##SIZE(void* at) { EG_SEE(at, SIZE, write, false); }                                      \
  void __tsan_volatile_read##SIZE(void* at) { EG_SEE(at, SIZE, read, true); }                                          \
  void __tsan_volatile_write##SIZE(void* at) { EG_SEE(at, SIZE, write, true); }                                        \
  void __tsan_unaligned_volatile_read##SIZE(void* at) { EG_SEE(at, SIZE, read, false); }                               \
  void __tsan_unaligned_volatile_write##SIZE(void* at) { EG_SEE(at, SIZE, write, false); }                             \
  void __tsan_read_write##SIZE(void* at) {                                                                             \
    EG_SEE(at, SIZE, read, true);                                                                                      \
    EG_SEE(at, SIZE, write, true);                                                                                     \
  }
EG_HOOKS(1)
EG_HOOKS(2)
EG_HOOKS(4)
EG_HOOKS(8)
EG_HOOKS(16)

void __tsan_read_range(void* at, unsigned long bytes) { EG_SEE(at, bytes, read, false); }
void __tsan_write_range(void* at, unsigned long bytes) { EG_SEE(at, bytes, write, false); }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

// Atomics of C++: host code in the same file has them (locks of static variables, shared pointers); kernels do not.
#define EG_ATOMICS(BITS, TYPE)                                                                                         \
  TYPE __tsan_atomic##BITS##_load(const volatile TYPE* at, int) { return __atomic_load_n(at, __ATOMIC_SEQ_CST); }      \
  void __tsan_atomic##BITS##_store(volatile TYPE* at, TYPE x, int) { __atomic_store_n(at, x, __ATOMIC_SEQ_CST); }      \
  TYPE __tsan_atomic##BITS##_exchange(volatile TYPE* at, TYPE x, int) {                                                \
    return __atomic_exchange_n(at, x, __ATOMIC_SEQ_CST);                                                               \
  }                                                                                                                    \
  TYPE __tsan_atomic##BITS##_fetch_add(volatile TYPE* at, TYPE x, int) {                                               \
    return __atomic_fetch_add(at, x, __ATOMIC_SEQ_CST);                                                                \
  }                                                                                                                    \
  TYPE __tsan_atomic##BITS##_fetch_sub(volatile TYPE* at, TYPE x, int) {                                               \
    return __atomic_fetch_sub(at, x, __ATOMIC_SEQ_CST);                                                                \
  }                                                                                                                    \
  TYPE __tsan_atomic##BITS##_fetch_and(volatile TYPE* at, TYPE x, int) {                                               \
    return __atomic_fetch_and(at, x, __ATOMIC_SEQ_CST);                                                                \
  }                                                                                                                    \
  TYPE __tsan_atomic##BITS##_fetch_or(volatile TYPE* at, TYPE x, int) {                                                \
    return __atomic_fetch_or(at, x, __ATOMIC_SEQ_CST);                                                                 \
  }                                                                                                                    \
  TYPE __tsan_atomic##BITS##_fetch_xor(volatile TYPE* at, TYPE x, int) {                                               \
    return __atomic_fetch_xor(at, x, __ATOMIC_SEQ_CST);                                                                \
  }                                                                                                                    \
  int __tsan_atomic##BITS##_compare_exchange_strong(volatile TYPE* at, TYPE* expected, TYPE x, int, int) {             \
    return static_cast<int>(__atomic_compare_exchange_n(at, expected, x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));  \
  }                                                                                                                    \
  int __tsan_atomic##BITS##_compare_exchange_weak(volatile TYPE* at, TYPE* expected, TYPE x, int, int) {               \
    return static_cast<int>(__atomic_compare_exchange_n(at, expected, x, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));   \
  }
EG_ATOMICS(8, unsigned char)
EG_ATOMICS(16, unsigned short)
EG_ATOMICS(32, unsigned)
EG_ATOMICS(64, unsigned long)

} // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-non-const-parameter)

#endif
