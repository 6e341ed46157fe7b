#include "nn/layers.h"

#include "core/base/named_values.h"
#include "core/meta.h"
#include "nn/init.h"

#include <fmt/format.h>

#include <cmath>

namespace eg::nn {
namespace {

constexpr NamedValues<Activation, 9> activations{{{"gelu", Activation::gelu},
                                                  {"gelu_tanh", Activation::gelu_tanh},
                                                  {"quick_gelu", Activation::quick_gelu},
                                                  {"relu", Activation::relu},
                                                  {"relu2", Activation::relu2},
                                                  {"silu", Activation::silu},
                                                  {"mish", Activation::mish},
                                                  {"sigmoid", Activation::sigmoid},
                                                  {"tanh", Activation::tanh}}};

void check_positive(const char* layer, const char* field, std::int64_t value) {
  if (value <= 0) throw ValueError(fmt::format("{}: {} must be positive, not {}", layer, field, value));
}

/// Puts `weight` into fewer bits and leaves its shape.
void narrow_into(NarrowWeight& narrow, Tensor& weight, WeightStorage storage) {
  if (narrow.defined())
    throw ValueError(fmt::format("{}: the weight is in {} already", current_place(), name_of(narrow.storage())));
  if (storage == WeightStorage::full) return;
  narrow = NarrowWeight(weight, storage);
  weight = Tensor::meta(weight.shape(), weight.dtype());
}

} // namespace

Linear::Linear(std::int64_t in, std::int64_t out, RandomKey key, bool with_bias) {
  check_positive("Linear", "in", in);
  check_positive("Linear", "out", out);
  weight = Tensor::empty({out, in});
  init::kaiming_uniform(weight, key.fold(0));
  register_parameter("weight", weight);
  if (!with_bias) return;
  bias = Tensor::empty({out});
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  init::uniform(bias, -bound, bound, key.fold(1));
  register_parameter("bias", bias);
}

Tensor Linear::operator()(const Tensor& x) const { return (*this)(x, Tensor()); }

Tensor Linear::operator()(const Tensor& x, const Tensor& addend) const {
  return called({&x, &addend}, without_hooks(x, addend));
}

Tensor Linear::without_hooks(const Tensor& x, const Tensor& addend) const {
  const Scope scope(*this);
  return narrow_.defined() ? narrow_.linear(x, bias, addend) : linear(x, weight, bias, addend);
}

void Linear::narrow(WeightStorage storage) {
  const Scope scope(*this);
  narrow_into(narrow_, weight, storage);
  for (Tensor* part : narrow_.parts()) register_narrow(*part);
}

LayerNorm::LayerNorm(std::int64_t dim, double eps_) : eps(eps_) {
  check_positive("LayerNorm", "dim", dim);
  weight = Tensor::ones({dim});
  bias = Tensor::zeros({dim});
  register_parameter("weight", weight);
  register_parameter("bias", bias);
}

Tensor LayerNorm::operator()(const Tensor& x) const {
  const Scope scope(*this);
  return called({&x}, layer_norm(x, weight, bias, eps));
}

Embedding::Embedding(std::int64_t count, std::int64_t dim, RandomKey key, std::int64_t padding_) : padding(padding_) {
  check_positive("Embedding", "count", count);
  check_positive("Embedding", "dim", dim);
  weight = Tensor::empty({count, dim});
  init::normal(weight, 0.02, key);
  register_parameter("weight", weight);
}

Tensor Embedding::operator()(const Tensor& ids) const {
  const Scope scope(*this);
  if (narrow_.defined()) return called({&ids}, narrow_.rows(ids));
  Tensor rows = embedding(weight, ids);
  // Without values a tape still records that the ids are compared with this one.
  if (padding >= 0 && !ids.has_storage())
    static_cast<void>(eq(ids, Tensor::full({}, static_cast<double>(padding), DType::i64)));
  if (padding < 0 || !graph_recording()) return called({&ids}, rows);
  Tensor is_padding, constant;
  {
    const PauseRecording pause;
    is_padding = eq(ids, static_cast<double>(padding)).unsqueeze(-1);
    constant = embedding(weight, ids);
  }
  return called({&ids}, where(is_padding, constant, rows));
}

Tensor Embedding::logits(const Tensor& hidden) const {
  const Scope scope(*this);
  return narrow_.defined() ? narrow_.linear(hidden) : linear(hidden, weight);
}

void Embedding::narrow(WeightStorage storage) {
  const Scope scope(*this);
  narrow_into(narrow_, weight, storage);
  for (Tensor* part : narrow_.parts()) register_narrow(*part);
}

Dropout::Dropout(double p_) : p(p_) {
  if (!(p >= 0.0 && p < 1.0)) throw ValueError(fmt::format("Dropout: p must be in [0, 1), not {}", p));
}

Tensor Dropout::operator()(const Tensor& x, RandomKey key) const {
  const Scope scope(*this);
  return called({&x}, training() && p > 0.0 ? dropout(x, p, key) : x);
}

Tensor activate(const Tensor& x, Activation activation) {
  switch (activation) {
  case Activation::gelu:
    return gelu(x);
  case Activation::gelu_tanh:
    return gelu_tanh(x);
  case Activation::quick_gelu:
    return quick_gelu(x);
  case Activation::relu:
    return relu(x);
  case Activation::relu2:
    return square(relu(x));
  case Activation::silu:
    return silu(x);
  case Activation::mish:
    return mish(x);
  case Activation::sigmoid:
    return sigmoid(x);
  case Activation::tanh:
    return tanh(x);
  }
  throw ValueError("activate: unknown activation");
}

Activation activation_named(std::string_view name) { return value_named(activations, "activation", name); }

std::string_view name_of(Activation activation) { return name_in(activations, activation); }

Mlp::Mlp(std::int64_t dim, std::int64_t hidden_, Activation activation_, RandomKey key, bool bias, bool gated_)
    : activation(activation_), gated(gated_), fc1(dim, gated_ ? 2 * hidden_ : hidden_, key.fold(0), bias),
      fc2(hidden_, dim, key.fold(1), bias) {
  register_module("fc1", fc1);
  register_module("fc2", fc2);
}

namespace {

Tensor gated_product(const Tensor& gate, const Tensor& up, Activation activation) {
  switch (activation) {
  case Activation::silu:
    return swiglu(gate, up);
  case Activation::gelu:
    return geglu(gate, up);
  case Activation::gelu_tanh:
    return geglu(gate, up, true);
  case Activation::relu:
    return reglu(gate, up);
  case Activation::sigmoid:
    return glu(gate, up);
  default:
    return activate(gate, activation) * up;
  }
}

} // namespace

Tensor Mlp::hidden(const Tensor& x) const {
  if (gated) {
    const Tensor both = fc1(x);
    const std::int64_t width = both.size(-1) / 2;
    return gated_product(slice(both, -1, 0, width), slice(both, -1, width, 2 * width), activation);
  }
  if (fc1.is_narrow() || fc1.has_own_hooks() || (activation != Activation::gelu && activation != Activation::gelu_tanh))
    return activate(fc1(x), activation);
  const PlaceScope place(fc1.name()); // the fused call stands for fc1 and the activation
  return linear_gelu(x, fc1.weight, fc1.bias, activation == Activation::gelu_tanh);
}

Tensor Mlp::operator()(const Tensor& x, const Tensor& addend) const {
  const Scope scope(*this);
  return called({&x, &addend}, fc2(hidden(x), addend));
}

Tensor Mlp::forward_shape_only(const Tensor& x, const Tensor& addend) const {
  const Scope scope(*this);
  const Tensor h = hidden(x);
  const ShapeOnlyScope shape_only;
  return fc2(h, addend);
}

} // namespace eg::nn
