#pragma once
// How sums are taken: fast, or exact so that their order cannot matter.

#include <cstdint>

namespace eg {

/// fast: fixed order, the same bits for any number of threads, other bits when the terms are permuted.
/// exact: every sum inside an operation (products, norms, softmax, losses, reductions, gradients of biases) is the same
/// for every order of its terms, so that a permutation theorem f(P x) = P f(x) holds bit for bit. Slower.
enum class Reduction : std::uint8_t { fast, exact };

/// What holds on this thread; fast unless a scope says otherwise.
Reduction reduction();

/// Sets the reduction of this thread while it lives. The rules that a tape runs follow the scope that is open when the
/// gradient is taken, so keep it open over forward and backward.
class ReductionScope {
public:
  explicit ReductionScope(Reduction wanted);
  ~ReductionScope();
  ReductionScope(const ReductionScope&) = delete;
  ReductionScope& operator=(const ReductionScope&) = delete;

private:
  Reduction before_;
};

} // namespace eg
