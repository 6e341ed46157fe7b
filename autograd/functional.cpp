#include "autograd/functional.h"

#include "autograd/tape.h"
#include "autograd/tensor_list.h"
#include "core/device/device.h"
#include "core/ops.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <utility>

namespace eg {
namespace {

using autograd::contains;
using autograd::floating;
using Tensors = std::vector<Tensor>;

std::string described(const Tensor& t) {
  return t.defined() ? fmt::format("{} {}", name_of(t.dtype()), t.shape().str()) : std::string("undefined");
}

/// `values`, one for each floating tensor of `like`, at their places; undefined elsewhere.
Tensors spread(const Tensors& values, const Tensors& like) {
  Tensors list(like.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < like.size(); ++i)
    if (flows(like[i])) list[i] = values[next++];
  return list;
}

/// Of x's shape and type, where x is.
Tensor filled_like(const Tensor& x, double value) {
  const DeviceScope there(x.device());
  return Tensor::full(x.shape(), value, x.dtype());
}

Tensors zeros_like(const Tensors& list) {
  Tensors zeros;
  for (const Tensor& t : list) zeros.push_back(filled_like(t, 0.0));
  return zeros;
}

/// The inputs under new ids, so that f's arguments differ from what f captures; a tape that is open records the link.
Tensors as_arguments(const char* who, const Tensors& inputs) {
  if (inputs.empty()) throw AutogradError(fmt::format("{}: there are no inputs", who));
  Tensors arguments;
  for (const Tensor& x : inputs) {
    if (!flows(x))
      arguments.push_back(x);
    else
      arguments.push_back(graph_recording() ? expand(x, x.shape()) : x.detach());
  }
  if (floating(arguments).empty())
    throw AutogradError(fmt::format("{}: none of the {} inputs is f32 or f64", who, inputs.size()));
  return arguments;
}

/// A vector that a caller gave, complete: of `like`'s shapes, zeros where it was left out.
Tensors fitting(const char* who, const char* what, const char* whom, const Tensors& given, const Tensors& like) {
  if (given.size() != like.size())
    throw AutogradError(fmt::format("{}: {} {}s were given for {} {}s", who, given.size(), what, like.size(), whom));
  Tensors fitted;
  for (std::size_t i = 0; i < like.size(); ++i) {
    if (!flows(like[i])) {
      if (given[i].defined())
        throw AutogradError(fmt::format("{}: {} {} is {}, which has no derivative; leave its {} undefined", who, whom,
                                        i, described(like[i]), what));
      continue;
    }
    if (!given[i].defined()) {
      fitted.push_back(filled_like(like[i], 0.0));
      continue;
    }
    if (given[i].shape() != like[i].shape() || given[i].dtype() != like[i].dtype())
      throw AutogradError(fmt::format("{}: {} {} does not fit: {} is {}, {} is {}", who, what, i, what,
                                      described(given[i]), whom, described(like[i])));
    fitted.push_back(given[i]);
  }
  return fitted;
}

/// d<v, y>/dx by what `tape` recorded, where some of y may be constants.
Tensors gradient_of_computed(Tape& tape, const Tensors& ys, const Tensors& xs, const Tensors& vs, bool retain = false) {
  Tensors y, v;
  for (std::size_t i = 0; i < ys.size(); ++i)
    if (tape.computed(ys[i]) || contains(xs, ys[i])) {
      y.push_back(ys[i]);
      v.push_back(vs[i]);
    }
  return y.empty() ? zeros_like(xs) : tape.gradient(y, xs, v, retain);
}

/// f's outputs on a tape, and which of them depend on its arguments.
class Pass {
public:
  Pass(const char* who, const TensorFunction& f, const Tensors& inputs, const Tensors& arguments)
      : x_(floating(arguments)), outputs(f(arguments)) {
    if (outputs.empty()) throw AutogradError(fmt::format("{}: the function gave no output", who));
    for (std::size_t o = 0; o < outputs.size(); ++o)
      if (!outputs[o].defined()) throw AutogradError(fmt::format("{}: the function's output {} is undefined", who, o));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (flows(inputs[i]) && !tape_.met(arguments[i]) && !contains(outputs, arguments[i]) && tape_.met(inputs[i]))
        throw AutogradError(fmt::format("{}: the function ignores its argument {} ({}) and captures the same tensor; "
                                        "compute with the argument (nn::ParameterScope puts arguments into a module)",
                                        who, i, described(inputs[i])));
  }

  /// d<v, y>/dx for every floating argument.
  Tensors pull(const Tensors& y, const Tensors& v, bool retain = false) {
    return gradient_of_computed(tape_, y, x_, v, retain);
  }
  void close() { tape_.close(); }

private:
  Tape tape_; // open before f runs
  Tensors x_;

public:
  Tensors outputs;
};

TensorFunction as_list(const ScalarFunction& f) {
  return [f](const Tensors& in) { return Tensors{f(in)}; };
}

void require_scalar(const char* who, const Tensor& value) {
  if (!flows(value))
    throw AutogradError(
        fmt::format("{}: the function's value is {}; only f32 and f64 have gradients", who, described(value)));
  if (value.numel() != 1)
    throw AutogradError(fmt::format("{}: the function's value is {}; reduce it to one element (sum, mean), or use vjp "
                                    "or jacobian",
                                    who, described(value)));
}

ValueAndGradient value_and_gradient(const char* who, const TensorFunction& f, const Tensors& inputs,
                                    const Tensors& arguments) {
  Pass pass(who, f, inputs, arguments);
  const Tensor value = pass.outputs[0];
  require_scalar(who, value);
  return {value, spread(pass.pull({value}, {filled_like(value, 1.0)}), inputs)};
}

} // namespace

TensorFunction grad(const ScalarFunction& f) {
  return [list = as_list(f)](const Tensors& inputs) {
    return value_and_gradient("grad", list, inputs, as_arguments("grad", inputs)).gradients;
  };
}

std::function<ValueAndGradient(const Tensors&)> value_and_grad(const ScalarFunction& f) {
  return [list = as_list(f)](const Tensors& inputs) {
    return value_and_gradient("value_and_grad", list, inputs, as_arguments("value_and_grad", inputs));
  };
}

Vjp vjp(const TensorFunction& f, const Tensors& inputs, const Tensors& cotangents) {
  const Tensors arguments = as_arguments("vjp", inputs);
  Pass pass("vjp", f, inputs, arguments);
  Tensors v;
  if (cotangents.size() == 1 && pass.outputs.size() == 1 && !cotangents[0].defined() && flows(pass.outputs[0]) &&
      pass.outputs[0].numel() == 1)
    v = {filled_like(pass.outputs[0], 1.0)};
  else
    v = fitting("vjp", "cotangent", "output", cotangents, pass.outputs);
  Tensors gradients = spread(pass.pull(floating(pass.outputs), v), inputs);
  return {std::move(pass.outputs), std::move(gradients)};
}

Jvp jvp(const TensorFunction& f, const Tensors& inputs, const Tensors& tangents) {
  const Tensors u = fitting("jvp", "tangent", "input", tangents, inputs);
  const Tensors arguments = as_arguments("jvp", inputs);
  // v -> J^T v is linear: where it is taken does not matter, and its derivative along u is J u.
  Tape linear;
  Pass pass("jvp", f, inputs, arguments);
  const Tensors y = floating(pass.outputs);
  const Tensors v = zeros_like(y);
  const Tensors pulled = pass.pull(y, v);
  Tensors pushed = v.empty() ? Tensors{} : gradient_of_computed(linear, pulled, v, u);
  Tensors spread_out = spread(pushed, pass.outputs);
  return {std::move(pass.outputs), std::move(spread_out)};
}

Hvp hvp(const ScalarFunction& f, const Tensors& inputs, const Tensors& tangents) {
  const Tensors u = fitting("hvp", "tangent", "input", tangents, inputs);
  const Tensors arguments = as_arguments("hvp", inputs);
  Tape second;
  ValueAndGradient first = value_and_gradient("hvp", as_list(f), inputs, arguments);
  const Tensors products = gradient_of_computed(second, floating(first.gradients), floating(arguments), u);
  return {std::move(first.value), std::move(first.gradients), spread(products, inputs)};
}

namespace {

Shape joined(const Shape& a, const Shape& b) {
  Shape shape = a;
  for (int axis = 0; axis < b.rank(); ++axis) shape.push_back(b[axis]);
  return shape;
}

/// Of one output, by every floating argument.
Tensors jacobian_rows(Pass& pass, const Tensor& y, const Tensors& xs) {
  std::vector<Tensors> rows(xs.size());
  for (std::int64_t k = 0; k < y.numel(); ++k) {
    Tensor one = filled_like(y, 0.0);
    one.view_as({1}, {1}, k).fill(1.0);
    const Tensors row = pass.pull({y}, {one}, true);
    for (std::size_t i = 0; i < xs.size(); ++i) rows[i].push_back(reshape(row[i], {1, xs[i].numel()}));
  }
  Tensors blocks;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const DeviceScope there(xs[i].device());
    const Shape shape = joined(y.shape(), xs[i].shape());
    blocks.push_back(shape.numel() == 0 ? Tensor::zeros(shape, xs[i].dtype()) : reshape(concat(rows[i], 0), shape));
  }
  return blocks;
}

std::vector<Tensors> jacobian_of(const char* who, const TensorFunction& f, const Tensors& inputs) {
  const Tensors arguments = as_arguments(who, inputs);
  const Tensors xs = floating(arguments);
  Pass pass(who, f, inputs, arguments);
  pass.close(); // what follows is no part of f
  std::vector<Tensors> jacobians;
  for (const Tensor& y : pass.outputs)
    jacobians.push_back(flows(y) ? spread(jacobian_rows(pass, y, xs), inputs) : Tensors(inputs.size()));
  return jacobians;
}

} // namespace

std::vector<Tensors> jacobian(const TensorFunction& f, const Tensors& inputs) {
  return jacobian_of("jacobian", f, inputs);
}

std::vector<Tensors> hessian(const ScalarFunction& f, const Tensors& inputs) {
  const TensorFunction gradient = [list = as_list(f)](const Tensors& in) {
    return floating(value_and_gradient("hessian", list, in, as_arguments("hessian", in)).gradients);
  };
  std::vector<Tensors> blocks = jacobian_of("hessian", gradient, inputs);
  std::vector<Tensors> all(inputs.size(), Tensors(inputs.size()));
  std::size_t next = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (flows(inputs[i])) all[i] = std::move(blocks[next++]);
  return all;
}

} // namespace eg
