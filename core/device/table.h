#pragma once
// Lists the functions of a device module, through which the program uses devices.

#include "core/device/jobs.h"

#include <cstddef>
#include <cstdint>

/// Lists every kernel of the module: its name and its job. A new kernel is one line here and one function in a .cu
/// file.
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
  X(scaled_sum, ScaledSumJob)                                                                                          \
  X(squares, SquaresJob)

namespace eg::device {

/// Says whether a function of the module succeeded: nullptr, else an error message that lives as long as the module.
using Failure = const char*;

/// Describes one device for `doctor`. Sizes are in bytes, versions are 1000 major + 10 minor.
struct Description {
  char name[256];
  int compute_major, compute_minor, multiprocessors;
  std::uint64_t total_bytes, free_bytes;
  int driver_version, runtime_version;
};

/// Describes a check of a kernel that failed on the device.
struct KernelError {
  int code; ///< device::Refused (core/device/check.h); 0: none
  std::int64_t value;
  std::int64_t limit;
  std::int64_t position; ///< where the value stands, row by row
  std::int64_t other;    ///< another place, where the reason names two
  char kernel[64];
};

/// The two streams of a device. Each runs its work in the order of the calls; events order one against the other.
enum class Lane : int {
  compute, ///< kernels, and every copy but those of copy_pinned
  copy,    ///< copy_pinned
};

/// Holds the functions of a module. Functions queue work and return, unless their comment says that they wait.
struct Table {
  std::uint64_t layout; ///< layout_number of the headers that the module was compiled with
  const char* name;     ///< "cuda" or "emulated"
  const char* build;    ///< "CUDA 13.0; sm_80 sm_90, PTX 90"
  bool reuses_blocks;   ///< false: the module wants to see every allocation and release

  Failure (*count)(int* devices);
  Failure (*describe)(int device, Description* description);
  /// *block: nullptr when the device has too little memory.
  /// The block belongs to the compute lane: the copy lane must wait before it uses it, and be done before its release.
  Failure (*allocate)(int device, std::size_t bytes, void** block);
  Failure (*release)(int device, void* block);
  /// Copies from the host. `from` may be changed when the function returns.
  Failure (*copy_in)(int device, void* to, const void* from, std::size_t bytes);
  /// Copies to the host. Waits for the compute lane.
  Failure (*copy_out)(int device, void* to, const void* from, std::size_t bytes);
  Failure (*copy_within)(int device, void* to, const void* from, std::size_t bytes);
  /// Waits for the compute lane, or for all work of the device (`everything`), other libraries' too. Then gives and
  /// clears the first failed check.
  Failure (*synchronize)(int device, bool everything, KernelError* error);

  /// Host memory that the device reads by itself.
  Failure (*allocate_pinned)(int device, std::size_t bytes, void** block);
  /// No queued copy may still read the block.
  Failure (*release_pinned)(int device, void* block);
  /// Copies from pinned memory, on the copy lane. `from` must not change before the copy is done.
  Failure (*copy_pinned)(int device, void* to, const void* from, std::size_t bytes);
  Failure (*make_event)(int device, void** event);
  Failure (*drop_event)(int device, void* event);
  /// The event happens when the lane has done what was queued so far.
  Failure (*record)(int device, Lane lane, void* event);
  /// What is queued on the lane from now on runs after the event.
  Failure (*wait)(int device, Lane lane, void* event);
  /// Waits until the event has happened.
  Failure (*wait_here)(int device, void* event);

  /// Says which engine multiplies matrices, and why no other: "cuBLASLt 13.0.2".
  const char* (*products)();

#define EG_KERNEL_FUNCTION(NAME, JOB) Failure (*NAME)(int device, const JOB& job);
  EG_DEVICE_KERNELS(EG_KERNEL_FUNCTION)
#undef EG_KERNEL_FUNCTION
};

/// Identifies the text of the headers that the program and a module share. The build sets it.
#if defined(EQUIGRAD_DEVICE_LAYOUT)
inline constexpr std::uint64_t layout_number = EQUIGRAD_DEVICE_LAYOUT;
#endif

/// The only symbol that a module exports: `extern "C" const Table* equigrad_device_table()`.
using TableFunction = const Table* (*)();
inline constexpr const char* table_symbol = "equigrad_device_table";

} // namespace eg::device
