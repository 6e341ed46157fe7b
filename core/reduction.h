#pragma once
// Selects how sums are computed: fast, or exact so that neither their order nor the processor can matter.

#include <cstdint>

namespace eg {

/// fast: fixed order, the same bits for any number of threads, other bits when the terms are permuted.
/// exact: every sum whose terms a declared symmetry permutes (in products, norms, softmax, losses, reductions, means of
/// pooling, gradients of biases) is the same for every order of them, so that a permutation theorem f(P x) = P f(x)
/// holds bit for bit. Slower. Sums whose terms no symmetry permutes keep their fixed order (fold, adjoints of pooling
/// and of interpolate). On the CPU operations and steps of optimisers have the same bits on every machine (tests/bits).
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
