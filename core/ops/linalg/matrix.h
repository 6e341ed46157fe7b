#pragma once
// Runs a factorisation over the matrices of a batch, and fixes what a factorisation leaves open: signs.
//
// Everything is computed in f64, by LAPACK or by loops (engine.h), also for f32 tensors, whose results are rounded
// once. That halves the code, and thresholds on pivots do not depend on the type.

#include "core/base/function_ref.h"
#include "core/op.h"
#include "core/ops/linalg/engine.h"
#include "core/ops/linalg/loops.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace eg::linalg {

/// What is wrong with one matrix.
enum class Problem : std::uint8_t {
  none,
  not_finite,
  second_not_finite, ///< the matrix of input 1
  singular,
  not_positive,
  zero_on_diagonal,
  not_converged
};

/// Throws ShapeError unless input i is [..., n, n], for `square`, or [..., m, n], with min(m, n) up to 20000;
/// DTypeError unless it is floating.
void check_matrix(const OpArgs& args, std::size_t i, bool square);

/// Why no row of this room has a device kernel.
inline constexpr std::string_view no_device =
    "a factorisation goes step by step, each after the one before; the device module has none";

/// How many numbers of work space a part of `count` takes, so that the next one begins on a cache line.
constexpr std::int64_t padded(std::int64_t count) { return (count + 7) / 8 * 8; }
inline double count_of(const Shape& batch) { return static_cast<double>(batch.numel()); }

/// The axes before the last two.
Shape leading(const Shape& shape);
Shape with_matrix(Shape batch, std::int64_t rows, std::int64_t columns);

/// Copies matrix `index` of x, which has the leading axes of the batch or broadcasts to them, to packed f64. False
/// where it has an element that is not finite.
bool load(const Tensor& x, const Shape& batch, std::int64_t index, double* to);
/// The same of one triangle of a square x; the rest of `to` becomes 0, and for `unit` the diagonal, which is then no
/// part of the triangle, 1. What stands in the rest of x is not looked at.
bool load_triangle(const Tensor& x, const Shape& batch, std::int64_t index, bool upper, bool unit, double* to);
/// Brings numbers near the ends of the range, where squares overflow or digits are lost, to sizes below 1: divides them
/// by 2^e, e the result. 0, and nothing is changed, where the largest is between 2^-200 and 2^200.
int tame(std::int64_t count, double* x);
/// a [n, n] becomes (a + a^T) / 2; call tame() before, so that no sum overflows and no half is lost.
void symmetrise(std::int64_t n, double* a);
/// Multiplies by 2^exponent.
void scale(std::int64_t count, double* x, int exponent);

/// A packed output that tasks write to.
class Output {
public:
  explicit Output(Tensor& y) : bytes_(y.mutable_bytes("linalg")), dtype_(y.dtype()) {}
  /// Writes `count` numbers as elements index * count, ...
  void store(std::int64_t index, const double* from, std::int64_t count) const;

private:
  std::byte* bytes_;
  DType dtype_;
};

/// Calls f(index, room) for every matrix of the batch, on all threads, with work space of `doubles` numbers for each;
/// flops are of one. Throws ValueError that names the first matrix with a problem.
void for_each_matrix(const OpArgs& args, const Shape& batch, double flops, std::int64_t doubles,
                     FunctionRef<Problem(std::int64_t index, double* room)> f);

/// Name of the matrix of x that matrix `index` of the batch is or is broadcast from: "a[1, 2]"; "a" where x is one.
std::string matrix_name(std::string_view name, const Shape& leading, const Shape& batch, std::int64_t index);

/// The sign that columns get: the first of the entries that are within 2^-20 of the largest in size becomes positive,
/// so that rounding does not choose among equals. -1 or 1, for x[0], x[stride], ...
double sign_of_column(std::int64_t n, const double* x, std::int64_t stride);

// --- factorisations by the engine, with signs fixed ---

/// Diagonal of r not negative.
void qr(std::int64_t m, std::int64_t n, double* a, double* q, double* r);
/// Signs of the columns of v by sign_of_column.
bool eigh(std::int64_t n, double* a, double* w, double* v);
/// Signs of the columns of u by sign_of_column, the rows of vh along with them.
bool svd(std::int64_t m, std::int64_t n, double* a, double* u, double* s, double* vh);

// --- parts of rows ---

/// A symmetry for each leading axis of input 0, which the first `outputs` outputs have too.
std::vector<Symmetry> batch_symmetries(const Sample& sample, int outputs);
/// The same of two inputs whose leading axes broadcast, and of output 0.
std::vector<Symmetry> broadcast_batch_symmetries(const Sample& sample);

/// Matrices of samples, the same numbers in both types: normal ones of deviation 0.4 with 3 on the diagonal;
Tensor sample_matrix(const Shape& shape, DType dtype, std::uint64_t tag);
/// with 2, 4, 6, ... there, so that eigenvalues and singular values are far apart;
Tensor sample_graded(const Shape& shape, DType dtype, std::uint64_t tag);
/// and a symmetric positive definite one.
Tensor sample_definite(const Shape& shape, DType dtype, std::uint64_t tag);

// --- parts of rules ---

/// The elements of x, in f64, for a rule to look at: not recorded.
std::vector<double> looked_at(const Tensor& x);
/// Differences of computed values of size 1 that are no more than rounding, for n x n matrices: 4 n 2^-52, and 4 units
/// in the last place of f32, to which results are rounded once.
double noise_of(DType dtype, std::int64_t n);

} // namespace eg::linalg
