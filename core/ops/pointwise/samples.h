#pragma once
// Shares the samples, refusals by shape rule and references of the pointwise ops.

#include "core/ops/pointwise/reference.h"
#include "core/ops/pointwise/run.h"
#include "core/ops/row_tools.h"

namespace eg::pointwise {

/// Values of a sample: a domain of the tables.
using DomainFn = Tensor (*)(const Shape& shape, DType dtype, std::uint64_t tag);
Tensor anywhere(const Shape& shape, DType dtype, std::uint64_t tag);
/// In [0.3, 3).
Tensor positive(const Shape& shape, DType dtype, std::uint64_t tag);
/// At least 0.25 away from 0, where there is a kink.
Tensor off_zero(const Shape& shape, DType dtype, std::uint64_t tag);

std::vector<Sample> unary_samples(DType dtype, DomainFn domain, const Attrs& attrs);
/// attrs: those that must be given.
std::vector<Refusal> unary_refusals(const Attrs& attrs = {});
/// Samples and refusals of two inputs that go with a shape rule: broadcast_of_both or same_shape_everywhere.
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
template <const Parametric& parametric> std::vector<TensorSpec> infer_unary(const OpArgs& args) {
  if constexpr (parametric.check != nullptr) parametric.check(args);
  return same_shape_as_first(args);
}
/// The attributes of the samples.
Attrs sample_attributes(const Parametric& parametric);

/// y = f(x, p) in plain loops; p: the op's real attributes.
template <class F> std::vector<Tensor> unary_reference(const OpArgs& args, F f) {
  const Tensor& x = args.in[0];
  const std::vector<double> p = parameters(args);
  Tensor y = reference_output(x.shape());
  for (std::int64_t i = 0; i < x.numel(); ++i) values(y)[i] = f(values(x)[i], p.data());
  return {y};
}

/// y = f(a, b), broadcast, in plain loops.
template <class F> std::vector<Tensor> binary_reference(const OpArgs& args, F f) {
  const Shape shape = broadcast_shapes("reference", args.in[0].shape(), args.in[1].shape());
  // Strides over the output's axes: 0 where an operand has one element or no such axis.
  std::array<Shape, 2> strides;
  for (std::size_t k = 0; k < 2; ++k)
    for (int back = shape.rank(); back > 0; --back) {
      const Tensor& x = args.in[k];
      strides[k].push_back(x.rank() < back || x.shape()[-back] == 1 ? 0 : x.strides()[-back]);
    }
  Tensor y = reference_output(shape);
  double* out = values(y);
  for_each_offset2(shape, strides[0], strides[1],
                   [&](std::int64_t i, std::int64_t j) { *out++ = f(values(args.in[0])[i], values(args.in[1])[j]); });
  return {y};
}

} // namespace eg::pointwise
