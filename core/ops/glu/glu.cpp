// Gated linear units y = act(gate) up (Shazeer, "GLU variants improve transformer", 2020) and their backward ops,
// fused: one visit of the inputs instead of two for each. swiglu: silu; geglu: gelu or its tanh form; reglu: relu; glu:
// sigmoid.

#include "core/call.h"
#include "core/device/module.h"
#include "core/ops.h"
#include "core/ops/glu/kernels.h"
#include "core/ops/list.h"
#include "core/ops/pointwise/pointwise.h"
#include "core/ops/pointwise/reference.h"
#include "core/ops/row_tools.h"
#include "core/threads/parallel.h"

#include <fmt/format.h>

namespace eg {
namespace {

using glu_kernels::Gate;

constexpr std::int64_t chunk = 16384;

template <Gate kind> Gate gate_of(const OpArgs& args) {
  if constexpr (kind == Gate::gelu) return args.attrs.flag("approximate") ? Gate::gelu_tanh : Gate::gelu;
  return kind;
}

// --- the gates as functions of doubles and of tensors ---

double act(Gate kind, double x) {
  switch (kind) {
  case Gate::sigmoid:
    return reference::sigmoid(x);
  case Gate::relu:
    return x < 0.0 ? 0.0 : x;
  case Gate::silu:
    return x * reference::sigmoid(x);
  case Gate::gelu:
    return x * reference::normal_cdf(x);
  case Gate::gelu_tanh:
    return reference::gelu_tanh(x);
  }
  return 0.0;
}

double slope(Gate kind, double x) {
  switch (kind) {
  case Gate::sigmoid:
    return reference::sigmoid(x) * reference::sigmoid(-x);
  case Gate::relu:
    return x > 0.0 ? 1.0 : 0.0;
  case Gate::silu:
    return reference::silu_slope(x);
  case Gate::gelu:
    return reference::normal_cdf(x) + x * reference::normal_density(x);
  case Gate::gelu_tanh:
    return reference::gelu_tanh_slope(x);
  }
  return 0.0;
}

Tensor act(Gate kind, const Tensor& x) {
  switch (kind) {
  case Gate::sigmoid:
    return sigmoid(x);
  case Gate::relu:
    return relu(x);
  case Gate::silu:
    return silu(x);
  case Gate::gelu:
    return gelu(x);
  case Gate::gelu_tanh:
    return gelu_tanh(x);
  }
  return {};
}

/// v act'(x)
Tensor sloped(Gate kind, const Tensor& x, const Tensor& v) {
  switch (kind) {
  case Gate::sigmoid:
    return sigmoid_backward(sigmoid(x), v);
  case Gate::relu:
    return relu_backward(x, v); // it reads the sign alone
  case Gate::silu:
    return silu_backward(x, v);
  case Gate::gelu:
    return gelu_backward(x, v);
  case Gate::gelu_tanh:
    return gelu_tanh_backward(x, v);
  }
  return {};
}

/// v act''(x); undefined for a gate of straight pieces.
Tensor curved(Gate kind, const Tensor& x, const Tensor& v) {
  switch (kind) {
  case Gate::sigmoid: {
    const Tensor s = sigmoid(x);
    return sigmoid_backward(s, v) * affine(s, -2.0, 1.0);
  }
  case Gate::relu:
    return {};
  case Gate::silu:
    return v * silu_curvature(x);
  case Gate::gelu:
    return v * gelu_curvature(x);
  case Gate::gelu_tanh:
    return v * gelu_tanh_curvature(x);
  }
  return {};
}

// --- forward ---

template <Gate kind> void forward(const OpArgs& args, std::span<Tensor> out) {
  const Tensor gate = packed(args.in[0]), up = packed(args.in[1]);
  visit_floating(gate.dtype(), [&]<class T>() {
    const T *from = gate.data<T>(), *times = up.data<T>();
    T* const to = out[0].mutable_data<T>(args.op.name.data());
    parallel::for_each(gate.numel(), chunk, [&](std::int64_t begin, std::int64_t end) {
      glu_kernels::forward(gate_of<kind>(args), from + begin, times + begin, to + begin, end - begin);
    });
  });
}

/// Forward without g and dup, backward with them.
void run_on_device(Gate kind, const OpArgs& args, Tensor& y, Tensor* dup) {
  if (y.numel() == 0) return;
  const Tensor gate = packed(args.in[0]), up = packed(args.in[1]);
  const Tensor g = dup != nullptr ? packed(args.in[2]) : Tensor{};
  const char* const name = args.op.name.data();
  const device::GluJob job{static_cast<int>(kind),
                           y.dtype(),
                           gate.device_bytes(),
                           up.device_bytes(),
                           g.defined() ? g.device_bytes() : nullptr,
                           y.mutable_device_bytes(name),
                           dup != nullptr ? dup->mutable_device_bytes(name) : nullptr,
                           y.numel()};
  device::launch(y.device(), name, &device::Table::glu, job);
}

template <Gate kind> void forward_on_device(const OpArgs& args, std::span<Tensor> out) {
  run_on_device(gate_of<kind>(args), args, out[0], nullptr);
}
template <Gate kind> void backward_on_device(const OpArgs& args, std::span<Tensor> out) {
  run_on_device(gate_of<kind>(args), args, out[0], &out[1]);
}

std::vector<Tensor> forward_reference(Gate kind, const OpArgs& args) {
  Tensor y = reference_output(args.in[0].shape());
  for (std::int64_t i = 0; i < y.numel(); ++i) values(y)[i] = act(kind, values(args.in[0])[i]) * values(args.in[1])[i];
  return {y};
}

Gradients forward_rule(const OpDef& backward_op, const VjpArgs& args) {
  Gradients gradients = call(backward_op, {args.in[0], args.in[1], args.grad[0]}, args.attrs);
  for (std::size_t i = 0; i < 2; ++i)
    if (!args.wants(i)) gradients[i] = {};
  return gradients;
}

// --- backward ---

template <Gate kind> void backward(const OpArgs& args, std::span<Tensor> out) {
  const Tensor gate = packed(args.in[0]), up = packed(args.in[1]), g = packed(args.in[2]);
  visit_floating(gate.dtype(), [&]<class T>() {
    const T *from = gate.data<T>(), *times = up.data<T>(), *cotangent = g.data<T>();
    T* const to_gate = out[0].mutable_data<T>(args.op.name.data());
    T* const to_up = out[1].mutable_data<T>(args.op.name.data());
    parallel::for_each(gate.numel(), chunk, [&](std::int64_t begin, std::int64_t end) {
      glu_kernels::backward(gate_of<kind>(args), from + begin, times + begin, cotangent + begin, to_gate + begin,
                            to_up + begin, end - begin);
    });
  });
}

std::vector<Tensor> backward_reference(Gate kind, const OpArgs& args) {
  Tensor dgate = reference_output(args.in[0].shape()), dup = reference_output(args.in[0].shape());
  for (std::int64_t i = 0; i < dgate.numel(); ++i) {
    const double x = values(args.in[0])[i], up = values(args.in[1])[i], g = values(args.in[2])[i];
    values(dgate)[i] = g * up * slope(kind, x);
    values(dup)[i] = g * act(kind, x);
  }
  return {dgate, dup};
}

// dgate = g u s', dup = g s with s = act(x). Along cotangents a and b:
//   xbar = a g u s'' + b g s',   ubar = a g s',   gbar = a u s' + b s
Gradients backward_rule(Gate kind, const VjpArgs& args) {
  const Tensor &x = args.in[0], &up = args.in[1], &g = args.in[2];
  const Tensor &a = args.grad[0], &b = args.grad[1];
  Gradients gradients(3);
  if (args.wants(0) && a.defined()) gradients[0] = curved(kind, x, a * g * up);
  if (args.wants(0) && b.defined()) add_term(gradients[0], sloped(kind, x, b * g));
  if (args.wants(1) && a.defined()) gradients[1] = sloped(kind, x, a * g);
  if (args.wants(2) && a.defined()) gradients[2] = sloped(kind, x, a * up);
  if (args.wants(2) && b.defined()) add_term(gradients[2], b * act(kind, x));
  return gradients;
}

// --- samples ---

/// `count` tensors of one shape; the first, the gate, keeps away from the kink of relu.
std::vector<Tensor> inputs(const Shape& shape, DType dtype, std::uint64_t tag, std::size_t count) {
  std::vector<Tensor> in{sample_off_zero(shape, dtype, tag * 8)};
  while (in.size() < count) in.push_back(sample_normal(shape, dtype, tag * 8 + in.size()));
  return in;
}

template <std::size_t count> std::vector<Sample> samples(DType dtype) {
  std::vector<Sample> all = {{inputs({5, 7}, dtype, 901, count), {}, "matrix"},
                             {inputs({2, 3, 33}, dtype, 902, count), {}, "three axes"},
                             {inputs({65}, dtype, 903, count), {}, "odd tail"},
                             {inputs({}, dtype, 904, count), {}, "scalar"},
                             {inputs({1, 1}, dtype, 905, count), {}, "extents of 1"},
                             {inputs({0, 3}, dtype, 906, count), {}, "empty"},
                             {inputs({4, 9}, dtype, 907, count), {}, "strided views"}};
  for (Tensor& x : all.back().in) x = scattered(x);
  return all;
}

template <std::size_t count> std::vector<Sample> gelu_samples(DType dtype) {
  std::vector<Sample> all = samples<count>(dtype);
  for (const std::size_t i : {0U, 2U}) {
    all.push_back(all[i]);
    all.back().attrs.set("approximate", true);
    all.back().note = i == 0 ? "tanh form, matrix" : "tanh form, odd tail";
  }
  return all;
}

template <std::size_t count> std::vector<Refusal> refuses() {
  std::vector<Tensor> shapes(count, Tensor::ones({2, 3})), types(count, Tensor::ones({3}, DType::i64));
  shapes[1] = Tensor::ones({3});
  return {{shapes, {}, "[2, 3]"}, {types, {}, "must be f32 or f64"}};
}

constexpr FixedList<AttrSpec, 8> approximate = {attr_bool("approximate", false, "the tanh form of gelu")};

/// Permuting any axis permutes it in every input and output.
std::vector<Symmetry> symmetries(const Sample& sample) {
  std::vector<Symmetry> all;
  for (int axis = 0; axis < sample.in[0].rank(); ++axis) {
    if (sample.in[0].size(axis) < 2) continue;
    Symmetry symmetry{fmt::format("axis {}", axis), {in_leg(0, axis), in_leg(1, axis), out_leg(0, axis)}};
    if (sample.in.size() > 2) {
      symmetry.legs.push_back(in_leg(2, axis));
      symmetry.legs.push_back(out_leg(1, axis));
    }
    all.push_back(std::move(symmetry));
  }
  return all;
}

std::vector<TensorSpec> backward_infer(const OpArgs& args) {
  const auto specs = same_shape_everywhere(args);
  return {specs[0], specs[0]};
}

} // namespace

#define EG_GLU_ROWS(NAME, KIND, FORWARD_MATH, BACKWARD_MATH, ATTRIBUTES, SAMPLES)                                      \
  constinit const OpDef NAME##_op = row({                                                                              \
      .name = #NAME,                                                                                                   \
      .math = FORWARD_MATH,                                                                                            \
      .inputs = {{"gate"}, {"up"}},                                                                                    \
      .attributes = ATTRIBUTES,                                                                                        \
      .infer = same_shape_everywhere,                                                                                  \
      .cpu = forward<KIND>,                                                                                            \
      .cuda = forward_on_device<KIND>,                                                                                 \
      .cuda_same_bits = true,                                                                                          \
      .saves = saves::in(0) | saves::in(1),                                                                            \
      .vjp = [](const VjpArgs& args) { return forward_rule(NAME##_backward_op, args); },                               \
      .reference = [](const OpArgs& args) { return forward_reference(gate_of<KIND>(args), args); },                    \
      .samples = SAMPLES<2>,                                                                                           \
      .refuses = refuses<2>,                                                                                           \
      .symmetries = symmetries,                                                                                        \
      .work = elementwise_work<25>,                                                                                    \
  });                                                                                                                  \
  constinit const OpDef NAME##_backward_op = row({                                                                     \
      .name = #NAME "_backward",                                                                                       \
      .math = BACKWARD_MATH,                                                                                           \
      .inputs = {{"gate"}, {"up"}, {"g"}},                                                                             \
      .outputs = {"dgate", "dup"},                                                                                     \
      .attributes = ATTRIBUTES,                                                                                        \
      .infer = backward_infer,                                                                                         \
      .cpu = backward<KIND>,                                                                                           \
      .cuda = backward_on_device<KIND>,                                                                                \
      .cuda_same_bits = true,                                                                                          \
      .saves = saves::in(0) | saves::in(1) | saves::in(2),                                                             \
      .vjp = [](const VjpArgs& args) { return backward_rule(gate_of<KIND>(args), args); },                             \
      .reference = [](const OpArgs& args) { return backward_reference(gate_of<KIND>(args), args); },                   \
      .samples = SAMPLES<3>,                                                                                           \
      .refuses = refuses<3>,                                                                                           \
      .symmetries = symmetries,                                                                                        \
      .work = elementwise_work<35>,                                                                                    \
  });

EG_GLU_ROWS(glu, Gate::sigmoid, "y = sigmoid(gate) up", "dgate = g up s (1 - s), dup = g s, s = sigmoid(gate)", {},
            samples)
EG_GLU_ROWS(reglu, Gate::relu, "y = max(gate, 0) up", "dgate = g up [gate > 0], dup = g max(gate, 0)", {}, samples)
EG_GLU_ROWS(swiglu, Gate::silu, "y = silu(gate) up, silu(x) = x / (1 + e^-x)",
            "dgate = g up s (1 + gate (1 - s)), dup = g gate s, s = sigmoid(gate)", {}, samples)
EG_GLU_ROWS(geglu, Gate::gelu, "y = gelu(gate) up", "dgate = g up gelu'(gate), dup = g gelu(gate)", approximate,
            gelu_samples)
#undef EG_GLU_ROWS

Tensor glu(const Tensor& gate, const Tensor& up) { return call1(glu_op, {gate, up}); }
Tensor reglu(const Tensor& gate, const Tensor& up) { return call1(reglu_op, {gate, up}); }
Tensor swiglu(const Tensor& gate, const Tensor& up) { return call1(swiglu_op, {gate, up}); }
Tensor geglu(const Tensor& gate, const Tensor& up, bool approximate_gate) {
  return call1(geglu_op, {gate, up}, {{"approximate", approximate_gate}});
}

} // namespace eg
