#pragma once
// Marks functions that device kernels share with the program.

/// `__host__ __device__` where core/cuda/gpu.h was included before, nothing elsewhere.
#if !defined(EG_DEVICE_FUNCTION)
#define EG_DEVICE_FUNCTION
#endif
