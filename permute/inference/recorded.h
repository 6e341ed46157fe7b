#pragma once
// Keeps calls that were recorded while a model ran. Not for users.

#include "core/call.h"

#include <memory>
#include <string>
#include <vector>

namespace eg::permute {

/// One call, with tensors as they were.
struct RecordedCall {
  const OpDef* op = nullptr;
  std::shared_ptr<const CustomOp> custom = {};
  std::vector<Tensor> in, out;
  Attrs attrs = {};
  std::string place = {};

  explicit RecordedCall(const Event& e)
      : op(e.op), custom(e.custom), in(e.in.begin(), e.in.end()), out(e.out.begin(), e.out.end()),
        attrs(e.attrs != nullptr ? *e.attrs : Attrs()), place(current_place()) {}
  /// The event as it was recorded; it refers to this.
  Event event() const {
    return {.op = op, .custom = custom, .in = in, .out = out, .attrs = op != nullptr ? &attrs : nullptr};
  }
  bool given(std::size_t i) const { return i < in.size() && in[i].defined(); }
};

} // namespace eg::permute
