#pragma once
// Declares the kernels of the gated linear units: act(gate) up, element by element.

#include <cstdint>

namespace eg::glu_kernels {

/// The gate's function.
enum class Gate : std::uint8_t { sigmoid, relu, silu, gelu, gelu_tanh };

/// y = act(gate) up for n packed elements.
template <class T> void forward(Gate kind, const T* gate, const T* up, T* y, std::int64_t n);
/// dgate = g up act'(gate), dup = g act(gate).
template <class T> void backward(Gate kind, const T* gate, const T* up, const T* g, T* dgate, T* dup, std::int64_t n);

} // namespace eg::glu_kernels
