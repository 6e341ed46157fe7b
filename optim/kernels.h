#pragma once
// Declares the update loops, one pass over memory each. They are instantiated for f32 and f64 and for several
// processors (rules.cpp and adam.cpp choose the numbers, kernels_simd.cpp does the arithmetic).

#include <cstddef>
#include <cstdint>

namespace eg::optim {

/// A Piece's bytes as its elements.
template <class T> T* as(std::byte* p) { return reinterpret_cast<T*>(p); }
template <class T> const T* as(const std::byte* p) { return reinterpret_cast<const T*>(p); }

/// One SGD step on `count` elements: g += weight_decay w; v = momentum v + g; w -= lr (nesterov ? g + momentum v : v).
struct SgdNumbers {
  double learning_rate = 0.0;
  double weight_decay = 0.0;
  double momentum = 0.0;
  bool nesterov = false;
};
/// v may be null: no momentum.
void sgd_update(const SgdNumbers& numbers, float* w, float* v, const float* g, std::int64_t count);
void sgd_update(const SgdNumbers& numbers, double* w, double* v, const double* g, std::int64_t count);

/// One Adam step: w *= keep; g += weight_decay w; m += (1-beta1)(g - m); v = beta2 v + (1-beta2) g^2;
/// w -= step_size m / (sqrt(v) root_scale + eps).
struct AdamNumbers {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0; ///< in the gradient
  double keep = 1.0;         ///< 1 - lr weight_decay of AdamW
  double step_size = 0.0;    ///< lr / (1 - beta1^t)
  double root_scale = 1.0;   ///< 1 / sqrt(1 - beta2^t)
};
void adam_update(const AdamNumbers& numbers, float* w, float* m, float* v, const float* g, std::int64_t count);
void adam_update(const AdamNumbers& numbers, double* w, double* m, double* v, const double* g, std::int64_t count);

/// One RMSprop step: g += weight_decay w; v = alpha v + (1-alpha) g^2; u = g / (sqrt(v) + eps); with momentum
/// u = b = momentum b + u; w -= lr u.
struct RmsPropNumbers {
  double learning_rate = 0.0;
  double alpha = 0.99;
  double eps = 1e-8;
  double momentum = 0.0;
  double weight_decay = 0.0;
};
/// b may be null: no momentum.
void rmsprop_update(const RmsPropNumbers& numbers, float* w, float* v, float* b, const float* g, std::int64_t count);
void rmsprop_update(const RmsPropNumbers& numbers, double* w, double* v, double* b, const double* g,
                    std::int64_t count);

/// One Lion step: w = keep w - lr sign(beta1 m + (1-beta1) g); m = beta2 m + (1-beta2) g. sign(0) = 0, sign(NaN) = NaN.
struct LionNumbers {
  double learning_rate = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double keep = 1.0; ///< 1 - lr weight_decay
};
void lion_update(const LionNumbers& numbers, float* w, float* m, const float* g, std::int64_t count);
void lion_update(const LionNumbers& numbers, double* w, double* m, const double* g, std::int64_t count);

} // namespace eg::optim
