#pragma once
// Shares helpers of the ops that move elements without computing on them.

#include "core/base/function_ref.h"
#include "core/call.h"
#include "core/op.h"
#include "core/ops/row_tools.h"
#include "core/random.h"

#include <optional>

namespace eg {

/// One position in a tensor.
using Index = std::vector<std::int64_t>;

/// The tensor with y[index] = value(index), packed; the references of this folder are written with it.
Tensor tabulate(const Shape& shape, DType dtype, FunctionRef<double(const Index&)> value);
/// Calls visit(index) for every index in row-major order.
void for_each_index(const Shape& shape, FunctionRef<void(const Index&)> visit);
/// The element of a strided tensor at an index, as double.
double read(const Tensor& x, const Index& index);

/// The extents as an attribute's value, and back. The second throws ShapeError beyond max_rank.
std::vector<std::int64_t> list_of(const Shape& shape);
Shape shape_attribute(const OpArgs& a, std::string_view name);
/// The shape with one more axis. Throws ShapeError beyond max_rank.
Shape with_new_axis(const OpArgs& a, Shape shape, int axis, std::int64_t extent);
/// A sample's attribute, or the row's default where the sample leaves it out.
std::int64_t integer_or(const Attrs& attrs, std::string_view name, std::int64_t fallback);

/// Normally distributed values, for samples.
Tensor sample_values(const Shape& shape, DType dtype, std::uint64_t seed);
/// The same, lying in memory with its last two axes swapped.
Tensor sample_transposed(const Shape& shape, DType dtype, std::uint64_t seed);

/// Adds the symmetry that moves axis `in_axis` of input 0 with axis `out_axis` of output 0, if it is longer than 1.
void add_axis_symmetry(std::vector<Symmetry>& list, const Sample& s, int in_axis, int out_axis);

/// Shape of x with another extent along one axis.
Shape with_extent(Shape shape, int axis, std::int64_t extent);
/// Product of the extents before, and after, an axis.
std::int64_t outer_size(const Shape& shape, int axis);
std::int64_t inner_size(const Shape& shape, int axis);

/// Cost of a view: nothing moves.
inline Work no_work(const OpArgs&, std::span<const TensorSpec>) { return {}; }
/// Cost of a copy: every input is read and every output written once.
Work movement_work(const OpArgs& a, std::span<const TensorSpec> out);
/// Cost of adding every element of input `addend` into the output.
template <int addend> Work scatter_work(const OpArgs& a, std::span<const TensorSpec> out) {
  return {static_cast<double>(a.in[addend].numel()), movement_work(a, out).bytes};
}

} // namespace eg
