// A gradient moves by the inverse transpose of its weight's map: SwiGLU's up projection scaled, its down projection
// scaled back.

#include "theorem.h"

using namespace theorem;

int main() {
  const Tensor x = normal({7, 12}), g = normal({7, 12}), w1 = normal({20, 12}), w2 = normal({12, 20}),
               w3 = normal({20, 12}), s = exp(normal({20, 1}, 0.5));
  const auto output = [&](const Tensor& up, const Tensor& down) {
    return linear(swiglu(linear(x, w1), linear(x, up)), down);
  };
  const auto gradient = [&](const Tensor& up, const Tensor& down) {
    Tape tape;
    return tape.gradient(sum(g * gelu(output(up, down))), {up})[0];
  };
  const Tensor up = w3 * s, down = w2 / s.reshape({20}), plain = gradient(w3, w2), moved = gradient(up, down);
  holds("the same function with W_3' = diag(s) W_3", output(up, down), output(w3, w2));
  holds("dL'/dW_3' = diag(s)^-1 dL/dW_3", moved, plain / s);
  fails("dL'/dW_3' = diag(s) dL/dW_3, as the weight", moved, plain * s);
  return verdict();
}
