// The module's table.

#include "core/cuda/failure.h"
#include "core/cuda/kernels.h"
#include "core/cuda/products.h"
#include "core/cuda/runtime.h"

namespace {

using namespace eg;

/// Selects the device, starts the kernel and asks whether it was taken.
#define EG_ENTRY(NAME, JOB)                                                                                            \
  device::Failure run_##NAME(int index, const device::JOB& job) {                                                      \
    device::Failure answer = nullptr;                                                                                  \
    const device::Failure thrown = cuda::in_words([&] {                                                                \
      gpu::Stream stream{};                                                                                            \
      answer = cuda::select(index, &stream);                                                                           \
      if (answer == nullptr) answer = cuda::NAME(cuda::Queue{index, stream}, job);                                     \
      if (answer == nullptr) answer = cuda::launch_failure();                                                          \
    });                                                                                                                \
    return thrown != nullptr ? thrown : answer;                                                                        \
  }
EG_DEVICE_KERNELS(EG_ENTRY)
#undef EG_ENTRY

} // namespace

extern "C" __attribute__((visibility("default"))) const eg::device::Table* equigrad_device_table() {
  static const eg::device::Table table = {
      eg::device::layout_number,  eg::cuda::runtime_name,    eg::cuda::runtime_build, eg::cuda::runtime_reuses_blocks,
      &eg::cuda::device_count,    &eg::cuda::describe,       &eg::cuda::allocate,     &eg::cuda::release,
      &eg::cuda::copy_in,         &eg::cuda::copy_out,       &eg::cuda::copy_within,  &eg::cuda::synchronize,
      &eg::cuda::allocate_pinned, &eg::cuda::release_pinned, &eg::cuda::copy_pinned,  &eg::cuda::make_event,
      &eg::cuda::drop_event,      &eg::cuda::record,         &eg::cuda::wait,         &eg::cuda::wait_here,
      &eg::cuda::product_engine,
#define EG_ENTRY(NAME, JOB) &run_##NAME,
      EG_DEVICE_KERNELS(EG_ENTRY)
#undef EG_ENTRY
  };
  return &table;
}
