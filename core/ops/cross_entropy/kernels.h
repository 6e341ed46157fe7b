#pragma once
// Declares the row kernels of cross_entropy and cross_entropy_backward: one pass over a row while it is in cache.

#include <cstdint>

namespace eg::cross_entropy_kernels {

/// Loss of one row of C logits for target t = (1 - smoothing) onehot(label) + smoothing / C, and its log sum exp in two
/// parts: the largest logit and log sum exp(logits - largest). Their sum would round the second part away.
template <class T> struct RowLoss { T loss, largest, log_total; };
RowLoss<float> row_loss(const float* logits, std::int64_t classes, std::int64_t label, float smoothing);
RowLoss<double> row_loss(const double* logits, std::int64_t classes, std::int64_t label, double smoothing);

/// d_j = weight (p_j - t_j) + dlog p_j with p_j = exp((logits_j - largest) - log_total).
template <class T> struct RowGradient { T largest, log_total, weight, dlog, smoothing; };
void row_gradient(const float* logits, float* d, std::int64_t classes, std::int64_t label,
                  const RowGradient<float>& row);
void row_gradient(const double* logits, double* d, std::int64_t classes, std::int64_t label,
                  const RowGradient<double>& row);

} // namespace eg::cross_entropy_kernels
