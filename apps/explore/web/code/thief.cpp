// Whoever knows the weights finds the permutation: rows are matched with the public ones.

#include "core/ops.h"
#include "core/random.h"
#include "permute/permutation.h"

#include <cstdio>

using namespace eg;

int main() {
  const Tensor weight = random_normal({16, 48}, {.seed = 1}, 0.0, 1.0, DType::f64); // public
  const auto secret = permute::Permutation::random_nonidentity(16, {.seed = 2});
  const Tensor seen = secret.apply(weight, 0); // what the cloud holds

  // |a - b|^2 of all pairs of rows; row i of what is seen is the public row at the smallest distance.
  const auto nearest = [&](const Tensor& known) {
    const Tensor apart = seen.unsqueeze(1) - known.unsqueeze(0);
    return argmin(sum(apart * apart, {-1}), -1).to_vector<std::int64_t>();
  };
  const bool found = nearest(weight) == secret.gather();
  // Control: somebody who knows only the shapes finds nothing.
  const bool stranger = nearest(random_normal({16, 48}, {.seed = 3}, 0.0, 1.0, DType::f64)) == secret.gather();
  std::printf("with the public weights: %s; without: %s\n", found ? "found" : "not found",
              stranger ? "found" : "not found");
  return found && !stranger ? 0 : 1;
}
