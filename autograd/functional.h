#pragma once
// Defines derivatives as functions of functions. They open and close tapes of their own and give values back, so they
// nest: grad of grad is the second derivative, and a tape that the caller has open records all of it.

#include "core/tensor.h"

#include <functional>
#include <vector>

namespace eg {

/// A function of tensors, to tensors.
using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
/// A function of tensors with one element as its value: a loss.
using ScalarFunction = std::function<Tensor(const std::vector<Tensor>&)>;

// What holds for all of them. Derivatives are by the arguments of f; what f captures is constant, even when it is the
// tensor that was handed in as an argument. f has to compute with its arguments: one that ignores an argument and
// captures that very tensor (a module's parameters) is refused; see nn::ParameterScope for functions of a module's
// parameters. Inputs that are not f32 or f64 (labels, ids) are handed on; where a list of derivatives has one entry per
// input, theirs is undefined. An input that f does not depend on has zeros. Every function throws AutogradError for an
// f that does not fit (no output, undefined output, an operation without a gradient) and for cotangents or tangents of
// another number, shape or type than the outputs or inputs; messages begin with the function's name.

/// x -> df/dx_i for every input i. The result is a TensorFunction, so grad can be taken of parts of it again.
/// Throws AutogradError when f's value has more than one element. Cost: one forward and one backward pass.
TensorFunction grad(const ScalarFunction& f);

/// A loss and its gradient by each input.
struct ValueAndGradient {
  Tensor value;
  std::vector<Tensor> gradients;
};
/// x -> (f(x), df/dx): the value costs nothing beyond grad.
std::function<ValueAndGradient(const std::vector<Tensor>&)> value_and_grad(const ScalarFunction& f);

/// Outputs, and J^T v by each input.
struct Vjp {
  std::vector<Tensor> outputs;
  std::vector<Tensor> gradients;
};
/// Vector-Jacobian product: sum_o J_oi^T v_o for each input i. cotangents[o] has the shape of output o, or is undefined
/// (zero; ones where the output is the only one and has one element). Outputs without gradients take an undefined one.
/// Cost: one forward and one backward pass.
Vjp vjp(const TensorFunction& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& cotangents);

/// Outputs, and J u for each output (undefined for outputs that are not f32 or f64).
struct Jvp {
  std::vector<Tensor> outputs;
  std::vector<Tensor> tangents;
};
/// Jacobian-vector product: sum_i J_oi u_i for each output o. tangents[i] has the shape of input i, or is undefined
/// (zero). Exact, no difference quotient: v -> J^T v is linear, so its own vjp at u is J u (the "double backward
/// trick", J. Townsend 2017). Needs second-order rules along the way. Cost: about three passes of vjp.
Jvp jvp(const TensorFunction& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents);

/// Jacobians: jacobian(f, x)[o][i] has the shape of output o followed by that of input i; its entry [k..., l...] is
/// d y_o[k...] / d x_i[l...]. Undefined where output or input has no gradient. Dense and row by row: one backward pass
/// for every element of every output, and numel(y) numel(x) elements of memory; for large ones use vjp or jvp.
/// Throws ShapeError when the two ranks together pass max_rank.
std::vector<std::vector<Tensor>> jacobian(const TensorFunction& f, const std::vector<Tensor>& inputs);

/// A loss, its gradient, and its Hessian times a vector.
struct Hvp {
  Tensor value;
  std::vector<Tensor> gradients;
  std::vector<Tensor> products;
};
/// Hessian-vector product: sum_j d^2 f/dx_i dx_j u_j for each input i, reverse over reverse. tangents as for jvp.
/// Throws like grad. Cost: about four forward passes more than grad, whatever the number of inputs.
Hvp hvp(const ScalarFunction& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents);

/// Second derivatives: hessian(f, x)[i][j] has the shape of input i followed by that of input j. Dense: one pass for
/// every input element and numel(x)^2 elements of memory; for small problems. Throws like jacobian.
std::vector<std::vector<Tensor>> hessian(const ScalarFunction& f, const std::vector<Tensor>& inputs);

} // namespace eg
