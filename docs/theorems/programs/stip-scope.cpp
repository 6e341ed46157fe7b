// Convolution commutes with permutations of channels, and not with those of pixels.

#include "theorem.h"

using namespace theorem;

int main() {
  const Tensor x = normal({2, 4, 6, 6}), w = normal({5, 4, 3, 3}), b = normal({5});
  const Permutation in = permutation(4), out = permutation(5), pixels = permutation(6);
  const auto f = [](const Tensor& z, const Tensor& u, const Tensor& c) { return conv2d(z, u, c, {.padding = 1}); };
  holds("channels", f(in.apply(x, 1), in.apply(out.apply(w, 0), 1), out.apply(b, 0)), out.apply(f(x, w, b), 1));
  fails("columns of pixels", f(pixels.apply(x, 3), w, b), pixels.apply(f(x, w, b), 3));
  return verdict();
}
