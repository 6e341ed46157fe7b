// A first gradient: open a tape, compute, ask for the derivative. This is the program of the README.

#include <equigrad/equigrad.h>

#include <cstdio>

int main() {
  const eg::Tensor x = eg::random_normal({4, 3}, {.seed = 1});
  const eg::Tensor w = eg::random_normal({2, 3}, {.seed = 2});
  eg::Tape tape;                                            // everything from here on is recorded
  const eg::Tensor y = eg::sum(eg::gelu(eg::linear(x, w))); // y = sum gelu(x w^T)
  const eg::Tensor slope = tape.gradient(y, {w})[0];        // dy/dw, a value of its own
  std::printf("y = %.4f\ndy/dw = %s\n", y.item(), slope.str().c_str());
}
