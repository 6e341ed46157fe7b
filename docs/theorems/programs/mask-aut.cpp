// The row permutations that a masked attention commutes with are the automorphisms of its mask.

#include "theorem.h"

using namespace theorem;

int main() {
  std::vector<double> entries; // seven tokens, of which the last three are padding: nobody sees them
  for (int i = 0; i < 7; ++i)
    for (int j = 0; j < 7; ++j) entries.push_back(j < 4 ? 0.0 : -1e9);
  const Tensor mask = Tensor::from<double>(entries, {7, 7}), x = normal({7, 12});
  const auto f = [&](const Tensor& z) { return attention_explicit(z, z, z, {.mask = mask}).output; };
  const permute::PermutationGroup group = permute::automorphisms(mask);
  std::int64_t order = 1;
  for (const std::int64_t factor : group.factors) order *= factor;
  std::printf("%lld automorphisms, 4! 3! of them\n", static_cast<long long>(order));
  for (const Permutation& p : group.generators)
    holds("f(P X) = P f(X), a generator", f(p.apply(x, 0)), p.apply(f(x), 0));
  const Permutation outside({0, 1, 2, 4, 3, 5, 6}); // a valid token changes places with padding
  fails("f(P X) = P f(X), P no automorphism", f(outside.apply(x, 0)), outside.apply(f(x), 0));
  return verdict();
}
