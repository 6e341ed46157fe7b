#pragma once
// Defines the table of functions by which the program calls a device module.

#include "core/device/jobs.h"

#include <cstddef>
#include <cstdint>

/// Every kernel of the module: its name and its job. Adding one is one line here and one function in a .cu file.
#define EG_DEVICE_KERNELS(X)                                                                                           \
  X(fill, FillJob)                                                                                                     \
  X(copy, CopyJob)                                                                                                     \
  X(cast, CastJob)                                                                                                     \
  X(unary, UnaryJob)                                                                                                   \
  X(binary, BinaryJob)                                                                                                 \
  X(compare, CompareJob)                                                                                               \
  X(question, QuestionJob)                                                                                             \
  X(where, WhereJob)                                                                                                   \
  X(triangle, TriangleJob)                                                                                             \
  X(take, TakeJob)                                                                                                     \
  X(invert, InvertJob)                                                                                                 \
  X(one_hot, OneHotJob)                                                                                                \
  X(scatter, ScatterJob)                                                                                               \
  X(sort, SortJob)                                                                                                     \
  X(dropout, DropoutJob)                                                                                               \
  X(rotary, RotaryJob)                                                                                                 \
  X(unfold, WindowsJob)                                                                                                \
  X(fold, WindowsJob)                                                                                                  \
  X(resample, ResampleJob)                                                                                             \
  X(pool, PoolJob)                                                                                                     \
  X(quantize_int8, QuantizeJob)                                                                                        \
  X(dequantize_int8, DequantizeJob)                                                                                    \
  X(ternary, TernaryJob)                                                                                               \
  X(reduce, ReduceJob)                                                                                                 \
  X(center, CenterJob)                                                                                                 \
  X(scan, ScanJob)                                                                                                     \
  X(softmax, SoftmaxJob)                                                                                               \
  X(masked_softmax, MaskedSoftmaxJob)                                                                                  \
  X(norm, NormJob)                                                                                                     \
  X(norm_backward, NormBackwardJob)                                                                                    \
  X(batch_norm, BatchNormJob)                                                                                          \
  X(cross_entropy, CrossEntropyJob)                                                                                    \
  X(cross_entropy_backward, CrossEntropyBackwardJob)                                                                   \
  X(glu, GluJob)                                                                                                       \
  X(huber, HuberJob)                                                                                                   \
  X(product, ProductJob)                                                                                               \
  X(attention, AttentionJob)                                                                                           \
  X(attention_backward, AttentionBackwardJob)                                                                          \
  X(sum_repeats, SumRepeatsJob)                                                                                        \
  X(update_sgd, SgdJob)                                                                                                \
  X(update_adam, AdamJob)                                                                                              \
  X(update_rmsprop, RmsPropJob)                                                                                        \
  X(update_lion, LionJob)                                                                                              \
  X(approach, ApproachJob)                                                                                             \
  X(squares, SquaresJob)

namespace eg::device {

/// What a function of the module answers: nullptr when it is done, else what went wrong, valid while the module is
/// open.
using Failure = const char*;

/// What `doctor` shows of one device. Sizes in bytes; versions as 1000 major + 10 minor.
struct Description {
  char name[256];
  int compute_major, compute_minor, multiprocessors;
  std::uint64_t total_bytes, free_bytes;
  int driver_version, runtime_version;
};

/// A check that a kernel made on the device and that failed.
struct KernelError {
  int code; ///< device::Refused (core/device/check.h); 0: none
  std::int64_t value;
  std::int64_t limit;
  std::int64_t position; ///< where the value stands, row by row
  std::int64_t other;    ///< another place, where the reason names two
  char kernel[64];
};

/// The functions. Work is queued in the order of the calls, on one stream a device; a function that hands values to the
/// host waits for it.
struct Table {
  std::uint64_t layout; ///< layout_number of the headers that the module was compiled with
  const char* name;     ///< "cuda" or "emulated"
  const char* build;    ///< "CUDA 13.0; sm_80 sm_90, PTX 90"
  bool reuses_blocks;   ///< false: the module wants to see every allocation and release

  Failure (*count)(int* devices);
  Failure (*describe)(int device, Description* description);
  /// *block: nullptr when the device has too little memory.
  Failure (*allocate)(int device, std::size_t bytes, void** block);
  Failure (*release)(int device, void* block);
  /// From the host; `from` may be reused when it returns.
  Failure (*copy_in)(int device, void* to, const void* from, std::size_t bytes);
  /// To the host, when the work before it is done.
  Failure (*copy_out)(int device, void* to, const void* from, std::size_t bytes);
  Failure (*copy_within)(int device, void* to, const void* from, std::size_t bytes);
  /// Waits for all work, then gives and clears the first failed check.
  Failure (*synchronize)(int device, KernelError* error);

#define EG_KERNEL_FUNCTION(NAME, JOB) Failure (*NAME)(int device, const JOB& job);
  EG_DEVICE_KERNELS(EG_KERNEL_FUNCTION)
#undef EG_KERNEL_FUNCTION
};

/// Differs when the headers of a module and of the program do (set by the build from their text).
#if defined(EQUIGRAD_DEVICE_LAYOUT)
inline constexpr std::uint64_t layout_number = EQUIGRAD_DEVICE_LAYOUT;
#endif

/// The one symbol of a module: `extern "C" const Table* equigrad_device_table()`.
using TableFunction = const Table* (*)();
inline constexpr const char* table_symbol = "equigrad_device_table";

} // namespace eg::device
