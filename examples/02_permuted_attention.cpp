// Attention commutes with permutations of the tokens, forward and backward, and the gradient of its weights does not
// notice them at all: the mathematics that equigrad exists to make executable.
//
//   forward          f(P x) = P f(x)
//   gradient of x    permuted by the same P
//   gradient of W    unchanged: dL/dW is the same whichever way round the tokens came in

#include <equigrad/equigrad.h>

#include <cstdio>
#include <vector>

namespace {

/// What one pass through the layer gives: its output and the gradients of <cotangent, output>.
struct Pass {
  eg::Tensor output, input_gradient, weight_gradient;
};

Pass run(const eg::nn::MultiHeadAttention& attention, const eg::Tensor& x, const eg::Tensor& cotangent) {
  eg::Tape tape;
  const eg::Tensor y = attention(x);
  const std::vector<eg::Tensor> g = tape.gradient(y, {x, attention.qkv.weight}, cotangent);
  return {y, g[0], g[1]};
}

} // namespace

int main() {
  constexpr std::int64_t tokens = 7, dim = 12, heads = 3;
  eg::nn::MultiHeadAttention attention(dim, heads, dim / heads, {.seed = 1});
  attention.to(eg::DType::f64);
  const eg::Tensor x = eg::random_normal({2, tokens, dim}, {.seed = 2}, 0.0, 1.0, eg::DType::f64);
  const eg::Tensor cotangent = eg::random_normal({2, tokens, dim}, {.seed = 3}, 0.0, 1.0, eg::DType::f64);

  const eg::Tensor p = eg::permute::Permutation::random_nonidentity(tokens, {.seed = 4}).tensor();
  const Pass plain = run(attention, x, cotangent);
  const Pass permuted = run(attention, eg::permute_rows(x, p), eg::permute_rows(cotangent, p));

  const double forward = eg::relative_error(permuted.output, eg::permute_rows(plain.output, p));
  const double backward = eg::relative_error(permuted.input_gradient, eg::permute_rows(plain.input_gradient, p));
  const double weights = eg::relative_error(permuted.weight_gradient, plain.weight_gradient);
  const double control = eg::relative_error(permuted.output, plain.output); // without P on the right: not equal
  std::printf("f(P x) = P f(x)          relative error %.1e\n", forward);
  std::printf("gradient of x permuted   relative error %.1e\n", backward);
  std::printf("gradient of W unchanged  relative error %.1e\n", weights);
  std::printf("f(P x) = f(x) is false   relative error %.1e\n", control);
  return forward < 1e-12 && backward < 1e-12 && weights < 1e-12 && control > 1e-3 ? 0 : 1;
}
