// Corollary 4.3: training with permuted tokens gives the same weights at every step.

#include "theorem.h"

using namespace theorem;

int main() {
  const nn::BlockConfig config{.dim = 12, .heads = 3, .mlp = 20};
  nn::Block plain(config, {}), permuted(config, {}), left(config, {});
  randomize(plain);
  for (nn::Block* other : {&permuted, &left}) {
    other->to(DType::f64);
    other->load_state_dict(plain.state_dict());
  }
  train(plain, [&](const Tensor& z, std::uint64_t) { return plain(z); });
  train(permuted, [&](const Tensor& z, std::uint64_t step) { // a fresh P_R for every sample and step
    const Tensor p = permute::row_permutations(4, 7, {.seed = 4, .stream = step});
    return permute_rows(permuted(permute_rows(z, p)), invert_permutation(p));
  });
  train(left, [&](const Tensor& z, std::uint64_t) { return left(permute_rows(z, rows(4, 7))); });
  holds("W_(R),t = W_t after 20 steps", permuted.state_dict(), plain.state_dict());
  fails("the same when the output stays permuted", left.state_dict(), plain.state_dict());
  return verdict();
}
