// Training in another orthonormal basis: SGD follows every orthogonal map, Adam follows signed permutations.

#include "theorem.h"

using namespace theorem;

namespace {

/// W R^T after twenty steps on x R, from W_0 R.
Tensor trained(const std::string& rule, const Tensor& w0, const Tensor& r) {
  const Tensor w = matmul(w0, r);
  const auto optimizer = optim::make_optimizer(rule, {w});
  for (std::uint64_t step = 0; step < 20; ++step) {
    Tape tape;
    const Tensor x = random_normal({7, 12}, {.seed = 3, .stream = step}, 0.0, 1.0, DType::f64);
    optimizer->step(tape.gradient(mean(square(gelu(linear(matmul(x, r), w)) - 1.0)), {w}), 0.01);
  }
  return matmul(w, r, false, true);
}

} // namespace

int main() {
  std::vector<double> entries(144, 0.0);
  for (std::size_t i = 0; i < 12; ++i) entries[13 * i] = 1.0;
  const Tensor w0 = normal({20, 12}), none = Tensor::from<double>(entries, {12, 12});
  const Tensor signed_permutation = permutation(12).apply(none, 1) * sign(normal({12}));
  const Tensor v = normal({12, 1}); // a reflection
  const Tensor turned = none - matmul(v, v, false, true) * (2.0 / sum(v * v).item());
  holds("SGD, orthogonal: W_t' = W_t R", trained("sgd", w0, turned), trained("sgd", w0, none));
  holds("Adam, permutation with signs: W_t' = W_t R", trained("adam", w0, signed_permutation),
        trained("adam", w0, none));
  fails("Adam, orthogonal: W_t' = W_t R", trained("adam", w0, turned), trained("adam", w0, none));
  return verdict();
}
