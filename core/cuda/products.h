#pragma once
// Declares the two engines of matrix products on a device: the module's own kernel, and cuBLASLt.

#include "core/cuda/kernels.h"

namespace eg::cuda {

/// By the kernel of core/ops/matmul/product.cu.
device::Failure own_product(Queue queue, const device::ProductJob& job);

/// True where cuBLASLt opened; it is opened at the first question. *words: its version, or why it did not open.
bool has_product_library(const char** words);
/// By cuBLASLt. *activated: whether it computed job.activated too.
device::Failure library_product(Queue queue, const device::ProductJob& job, bool* activated);

/// device::Table::products.
const char* product_engine();

} // namespace eg::cuda
