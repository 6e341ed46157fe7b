#pragma once
// Shares what op definitions have in common: checks, shape rules, costs, samples and symmetries of the common kinds.

#include "core/call.h"
#include "core/op.h"
#include "core/ops.h"
#include "core/strided.h"

#include <span>
#include <string>
#include <vector>

namespace eg {

// --- checks and shape rules ---

/// Throws DTypeError "exp: x must be f32 or f64, it is i64" for input i.
void check_floating(const OpArgs& args, std::size_t i);
/// The same for every input that was given.
void check_all_floating(const OpArgs& args);
/// Throws DTypeError "max: x must be f32, f64, i64, u8 or bool, it is bf16" for input i.
void check_number(const OpArgs& args, std::size_t i);
/// Throws DTypeError "gather: index must be i64, it is f32" for input i.
void check_dtype(const OpArgs& args, std::size_t i, DType wanted);
/// Throws ShapeError unless input i has exactly this shape; the message names the input and both shapes.
void check_shape(const OpArgs& args, std::size_t i, const Shape& wanted);
/// Throws ShapeError when input i has fewer axes.
void check_rank_at_least(const OpArgs& args, std::size_t i, int rank);

/// The attribute `axis` as an axis of input 0, in [0, rank). Throws IndexError.
int axis_of(const OpArgs& args);

/// Shape rule: all inputs floating, one output like the first input.
std::vector<TensorSpec> same_shape_as_first(const OpArgs& args);
/// Shape rule: all inputs floating and of one shape, one output like them.
std::vector<TensorSpec> same_shape_everywhere(const OpArgs& args);
/// Shape rule: two floating inputs broadcast against each other by NumPy's rule.
std::vector<TensorSpec> broadcast_of_both(const OpArgs& args);
/// The type in which two numbers are added and multiplied: the floating one, or i64 where both are whole.
DType arithmetic_type(DType a, DType b);
/// Shape rule of arithmetic: two inputs of numbers broadcast, one output of their arithmetic_type().
std::vector<TensorSpec> arithmetic_of_both(const OpArgs& args);
/// The same for a quotient: f32 of two whole numbers.
std::vector<TensorSpec> quotient_of_both(const OpArgs& args);
/// True for the rows with these shape rules, whose two inputs may be of different types.
bool mixes_types(const OpDef& op);

// --- kernels ---

/// The tensor if it is packed, else a packed copy that no tape sees.
Tensor packed(const Tensor& x);
/// True where a body or a rule may compute its result in one pass: no recorder needs its operations, and its operands
/// are values on the CPU.
bool may_fuse(std::span<const Tensor> operands);
/// The tensor if it is of that type, else a copy of it that no tape sees.
Tensor as_type(const Tensor& x, DType dtype);
/// Runs a CPU kernel for inputs on a device: copies them to the CPU and the outputs back. So whole numbers are computed
/// whose kernel may refuse what it finds, which a device kernel cannot.
void run_on_host(KernelFn cpu, const OpArgs& args, std::span<Tensor> out);
/// Makes `value`, the result of other operations, an output of a kernel: packed, sharing its elements with nothing.
void assign(Tensor& out, const Tensor& value);
/// x, a bf16 tensor as f32 (recorded): what products compute with.
Tensor widened(const Tensor& x);
/// Product of the extents before `axis`, the extent itself, and the product of those after it.
struct AxisSplit {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;
};
AxisSplit split_at(const Shape& shape, int axis);

// --- rules ---

/// total + term, by recorded operations; an undefined total is zero.
void add_term(Tensor& total, const Tensor& term);

// --- references: plain loops over packed f64 ---

inline const double* values(const Tensor& x) { return x.data<double>(); }
inline double* values(Tensor& x) { return x.mutable_data<double>("reference"); }
/// An f64 tensor of zeros for a reference to fill.
inline Tensor reference_output(const Shape& shape) { return Tensor::zeros(shape, DType::f64); }

// --- costs ---

/// Bytes of all inputs (each element once) and outputs.
double bytes_moved(const OpArgs& args, std::span<const TensorSpec> out);
/// `flops` per element of the first output.
template <int flops> Work elementwise_work(const OpArgs& args, std::span<const TensorSpec> out) {
  return {static_cast<double>(flops) * static_cast<double>(out[0].shape.numel()), bytes_moved(args, out)};
}

// --- samples ---

/// Whole numbers in [low, high) that depend on `tag` alone, i64.
Tensor sample_whole(const Shape& shape, std::uint64_t tag, std::int64_t low, std::int64_t high);
/// Normal(mean, scale) numbers that depend on `tag` alone; the f32 ones are the f64 ones rounded.
Tensor sample_normal(const Shape& shape, DType dtype, std::uint64_t tag, double scale = 1.0, double mean = 0.0);
/// Uniform in [low, high).
Tensor sample_uniform(const Shape& shape, DType dtype, std::uint64_t tag, double low, double high);
/// Normal numbers moved away from 0 by `gap`, for functions that have a kink there.
Tensor sample_off_zero(const Shape& shape, DType dtype, std::uint64_t tag, double gap = 0.25);
/// The same values as x in a transposed layout (last two axes), with gaps between rows: not contiguous.
Tensor scattered(const Tensor& x);

// --- symmetries ---

/// Pointwise: permuting any axis of the broadcast output permutes that axis of every input that has it.
std::vector<Symmetry> pointwise_symmetries(const Sample& sample);

} // namespace eg
