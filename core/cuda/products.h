#pragma once
// Declares the two engines of matrix products on a device: the module's own kernel, and CUDA's library of products.

#include "core/cuda/kernels.h"

namespace eg::cuda {

/// By the kernel of core/ops/matmul/product.cu.
device::Failure own_product(Queue queue, const device::ProductJob& job);

/// True where cuBLASLt opened; it is opened at the first question. *why: why it did not open.
bool has_product_library(device::Failure* why);
/// By the library.
device::Failure library_product(Queue queue, const device::ProductJob& job);

} // namespace eg::cuda
