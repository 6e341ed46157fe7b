// RMS norm of rows and its gradients, by plain loops and by the library.

#include "page.h"

using namespace page;

namespace {

/// r = 1 / sqrt(mean of squares + eps) of each row.
Array scales(const Array& x, double eps) {
  Array r({x.extent(0)});
  for (Index i = 0; i < x.extent(0); ++i) {
    double square = 0;
    for (Index j = 0; j < x.extent(1); ++j) square += x(i, j) * x(i, j) / static_cast<double>(x.extent(1));
    r(i) = 1 / std::sqrt(square + eps);
  }
  return r;
}

Array forward(const Array& x, const Array& gamma, double eps) {
  const Array r = scales(x, eps);
  Array y(x.extents());
  for (Index i = 0; i < x.extent(0); ++i)
    for (Index j = 0; j < x.extent(1); ++j) y(i, j) = x(i, j) * r(i) * gamma(j);
  return y;
}

struct Gradients {
  Array x, gamma;
};

Gradients backward(const Array& x, const Array& gamma, const Array& g, double eps) {
  const Array r = scales(x, eps);
  Gradients result{Array(x.extents()), Array({x.extent(1)})};
  for (Index i = 0; i < x.extent(0); ++i) {
    double along = 0; // the mean of gh xh, gh = g gamma and xh = x r
    for (Index j = 0; j < x.extent(1); ++j)
      along += g(i, j) * gamma(j) * x(i, j) * r(i) / static_cast<double>(x.extent(1));
    for (Index j = 0; j < x.extent(1); ++j) {
      result.x(i, j) = r(i) * (g(i, j) * gamma(j) - x(i, j) * r(i) * along);
      result.gamma(j) += g(i, j) * x(i, j) * r(i);
    }
  }
  return result;
}

Library rms_norm(const std::vector<Array>& inputs, const Array& g, double eps) {
  return library([&](const std::vector<eg::Tensor>& in) { return eg::rms_norm(in[0], in[1], eps); }, inputs, g);
}

} // namespace

int main() {
  const Array x({2, 4}, {1, -1, 1, 1, 1, 3, 5, 1}), gamma({4}, {2, 1, 1, 1}), g({2, 4}, {1, 0, 0, 0, 0, 3, 0, 0});
  const Array y = forward(x, gamma, 0);
  const Gradients gradients = backward(x, gamma, g, 0);
  show("x", x);
  show("r", scales(x, 0));
  show("y", y);
  show("g", g);
  show("gx", gradients.x);
  show("ggamma", gradients.gamma);

  const Library small = rms_norm({x, gamma}, g, 0);
  holds("y", y, small.y);
  holds("gx", gradients.x, small.gradients[0]);
  holds("ggamma", gradients.gamma, small.gradients[1]);
  const Array a = normal({5, 7}), gammas = normal({7}), ga = normal({5, 7});
  const Gradients loops = backward(a, gammas, ga, 1e-6);
  const Library large = rms_norm({a, gammas}, ga, 1e-6);
  holds("y of 5 x 7 numbers", forward(a, gammas, 1e-6), large.y);
  holds("gx of 5 x 7 numbers", loops.x, large.gradients[0]);
  holds("ggamma of 5 x 7 numbers", loops.gamma, large.gradients[1]);
  Array wrong(a.extents());
  for (Index i = 0; i < 5; ++i)
    for (Index j = 0; j < 7; ++j) wrong(i, j) = scales(a, 1e-6)(i) * ga(i, j) * gammas(j);
  fails("gx = r g gamma, as if r were constant", wrong, large.gradients[0]);

  const Order order = {2, 0, 3, 1};
  const Library moved = rms_norm({columns(x, order), columns(gamma, order)}, columns(g, order), 0);
  holds("y of permuted columns, gamma with them", moved.y, columns(y, order));
  holds("gx of permuted columns", moved.gradients[0], columns(gradients.x, order));
  holds("ggamma moves as gamma does", moved.gradients[1], columns(gradients.gamma, order));
  fails("y of permuted columns, gamma where it was", rms_norm({columns(x, order), gamma}, g, 0).y, columns(y, order));

  double inner = 0, total = 0;
  for (Index j = 0; j < 4; ++j) inner += gradients.x(1, j) * x(1, j);
  for (Index j = 0; j < 4; ++j) total += gradients.x(1, j);
  show("inner product of the second rows of gx and x", inner);
  show("sum of the second row of gx", total);
  return verdict();
}
