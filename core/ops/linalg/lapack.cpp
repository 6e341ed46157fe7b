// LAPACK counts columns first: what is a row by row is a^T to it. Each function says how it deals with that.

#include "core/ops/linalg/lapack.h"

#include "core/gemm/openblas.h"
#include "core/ops/linalg/pivots.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace eg::linalg::lapack {
namespace {

using loops::transposed;
using Int = int;            // Debian's OpenBLAS has 32-bit integers
using Length = std::size_t; // of each string, behind the other arguments: the convention of gfortran

struct Functions {
  void (*potrf)(const char*, const Int*, double*, const Int*, Int*, Length) = nullptr;
  void (*getrf)(const Int*, const Int*, double*, const Int*, Int*, Int*) = nullptr;
  void (*getrs)(const char*, const Int*, const Int*, const double*, const Int*, const Int*, double*, const Int*, Int*,
                Length) = nullptr;
  void (*getri)(const Int*, double*, const Int*, const Int*, double*, const Int*, Int*) = nullptr;
  void (*trtrs)(const char*, const char*, const char*, const Int*, const Int*, const double*, const Int*, double*,
                const Int*, Int*, Length, Length, Length) = nullptr;
  void (*geqrf)(const Int*, const Int*, double*, const Int*, double*, double*, const Int*, Int*) = nullptr;
  void (*orgqr)(const Int*, const Int*, const Int*, double*, const Int*, const double*, double*, const Int*,
                Int*) = nullptr;
  void (*syevd)(const char*, const char*, const Int*, double*, const Int*, double*, double*, const Int*, Int*,
                const Int*, Int*, Length, Length) = nullptr;
  void (*gesdd)(const char*, const Int*, const Int*, double*, const Int*, double*, double*, const Int*, double*,
                const Int*, double*, const Int*, Int*, Int*, Length) = nullptr;
  bool complete = blas::openblas::opens();

  Functions() {
    const auto find = [&](auto& function, const char* name) {
      if (complete)
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(blas::openblas::find(name));
      complete = complete && function != nullptr;
    };
    find(potrf, "dpotrf_");
    find(getrf, "dgetrf_");
    find(getrs, "dgetrs_");
    find(getri, "dgetri_");
    find(trtrs, "dtrtrs_");
    find(geqrf, "dgeqrf_");
    find(orgqr, "dorgqr_");
    find(syevd, "dsyevd_");
    find(gesdd, "dgesdd_");
  }
};

const Functions& functions() {
  static const Functions instance;
  return instance;
}

/// Work space on a cache line's border, so that no result depends on where memory happens to lie.
class Room {
public:
  explicit Room(std::size_t count) : lines_(count / 8 + 1) {}
  double* data() { return lines_.front().at; }

private:
  struct alignas(64) Line {
    double at[8];
  };
  std::vector<Line> lines_;
};

std::size_t count_of(std::int64_t n) { return static_cast<std::size_t>(n); }
Int narrow(std::int64_t n) { return static_cast<Int>(n); } // matrix.cpp refuses what LAPACK cannot count

/// f(work, size) twice: with size -1 it writes the size that it wants. For many millions of columns 32 bits do not hold
/// that; then it gets the least that it can work with, and is slower.
template <class F> void with_work(std::int64_t least, F&& f) {
  double wanted = 0;
  Int size = -1;
  f(&wanted, &size);
  const bool counted = wanted > static_cast<double>(least) && wanted <= std::numeric_limits<Int>::max();
  size = counted ? static_cast<Int>(wanted) : narrow(least);
  Room work(count_of(size));
  f(work.data(), &size);
}

/// The factors of a^T. False for a pivot that is zero or rounding, as in loops.h.
bool factorise(std::int64_t n, double* a, std::vector<Int>& rows) {
  rows.assign(count_of(n), 0);
  const Int order = narrow(n);
  Int info = 0;
  blas::openblas::call_alone([&] { functions().getrf(&order, &order, a, &order, rows.data(), &info); });
  return !has_pivot_of_rounding(n, [=](std::int64_t i, std::int64_t j) { return a[j * n + i]; });
}

} // namespace

bool available() { return functions().complete; }

/// The lower triangle is the upper one of a^T = a, and U^T U with U = L^T.
bool cholesky(std::int64_t n, double* a) {
  if (n == 0) return true;
  const Int order = narrow(n);
  Int info = 0;
  blas::openblas::call_alone([&] { functions().potrf("U", &order, a, &order, &info, 1); });
  for (std::int64_t i = 0; i < n; ++i) std::fill(a + i * n + i + 1, a + i * n + n, 0.0);
  return info == 0;
}

/// a^T is factorised and solved transposed; b is transposed on the way in and out.
bool solve(std::int64_t n, std::int64_t k, double* a, double* b) {
  if (n == 0) return true;
  std::vector<Int> rows;
  if (!factorise(n, a, rows)) return false;
  if (k == 0) return true;
  Room columns(count_of(n * k));
  transposed(n, k, b, columns.data());
  const Int order = narrow(n), count = narrow(k);
  Int info = 0;
  blas::openblas::call_alone(
      [&] { functions().getrs("T", &order, &count, a, &order, rows.data(), columns.data(), &order, &info, 1); });
  transposed(k, n, columns.data(), b);
  return true;
}

/// The inverse of a^T is the inverse transposed.
bool invert(std::int64_t n, double* a) {
  if (n == 0) return true;
  std::vector<Int> rows;
  if (!factorise(n, a, rows)) return false;
  const Int order = narrow(n);
  Int info = 0;
  blas::openblas::call_alone([&] {
    with_work(n, [&](double* work, const Int* size) {
      functions().getri(&order, a, &order, rows.data(), work, size, &info);
    });
  });
  return true;
}

/// det a^T = det a.
loops::Determinant determinant(std::int64_t n, double* a) {
  loops::Determinant d;
  if (n == 0) return d;
  std::vector<Int> rows;
  factorise(n, a, rows);
  for (std::int64_t k = 0; k < n; ++k) d.multiply(rows[count_of(k)] == k + 1 ? a[k * n + k] : -a[k * n + k]);
  return d;
}

/// The upper triangle is the lower one of a^T.
void solve_triangular(std::int64_t n, std::int64_t k, const double* a, bool upper, bool unit, double* b) {
  if (n == 0 || k == 0) return;
  Room columns(count_of(n * k));
  transposed(n, k, b, columns.data());
  const Int order = narrow(n), count = narrow(k);
  Int info = 0;
  blas::openblas::call_alone([&] {
    functions().trtrs(upper ? "L" : "U", "T", unit ? "U" : "N", &order, &count, a, &order, columns.data(), &order,
                      &info, 1, 1, 1);
  });
  transposed(k, n, columns.data(), b);
}

/// a is transposed on the way in, q and r on the way out.
void qr(std::int64_t m, std::int64_t n, double* a, double* q, double* r) {
  const std::int64_t rank = std::min(m, n);
  std::fill(r, r + rank * n, 0.0);
  if (rank == 0) return;
  Room columns(count_of(m * n)), factors(count_of(rank));
  transposed(m, n, a, columns.data());
  const Int rows = narrow(m), width = narrow(n), kept = narrow(rank);
  Int info = 0;
  blas::openblas::call_alone([&] {
    with_work(n, [&](double* work, const Int* size) {
      functions().geqrf(&rows, &width, columns.data(), &rows, factors.data(), work, size, &info);
    });
  });
  for (std::int64_t i = 0; i < rank; ++i)
    for (std::int64_t j = i; j < n; ++j) r[i * n + j] = columns.data()[j * m + i];
  blas::openblas::call_alone([&] {
    with_work(rank, [&](double* work, const Int* size) {
      functions().orgqr(&rows, &kept, &kept, columns.data(), &rows, factors.data(), work, size, &info);
    });
  });
  transposed(rank, m, columns.data(), q);
}

/// The eigenvectors come as rows.
bool eigh(std::int64_t n, double* a, double* w, double* v) {
  if (n == 0) return true;
  const Int order = narrow(n);
  Int info = 0, whole_size = -1, wanted = 0;
  double work_wanted = 0;
  Int size = -1;
  blas::openblas::call_alone([&] {
    functions().syevd("V", "L", &order, a, &order, w, &work_wanted, &size, &wanted, &whole_size, &info, 1, 1);
    size = static_cast<Int>(work_wanted);
    whole_size = wanted;
    Room work(count_of(size));
    std::vector<Int> whole(count_of(whole_size));
    functions().syevd("V", "L", &order, a, &order, w, work.data(), &size, whole.data(), &whole_size, &info, 1, 1);
  });
  transposed(n, n, a, v);
  return info == 0;
}

/// a^T = v diag(s) u^T: what LAPACK calls its left vectors, columns first, is vh row by row; and the other way round.
bool svd(std::int64_t m, std::int64_t n, double* a, double* u, double* s, double* vh) {
  const std::int64_t rank = std::min(m, n);
  if (rank == 0) return true;
  const Int rows = narrow(n), columns = narrow(m), kept = narrow(rank);
  std::vector<Int> whole(count_of(8 * rank));
  Int info = 0;
  blas::openblas::call_alone([&] {
    with_work(1, [&](double* work, const Int* size) {
      functions().gesdd("S", &rows, &columns, a, &rows, s, vh, &rows, u, &kept, work, size, whole.data(), &info, 1);
    });
  });
  return info == 0;
}

} // namespace eg::linalg::lapack
