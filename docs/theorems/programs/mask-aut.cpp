// The row permutations that a masked attention commutes with are the automorphisms of its mask, once each row's maximum
// is subtracted.

#include "theorem.h"

#include <limits>

using namespace theorem;

int main() {
  constexpr double closed = -std::numeric_limits<double>::infinity();
  std::vector<double> entries; // the last three of seven tokens are padding; each row has a number added
  for (int i = 0; i < 7; ++i)
    for (int j = 0; j < 7; ++j) entries.push_back((j < 4 ? 0.0 : closed) + 0.25 * i);
  const Tensor mask = Tensor::from<double>(entries, {7, 7}), x = normal({7, 12});
  const auto f = [&](const Tensor& z) { return attention_explicit(z, z, z, {.mask = mask}).output; };
  const permute::PermutationGroup group = permute::automorphisms(permute::softmax_form(mask));
  std::printf("%zu generators before row maxima are subtracted\n", permute::automorphisms(mask).generators.size());
  std::int64_t order = 1;
  for (const std::int64_t factor : group.factors) order *= factor;
  std::printf("%lld automorphisms, 4! 3! of them\n", static_cast<long long>(order));
  for (const Permutation& p : group.generators)
    holds("f(P X) = P f(X), a generator", f(p.apply(x, 0)), p.apply(f(x), 0));
  const Permutation outside({0, 1, 2, 4, 3, 5, 6}); // a valid token changes places with padding
  fails("f(P X) = P f(X), P no automorphism", f(outside.apply(x, 0)), outside.apply(f(x), 0));
  return verdict();
}
