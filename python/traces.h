#pragma once
// Gives Python what attention computed inside a call.

#include "nn/attention_recorder.h"

#include "bindings.h"

namespace eg::python {

/// q, k, v, logits, attention (also as scores), a and output by name.
nb::dict dict_of(const nn::MultiHeadAttention::Trace& trace, double scale);

/// A dict for each attention that run() calls, in that order. run() is called without the interpreter's lock.
template <class F> nb::list traces_of(F&& run) {
  nn::AttentionRecorder recorder;
  released(run);
  nb::list layers;
  for (const auto& item : recorder.items()) layers.append(dict_of(item.trace, item.scale));
  return layers;
}

} // namespace eg::python
