// Layer norm of rows and its gradients, by plain loops and by the library.

#include "page.h"

using namespace page;

namespace {

/// (x - mean) r of each row, and r = 1 / sqrt(variance + eps).
struct Normalised {
  Array xh, r;
};

Normalised normalise(const Array& x, double eps) {
  Normalised result{Array(x.extents()), Array({x.extent(0)})};
  const auto n = static_cast<double>(x.extent(1));
  for (Index i = 0; i < x.extent(0); ++i) {
    double mean = 0, variance = 0;
    for (Index j = 0; j < x.extent(1); ++j) mean += x(i, j) / n;
    for (Index j = 0; j < x.extent(1); ++j) variance += (x(i, j) - mean) * (x(i, j) - mean) / n;
    result.r(i) = 1 / std::sqrt(variance + eps);
    for (Index j = 0; j < x.extent(1); ++j) result.xh(i, j) = (x(i, j) - mean) * result.r(i);
  }
  return result;
}

Array forward(const Array& x, const Array& gamma, const Array& beta, double eps) {
  Array y = normalise(x, eps).xh;
  for (Index i = 0; i < x.extent(0); ++i)
    for (Index j = 0; j < x.extent(1); ++j) y(i, j) = y(i, j) * gamma(j) + beta(j);
  return y;
}

struct Gradients {
  Array x, gamma, beta;
};

Gradients backward(const Array& x, const Array& gamma, const Array& g, double eps) {
  const auto [xh, r] = normalise(x, eps); // computed again: only x was kept
  Gradients result{Array(x.extents()), Array({x.extent(1)}), Array({x.extent(1)})};
  const auto n = static_cast<double>(x.extent(1));
  for (Index i = 0; i < x.extent(0); ++i) {
    double mean = 0, along = 0; // of gh = g gamma, and of gh xh
    for (Index j = 0; j < x.extent(1); ++j) mean += g(i, j) * gamma(j) / n;
    for (Index j = 0; j < x.extent(1); ++j) along += g(i, j) * gamma(j) * xh(i, j) / n;
    for (Index j = 0; j < x.extent(1); ++j) {
      result.x(i, j) = r(i) * (g(i, j) * gamma(j) - mean - xh(i, j) * along);
      result.gamma(j) += g(i, j) * xh(i, j);
      result.beta(j) += g(i, j);
    }
  }
  return result;
}

Library layer_norm(const std::vector<Array>& inputs, const Array& g, double eps) {
  return library([&](const std::vector<eg::Tensor>& in) { return eg::layer_norm(in[0], in[1], in[2], eps); }, inputs,
                 g);
}

} // namespace

int main() {
  const Array x({2, 4}, {1, 1, 3, 3, 0, 4, 4, 0}), gamma({4}, {2, 1, 1, 3}), beta({4}, {0, 1, 0, -1});
  const Array g({2, 4}, {1, 0, 0, 0, 0, 1, 0, 0});
  const Array y = forward(x, gamma, beta, 0);
  const Gradients gradients = backward(x, gamma, g, 0);
  show("x", x);
  show("xh", normalise(x, 0).xh);
  show("y", y);
  show("g", g);
  show("gx", gradients.x);
  show("ggamma", gradients.gamma);
  show("gbeta", gradients.beta);

  const Library small = layer_norm({x, gamma, beta}, g, 0);
  holds("y", y, small.y);
  holds("gx", gradients.x, small.gradients[0]);
  holds("ggamma", gradients.gamma, small.gradients[1]);
  holds("gbeta", gradients.beta, small.gradients[2]);
  const Array a = normal({5, 7}), gammas = normal({7}), betas = normal({7}), ga = normal({5, 7});
  const Gradients loops = backward(a, gammas, ga, 1e-5);
  const Library large = layer_norm({a, gammas, betas}, ga, 1e-5);
  holds("y of 5 x 7 numbers", forward(a, gammas, betas, 1e-5), large.y);
  holds("gx of 5 x 7 numbers", loops.x, large.gradients[0]);
  holds("ggamma of 5 x 7 numbers", loops.gamma, large.gradients[1]);
  Array wrong(a.extents());
  for (Index i = 0; i < 5; ++i)
    for (Index j = 0; j < 7; ++j) wrong(i, j) = normalise(a, 1e-5).r(i) * ga(i, j) * gammas(j);
  fails("gx = r g gamma, as if mean and variance were constant", wrong, large.gradients[0]);

  const Order order = {2, 0, 3, 1};
  const Library moved =
      layer_norm({columns(x, order), columns(gamma, order), columns(beta, order)}, columns(g, order), 0);
  holds("y of permuted columns, gamma and beta with them", moved.y, columns(y, order));
  holds("gx of permuted columns", moved.gradients[0], columns(gradients.x, order));
  holds("ggamma moves as gamma does", moved.gradients[1], columns(gradients.gamma, order));
  fails("y of permuted columns, gamma where it was", layer_norm({columns(x, order), gamma, beta}, g, 0).y,
        columns(y, order));

  double total = 0, inner = 0;
  for (Index j = 0; j < 4; ++j) total += gradients.x(1, j);
  for (Index j = 0; j < 4; ++j) inner += gradients.x(1, j) * x(1, j);
  show("sum of the second row of gx", total);
  show("its inner product with the row of x", inner);
  Array scaled = x;
  for (double& value : scaled.values()) value = 10 * value + 7;
  holds("y of 10 x + 7", forward(scaled, gamma, beta, 0), y);
  show("gx at 10 x + 7", backward(scaled, gamma, g, 0).x);
  return verdict();
}
