// The bias of the keys: softmax does not see it without positions, and sees it under rotary ones.

#include "theorem.h"

using namespace theorem;

int main() {
  const Tensor q = normal({7, 12}), k = normal({7, 12}), v = normal({7, 12}), b = normal({12}),
               forward = Tensor::arange(7);
  const Tensor backward = Tensor::from<std::int64_t>({0, -1, -2, -3, -4, -5, -6}, {7});
  const auto turned = [](const Tensor& x, const Tensor& at) {
    return rotary(x.reshape({1, 7, 1, 12}), at).reshape({7, 12});
  };
  const Tensor g = normal({7, 12});
  Tape tape;
  const Tensor keys = turned(k + b, forward);
  const auto rotated = tape.gradient(scaled_dot_product_attention(turned(q, forward), keys, v), {b, keys}, g);
  tape.close();
  Tape plain;
  const auto unrotated = plain.gradient(scaled_dot_product_attention(q, k + b, v), {b}, g);
  plain.close();
  holds("without positions: dl/db_K + 1 = 1", unrotated[0] + 1.0, Tensor::ones({12}, DType::f64));
  holds("rotary: dl/db_K is the sum of the keys' gradients, turned back", rotated[0],
        sum(turned(rotated[1], backward), {0}));
  fails("rotary: dl/db_K + 1 = 1", rotated[0] + 1.0, Tensor::ones({12}, DType::f64));
  return verdict();
}
