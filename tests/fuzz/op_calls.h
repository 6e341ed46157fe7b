#pragma once
// Bytes to a call on any row of the registry, right or wrong in some way, and what must hold of every call: a clean
// result or an eg::Error, the same bits when repeated, inputs left alone, memory given back; forward, backward and the
// backward's backward. For libFuzzer (op_fuzzer.cpp), the driver (op_driver.cpp) and a unit test.

#include "core/op.h"

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace eg::fuzz {

/// Choices read from bytes one after the other; 0 once they are used up.
class Choices {
public:
  explicit Choices(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  std::uint8_t byte();
  /// A number in [0, count); count >= 1.
  std::size_t below(std::size_t count);
  /// True once in `times`.
  bool rarely(std::size_t times) { return below(times) == times - 1; }
  template <class List> const auto& pick(const List& list) { return list[below(list.size())]; }

private:
  std::span<const std::uint8_t> bytes_;
};

/// One call and how far it is taken.
struct OpCall {
  const OpDef* op = nullptr;
  std::vector<Tensor> in;
  Attrs attrs;
  bool exact = false;     ///< in exact mode
  bool backward = false;  ///< through a tape
  bool second = false;    ///< and through the tape of that
  bool wild_grad = false; ///< cotangents with NaN and infinities among them
};

/// Decodes a call: a sample or refusal of some row, changed in a few places (values, shapes, strides, types, number of
/// inputs, attributes).
OpCall decode_op_call(std::span<const std::uint8_t> bytes);

/// Bytes for one round: they depend on seed and round alone.
std::vector<std::uint8_t> random_bytes(std::uint64_t seed, std::uint64_t round);

/// "softmax(f32 [3, 5] strides [1, 3]; axis=-1)"
std::string described(const OpCall& call);

/// What became of a call.
struct OpOutcome {
  bool ran = false;       ///< forward gave a result
  bool backward = false;  ///< so did the gradient
  bool second = false;    ///< and its gradient
  bool too_large = false; ///< left out: the row's own figures say that it is too much work for one round
};

/// Something that no call may do; what() describes the call.
class Finding : public std::logic_error {
public:
  using std::logic_error::logic_error;
};

/// Runs the call and checks what must hold. Throws Finding.
OpOutcome run_op_call(const OpCall& call);

/// Limits the allocator and the threads as the runs need it.
void prepare_op_calls();

} // namespace eg::fuzz
