#pragma once
// Shares the samples, refusals by shape rule and references of the pointwise ops.

#include "core/ops/pointwise/reference.h"
#include "core/ops/pointwise/run.h"
#include "core/ops/pointwise/whole.h"
#include "core/ops/row_tools.h"

namespace eg::pointwise {

/// Values of a sample: a domain of the tables.
using DomainFn = Tensor (*)(const Shape& shape, DType dtype, std::uint64_t tag);
Tensor anywhere(const Shape& shape, DType dtype, std::uint64_t tag);
/// In [0.3, 3).
Tensor positive(const Shape& shape, DType dtype, std::uint64_t tag);
/// Wide enough for both kinks at -3 and 3.
Tensor spread(const Shape& shape, DType dtype, std::uint64_t tag);
/// At least 0.25 away from 0, where there is a kink.
Tensor off_zero(const Shape& shape, DType dtype, std::uint64_t tag);

/// whole: the op takes whole numbers, too.
std::vector<Sample> unary_samples(DType dtype, DomainFn domain, const Attrs& attrs, bool whole = false);
/// attrs: those that must be given.
std::vector<Refusal> unary_refusals(const Attrs& attrs = {}, bool whole = false);
/// Samples and refusals of two inputs that go with a shape rule: broadcast_of_both, same_shape_everywhere, or one of
/// those for whole numbers too.
std::vector<Sample> binary_samples(InferFn rule, DType dtype, DomainFn first, DomainFn second);
std::vector<Refusal> binary_refusals(InferFn rule);

using Attributes = FixedList<AttrSpec, 8>;
/// Real attributes of a row, other numbers than the defaults for its samples, and what else a call must meet.
struct Parametric {
  Attributes specs;
  std::array<double, 2> sample = {};
  void (*check)(const OpArgs& args) = nullptr;
};
/// The shape rule of one input, after its check. Throws what the check throws, DTypeError.
template <const Parametric& parametric, bool whole> std::vector<TensorSpec> infer_unary(const OpArgs& args) {
  if constexpr (parametric.check != nullptr) parametric.check(args);
  if constexpr (whole) {
    check_number(args, 0);
    check_whole_parameters(args);
    return {{args.in[0].shape(), is_whole(args.in[0].dtype()) ? DType::i64 : args.in[0].dtype()}};
  } else {
    return same_shape_as_first(args);
  }
}
/// The attributes of the samples.
Attrs sample_attributes(const Parametric& parametric);

/// What is added to a reference: 0 takes the sign off a zero of whole numbers, which have one alone; -0 changes
/// nothing.
inline double no_sign_of_zero(DType dtype) { return is_whole(dtype) ? 0.0 : -0.0; }

/// y = f(x, p) in plain loops; p: the op's real attributes.
template <class F> std::vector<Tensor> unary_reference(const OpArgs& args, F f) {
  const Tensor x = as_type(args.in[0], DType::f64);
  const std::vector<double> p = parameters(args);
  const double none = no_sign_of_zero(args.in[0].dtype());
  Tensor y = reference_output(x.shape());
  for (std::int64_t i = 0; i < x.numel(); ++i) values(y)[i] = f(values(x)[i], p.data()) + none;
  return {y};
}

/// y = f(a, b), broadcast, in plain loops.
template <class F> std::vector<Tensor> binary_reference(const OpArgs& args, F f) {
  const Shape shape = broadcast_shapes("reference", args.in[0].shape(), args.in[1].shape());
  // Strides over the output's axes: 0 where an operand has one element or no such axis.
  std::array<Shape, 2> strides;
  const double none = no_sign_of_zero(arithmetic_type(args.in[0].dtype(), args.in[1].dtype()));
  const std::array<Tensor, 2> in = {as_type(args.in[0], DType::f64), as_type(args.in[1], DType::f64)};
  for (std::size_t k = 0; k < 2; ++k)
    for (int back = shape.rank(); back > 0; --back) {
      const Tensor& x = in[k];
      strides[k].push_back(x.rank() < back || x.shape()[-back] == 1 ? 0 : x.strides()[-back]);
    }
  Tensor y = reference_output(shape);
  double* out = values(y);
  for_each_offset2(shape, strides[0], strides[1],
                   [&](std::int64_t i, std::int64_t j) { *out++ = f(values(in[0])[i], values(in[1])[j]) + none; });
  return {y};
}

} // namespace eg::pointwise
