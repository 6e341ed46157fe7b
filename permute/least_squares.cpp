#include "permute/least_squares.h"

#include "core/call.h"
#include "core/ops.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace eg::permute {
namespace {

std::size_t place(std::int64_t i) { return static_cast<std::size_t>(i); }

double dot(const double* a, const double* b, std::int64_t begin, std::int64_t end) {
  double total = 0.0;
  for (std::int64_t i = begin; i < end; ++i) total += a[i] * b[i];
  return total;
}

/// The matrix by columns, in f64.
std::vector<double> columns_of(const char* what, const Tensor& a) {
  if (a.rank() != 2 || a.numel() == 0)
    throw ShapeError(fmt::format("least squares: {} must be [rows, columns], it is {}", what, a.shape().str()));
  const PauseRecording pause;
  std::vector<double> values = transpose(a.to(DType::f64)).contiguous().to_vector<double>();
  for (const double value : values)
    if (!std::isfinite(value)) throw ValueError(fmt::format("least squares: {} holds {}", what, value));
  return values;
}

} // namespace

PivotedQr::PivotedQr(const Tensor& a, double tolerance) : at_(columns_of("the matrix", a)) {
  m_ = a.size(0);
  n_ = a.size(1);
  pivots_.resize(place(n_));
  std::iota(pivots_.begin(), pivots_.end(), std::int64_t{0});
  for (std::int64_t k = 0; k < std::min(m_, n_); ++k) {
    bring_largest(k);
    reflect(k);
    if (!(std::abs(diagonal_.back()) > tolerance * std::abs(diagonal_.front()))) return;
    rank_ = k + 1;
  }
}

void PivotedQr::bring_largest(std::int64_t k) {
  std::int64_t best = k;
  double largest = -1.0;
  for (std::int64_t j = k; j < n_; ++j) {
    const double here = dot(column(j), column(j), k, m_);
    if (here > largest) {
      largest = here;
      best = j;
    }
  }
  std::swap(pivots_[place(k)], pivots_[place(best)]);
  if (best != k) std::swap_ranges(column(k), column(k) + m_, column(best));
}

void PivotedQr::reflect(std::int64_t k) {
  double* v = column(k);
  const double length = std::sqrt(dot(v, v, k, m_));
  const double alpha = v[k] > 0.0 ? -length : length;
  diagonal_.push_back(alpha);
  v[k] -= alpha;
  for (std::int64_t j = k + 1; j < n_; ++j) apply(k, column(j));
}

void PivotedQr::apply(std::int64_t k, double* x) const {
  const double* v = column(k);
  const double squared = dot(v, v, k, m_);
  if (squared == 0.0) return;
  const double factor = 2.0 * dot(v, x, k, m_) / squared;
  for (std::int64_t i = k; i < m_; ++i) x[i] -= factor * v[i];
}

void PivotedQr::apply_transposed_q(double* x) const {
  for (std::int64_t k = 0; k < rank_; ++k) apply(k, x);
}

void PivotedQr::apply_q(double* x) const {
  for (std::int64_t k = rank_; k-- > 0;) apply(k, x);
}

std::vector<double> PivotedQr::back_substituted(const double* y) const {
  std::vector<double> x(place(n_), 0.0);
  for (std::int64_t i = rank_; i-- > 0;) {
    double rest = y[i];
    for (std::int64_t j = i + 1; j < rank_; ++j) rest -= column(j)[i] * x[place(pivots_[place(j)])];
    x[place(pivots_[place(i)])] = rest / diagonal_[place(i)];
  }
  return x;
}

Tensor PivotedQr::solve(const Tensor& b) const {
  if (b.rank() != 2 || b.size(0) != m_)
    throw ShapeError(fmt::format("least squares: the matrix has {} rows, the right side is {}", m_, b.shape().str()));
  std::vector<double> right = columns_of("the right side", b), solved;
  for (std::int64_t k = 0; k < b.size(1); ++k) {
    double* y = right.data() + k * m_;
    apply_transposed_q(y);
    const std::vector<double> x = back_substituted(y);
    solved.insert(solved.end(), x.begin(), x.end());
  }
  const PauseRecording pause;
  return transpose(Tensor::from<double>(solved, {b.size(1), n_})).contiguous();
}

Tensor PivotedQr::null_space() const { return q_from(rank_); }

Tensor PivotedQr::q_from(std::int64_t first) const {
  std::vector<double> basis(place(m_ * (m_ - first)), 0.0);
  for (std::int64_t k = first; k < m_; ++k) {
    double* x = basis.data() + (k - first) * m_;
    x[k] = 1.0;
    apply_q(x);
  }
  const PauseRecording pause;
  return transpose(Tensor::from<double>(basis, {m_ - first, m_})).contiguous();
}

Tensor random_orthogonal(std::int64_t size, RandomKey key) {
  return PivotedQr(random_normal({size, size}, key, 0.0, 1.0, DType::f64)).q();
}

} // namespace eg::permute
