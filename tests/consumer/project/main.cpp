#include <core/tensor.h>
#include <equigrad/core/tensor.h> // the same header by its other names
#include <equigrad/equigrad.h>

#include <cstdio>

int main() {
  const eg::Tensor x = eg::Tensor::from<float>({1, -2, 3}, {3});
  eg::Tape tape;
  const eg::Tensor y = eg::sum(x * x);
  const std::vector<float> g = tape.gradient(y, {x})[0].to_vector<float>();
  std::printf("gradient %g %g %g\n", double{g[0]}, double{g[1]}, double{g[2]});
  return 0;
}
