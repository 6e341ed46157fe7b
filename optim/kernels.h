#pragma once
// Declares the update loops, one pass over memory each. They are instantiated for f32 and f64 and for several
// processors (rules.cpp and adam.cpp choose the numbers, kernels-inl.h does the arithmetic, on devices too).

#include "core/device/update_jobs.h"

#include <cstddef>
#include <cstdint>

namespace eg::optim {

/// A Piece's bytes as its elements.
template <class T> T* as(std::byte* p) { return reinterpret_cast<T*>(p); }
template <class T> const T* as(const std::byte* p) { return reinterpret_cast<const T*>(p); }

using device::AdamNumbers;
using device::LionNumbers;
using device::RmsPropNumbers;
using device::SgdNumbers;

/// One step on `count` elements. v of SGD and b of RMSprop may be null: no momentum.
void sgd_update(const SgdNumbers& numbers, float* w, float* v, const float* g, std::int64_t count);
void sgd_update(const SgdNumbers& numbers, double* w, double* v, const double* g, std::int64_t count);
void adam_update(const AdamNumbers& numbers, float* w, float* m, float* v, const float* g, std::int64_t count);
void adam_update(const AdamNumbers& numbers, double* w, double* m, double* v, const double* g, std::int64_t count);
void rmsprop_update(const RmsPropNumbers& numbers, float* w, float* v, float* b, const float* g, std::int64_t count);
void rmsprop_update(const RmsPropNumbers& numbers, double* w, double* v, double* b, const double* g,
                    std::int64_t count);
void lion_update(const LionNumbers& numbers, float* w, float* m, const float* g, std::int64_t count);
void lion_update(const LionNumbers& numbers, double* w, double* m, const double* g, std::int64_t count);

} // namespace eg::optim
