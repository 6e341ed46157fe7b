// RMSNorm commutes with permutations of tokens and features; the mean is over the features.

#include "theorem.h"

using namespace theorem;

int main() {
  const Tensor x = normal({7, 12}), gamma = normal({12}, 0.3, 1.0);
  const Permutation r = permutation(7), c = permutation(12);
  const auto moved = [&](const Tensor& z) { return c.apply(r.apply(z, 0), 1); };
  holds("RMS_(P)(P_R X P_C) = P_R RMS(X) P_C", rms_norm(moved(x), c.apply(gamma, 0)), moved(rms_norm(x, gamma)));
  const Tensor printed = x * rsqrt(sum(x * x, {1}, true) / 7.0 + 1e-6) * gamma;
  fails("1/n with the number of tokens, as printed", printed, rms_norm(x, gamma));
  return verdict();
}
