#include "core/ops/linalg/loops.h"

#include "core/ops/linalg/pivots.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace eg::linalg::loops {
namespace {

constexpr double eps = std::numeric_limits<double>::epsilon();
constexpr int most_sweeps = 60;

double dot(std::int64_t n, const double* x, const double* y) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

void add_scaled(std::int64_t n, double factor, const double* x, double* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

double largest_of(std::int64_t n, const double* x) {
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
  return largest;
}

/// Multiplies by the power of two that brings the largest entry to [1/2, 1), so that no square overflows; its exponent.
int scale_down(std::int64_t n, double* x) {
  const double largest = largest_of(n, x);
  if (largest == 0) return 0;
  const int exponent = std::ilogb(largest) + 1;
  for (std::int64_t i = 0; i < n; ++i) x[i] = std::ldexp(x[i], -exponent);
  return exponent;
}

/// x, y become c x - s y, s x + c y.
void rotate(std::int64_t n, double c, double s, double* x, double* y) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double a = x[i], b = y[i];
    x[i] = c * a - s * b;
    y[i] = s * a + c * b;
  }
}

/// The rotation that makes [[p, g], [g, q]] diagonal.
struct Rotation {
  double c, s, t;
  Rotation(double p, double q, double g) {
    const double theta = (q - p) / (2 * g);
    t = (theta < 0 ? -1.0 : 1.0) / (std::abs(theta) + std::sqrt(1 + theta * theta));
    c = 1 / std::sqrt(1 + t * t);
    s = t * c;
  }
};

/// a [n, n] becomes the factors of its rows' permutation: unit lower and upper triangle. rows[k]: the row that was
/// exchanged with row k. A column without a pivot is left as it is.
void factorise(std::int64_t n, double* a, std::vector<std::int64_t>& rows) {
  rows.assign(static_cast<std::size_t>(n), 0);
  for (std::int64_t k = 0; k < n; ++k) {
    std::int64_t best = k;
    for (std::int64_t i = k + 1; i < n; ++i)
      if (std::abs(a[i * n + k]) > std::abs(a[best * n + k])) best = i;
    rows[static_cast<std::size_t>(k)] = best;
    if (best != k) std::swap_ranges(a + k * n, a + k * n + n, a + best * n);
    const double pivot = a[k * n + k];
    if (pivot == 0) continue;
    for (std::int64_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / pivot;
      a[i * n + k] = factor;
      add_scaled(n - k - 1, -factor, a + k * n + k + 1, a + i * n + k + 1);
    }
  }
}

} // namespace

bool cholesky(std::int64_t n, double* a) {
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < i; ++j) a[i * n + j] = (a[i * n + j] - dot(j, a + i * n, a + j * n)) / a[j * n + j];
    const double rest = a[i * n + i] - dot(i, a + i * n, a + i * n);
    if (!(rest > 0)) return false;
    a[i * n + i] = std::sqrt(rest);
    std::fill(a + i * n + i + 1, a + i * n + n, 0.0);
  }
  return true;
}

bool solve(std::int64_t n, std::int64_t k, double* a, double* b) {
  std::vector<std::int64_t> rows;
  factorise(n, a, rows);
  if (has_pivot_of_rounding(n, [=](std::int64_t i, std::int64_t j) { return a[i * n + j]; })) return false;
  for (std::int64_t i = 0; i < n; ++i)
    if (const std::int64_t other = rows[static_cast<std::size_t>(i)]; other != i)
      std::swap_ranges(b + i * k, b + i * k + k, b + other * k);
  solve_triangular(n, k, a, false, true, b);
  solve_triangular(n, k, a, true, false, b);
  return true;
}

bool invert(std::int64_t n, double* a) {
  std::vector<double> identity(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i) identity[static_cast<std::size_t>(i * n + i)] = 1;
  if (!solve(n, n, a, identity.data())) return false;
  std::copy(identity.begin(), identity.end(), a);
  return true;
}

void Determinant::multiply(double pivot) {
  int own = 0, carried = 0;
  mantissa = std::frexp(mantissa * std::frexp(pivot, &own), &carried);
  exponent += own + carried;
  log += std::log(std::abs(pivot));
  sign *= pivot > 0 ? 1.0 : pivot < 0 ? -1.0 : 0.0;
}

double Determinant::value(std::int64_t more) const {
  constexpr std::int64_t most = 5000; // more than any number of the range has
  return std::ldexp(mantissa, static_cast<int>(std::clamp(exponent + more, -most, most)));
}

Determinant determinant(std::int64_t n, double* a) {
  std::vector<std::int64_t> rows;
  factorise(n, a, rows);
  Determinant d;
  for (std::int64_t k = 0; k < n; ++k)
    d.multiply(rows[static_cast<std::size_t>(k)] == k ? a[k * n + k] : -a[k * n + k]);
  return d;
}

void solve_triangular(std::int64_t n, std::int64_t k, const double* a, bool upper, bool unit, double* b) {
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t i = upper ? n - 1 - step : step;
    for (std::int64_t j = upper ? n - 1 : 0; j != i; j += upper ? -1 : 1)
      add_scaled(k, -a[i * n + j], b + j * k, b + i * k);
    if (unit) continue;
    for (std::int64_t c = 0; c < k; ++c) b[i * k + c] /= a[i * n + i];
  }
}

void qr(std::int64_t m, std::int64_t n, double* a, double* q, double* r) {
  const std::int64_t rank = std::min(m, n);
  const auto at = [=](std::int64_t i, std::int64_t j) -> double& { return a[i * n + j]; };
  std::vector<double> factors(static_cast<std::size_t>(rank)), row(static_cast<std::size_t>(std::max(n, rank)));
  for (std::int64_t k = 0; k < rank; ++k) {
    // The reflection I - f v v^T takes the column to a multiple of e_k; v stays below the diagonal, v_k = 1.
    double largest = 0, squares = 0;
    for (std::int64_t i = k; i < m; ++i) largest = std::max(largest, std::abs(at(i, k)));
    if (largest == 0) continue;
    const int exponent = std::ilogb(largest);
    for (std::int64_t i = k; i < m; ++i) {
      const double x = std::ldexp(at(i, k), -exponent);
      squares += x * x;
    }
    const double norm = std::ldexp(std::sqrt(squares), exponent);
    const double image = at(k, k) > 0 ? -norm : norm;
    const double head = at(k, k) - image;
    double& factor = factors[static_cast<std::size_t>(k)];
    factor = -head / image;
    for (std::int64_t i = k + 1; i < m; ++i) at(i, k) /= head;
    at(k, k) = image;
    const std::int64_t rest = n - k - 1;
    std::copy(a + k * n + k + 1, a + k * n + n, row.begin());
    for (std::int64_t i = k + 1; i < m; ++i) add_scaled(rest, at(i, k), a + i * n + k + 1, row.data());
    add_scaled(rest, -factor, row.data(), a + k * n + k + 1);
    for (std::int64_t i = k + 1; i < m; ++i) add_scaled(rest, -factor * at(i, k), row.data(), a + i * n + k + 1);
  }
  for (std::int64_t i = 0; i < rank; ++i)
    for (std::int64_t j = 0; j < n; ++j) r[i * n + j] = j < i ? 0.0 : at(i, j);
  std::fill(q, q + m * rank, 0.0);
  for (std::int64_t i = 0; i < rank; ++i) q[i * rank + i] = 1;
  for (std::int64_t k = rank - 1; k >= 0; --k) {
    const double factor = factors[static_cast<std::size_t>(k)];
    if (factor == 0) continue;
    std::copy(q + k * rank, q + k * rank + rank, row.begin());
    for (std::int64_t i = k + 1; i < m; ++i) add_scaled(rank, at(i, k), q + i * rank, row.data());
    add_scaled(rank, -factor, row.data(), q + k * rank);
    for (std::int64_t i = k + 1; i < m; ++i) add_scaled(rank, -factor * at(i, k), row.data(), q + i * rank);
  }
}

bool eigh(std::int64_t n, double* a, double* w, double* v) {
  const int exponent = scale_down(n * n, a);
  std::vector<double> turned(static_cast<std::size_t>(n * n)); // an eigenvector a row
  for (std::int64_t i = 0; i < n; ++i) turned[static_cast<std::size_t>(i * n + i)] = 1;
  bool done = false;
  for (int sweep = 0; sweep < most_sweeps && !done; ++sweep) {
    done = true;
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) {
        const double g = a[p * n + q];
        if (std::abs(g) <= eps / 16) continue; // of entries up to 1
        done = false;
        const Rotation turn(a[p * n + p], a[q * n + q], g);
        for (std::int64_t i = 0; i < n; ++i) rotate(1, turn.c, turn.s, a + i * n + p, a + i * n + q);
        rotate(n, turn.c, turn.s, a + p * n, a + q * n);
        a[p * n + q] = a[q * n + p] = 0;
        rotate(n, turn.c, turn.s, turned.data() + p * n, turned.data() + q * n);
      }
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t i, std::int64_t j) { return a[i * n + i] < a[j * n + j]; });
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t from = order[static_cast<std::size_t>(j)];
    w[j] = std::ldexp(a[from * n + from], exponent);
    for (std::int64_t i = 0; i < n; ++i) v[i * n + j] = turned[static_cast<std::size_t>(from * n + i)];
  }
  return done;
}

namespace {

/// Gives row `missing` of `rows` [count, n] a unit vector at right angles to the rows before it.
void complete(std::int64_t n, std::int64_t missing, double* rows) {
  double* x = rows + missing * n;
  for (std::int64_t axis = 0; axis < n; ++axis) {
    std::fill(x, x + n, 0.0);
    x[axis] = 1;
    for (int twice = 0; twice < 2; ++twice)
      for (std::int64_t k = 0; k < missing; ++k) add_scaled(n, -dot(n, x, rows + k * n), rows + k * n, x);
    const double squares = dot(n, x, x);
    if (2 * static_cast<double>(n) * squares < 1) continue; // of the n axes, one at least is farther away
    const double norm = std::sqrt(squares);
    for (std::int64_t i = 0; i < n; ++i) x[i] /= norm;
    return;
  }
}

/// The same for m >= n with everything transposed: columns [n, m] holds the columns of a and becomes those of u, vh is
/// [n, n].
bool tall_svd(std::int64_t m, std::int64_t n, double* columns, double* s, double* vh) {
  const int exponent = scale_down(m * n, columns);
  std::fill(vh, vh + n * n, 0.0);
  for (std::int64_t i = 0; i < n; ++i) vh[i * n + i] = 1;
  std::vector<double> norms(static_cast<std::size_t>(n));
  double largest = 0;
  bool done = false;
  for (int sweep = 0; sweep < most_sweeps && !done; ++sweep) {
    done = true;
    largest = 0;
    for (std::int64_t j = 0; j < n; ++j) largest = std::max(largest, dot(m, columns + j * m, columns + j * m));
    const double nothing = eps * eps * largest;
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) {
        double *x = columns + p * m, *y = columns + q * m;
        const double xx = dot(m, x, x), yy = dot(m, y, y), xy = dot(m, x, y);
        if (xx <= nothing || yy <= nothing || std::abs(xy) <= 2 * eps * std::sqrt(xx) * std::sqrt(yy)) continue;
        done = false;
        const Rotation turn(xx, yy, xy);
        rotate(m, turn.c, turn.s, x, y);
        rotate(n, turn.c, turn.s, vh + p * n, vh + q * n);
      }
  }
  for (std::int64_t j = 0; j < n; ++j)
    norms[static_cast<std::size_t>(j)] = std::sqrt(dot(m, columns + j * m, columns + j * m));
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    return norms[static_cast<std::size_t>(i)] > norms[static_cast<std::size_t>(j)];
  });
  const std::vector<double> before(columns, columns + m * n), turned(vh, vh + n * n);
  const double nothing = static_cast<double>(n) * eps * (n > 0 ? norms[static_cast<std::size_t>(order[0])] : 0.0);
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t from = order[static_cast<std::size_t>(j)];
    const double norm = norms[static_cast<std::size_t>(from)];
    s[j] = std::ldexp(norm, exponent);
    std::copy(turned.begin() + from * n, turned.begin() + (from + 1) * n, vh + j * n);
    if (norm > nothing)
      for (std::int64_t i = 0; i < m; ++i) columns[j * m + i] = before[static_cast<std::size_t>(from * m + i)] / norm;
    else
      complete(m, j, columns);
  }
  return done;
}

} // namespace

void transposed(std::int64_t rows, std::int64_t columns, const double* x, double* y) {
  constexpr std::int64_t side = 16; // squares that stay in cache
  for (std::int64_t top = 0; top < rows; top += side)
    for (std::int64_t left = 0; left < columns; left += side)
      for (std::int64_t i = top; i < std::min(rows, top + side); ++i)
        for (std::int64_t j = left; j < std::min(columns, left + side); ++j) y[j * rows + i] = x[i * columns + j];
}

bool svd(std::int64_t m, std::int64_t n, double* a, double* u, double* s, double* vh) {
  if (m < n) { // a^T = v diag(s) u^T, and the columns of a^T are the rows of a
    std::vector<double> turned(static_cast<std::size_t>(m * m));
    const bool done = tall_svd(n, m, a, s, turned.data());
    std::copy(a, a + m * n, vh);
    transposed(m, m, turned.data(), u);
    return done;
  }
  std::vector<double> columns(static_cast<std::size_t>(m * n));
  transposed(m, n, a, columns.data());
  const bool done = tall_svd(m, n, columns.data(), s, vh);
  transposed(n, m, columns.data(), u);
  return done;
}

} // namespace eg::linalg::loops
