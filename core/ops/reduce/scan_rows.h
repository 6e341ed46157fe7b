#pragma once
// Runs scans along several packed rows side by side, with vectors.

#include <cstdint>

namespace eg::reduce {

enum class Scan { sum, product, linear };

/// Rows that run side by side: the numbers of one row wait for each other, those of several do not.
inline constexpr std::int64_t rows_of_scan = 8;

/// For `rows_of_scan` rows of n elements: y_k = y_(k-1) + a_k, y_(k-1) a_k or a_k y_(k-1) + b_k, the first one a_0
/// (linear: b_0), from the end where `reverse`. In double, each product and each sum rounded; b is not read unless
/// linear.
template <class T> void scan_rows(Scan scan, const T* a, const T* b, std::int64_t n, bool reverse, T* y);

} // namespace eg::reduce
