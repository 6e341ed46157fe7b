// The emulated module has no library of products: its own kernel multiplies.

#include "core/cuda/products.h"

namespace eg::cuda {

bool has_product_library(device::Failure* why) {
  *why = "EQUIGRAD_CUDA_GEMM: the emulated module has no cuBLASLt; own is its engine";
  return false;
}

device::Failure library_product(Queue, const device::ProductJob&) { return "the emulated module has no cuBLASLt"; }

} // namespace eg::cuda
