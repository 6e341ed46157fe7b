// Softmax of rows and its gradient, by plain loops and by the library.

#include "page.h"

using namespace page;

namespace {

Array forward(const Array& x) {
  Array y(x.extents());
  for (Index i = 0; i < x.extent(0); ++i) {
    double largest = x(i, 0), total = 0;
    for (Index j = 0; j < x.extent(1); ++j) largest = std::max(largest, x(i, j));
    for (Index j = 0; j < x.extent(1); ++j) total += y(i, j) = std::exp(x(i, j) - largest);
    for (Index j = 0; j < x.extent(1); ++j) y(i, j) /= total;
  }
  return y;
}

/// gx = y (g - sum_k g_k y_k), from y alone: x is not needed.
Array backward(const Array& y, const Array& g) {
  Array gx(y.extents());
  for (Index i = 0; i < y.extent(0); ++i) {
    double inner = 0;
    for (Index k = 0; k < y.extent(1); ++k) inner += g(i, k) * y(i, k);
    for (Index j = 0; j < y.extent(1); ++j) gx(i, j) = y(i, j) * (g(i, j) - inner);
  }
  return gx;
}

eg::Tensor softmax(const std::vector<eg::Tensor>& in) { return eg::softmax(in[0], -1); }

} // namespace

int main() {
  const Array x({2, 3}, {0, std::log(2.0), std::log(5.0), 1, 1, 1}), g({2, 3}, {1, 0, 0, 3, 0, 0});
  const Array y = forward(x), gx = backward(y, g);
  show("x", x);
  show("y", y);
  show("g", g);
  show("gx", gx);

  const Array a = normal({5, 7}), ga = normal({5, 7});
  const Library small = library(softmax, {x}, g), large = library(softmax, {a}, ga);
  holds("y", y, small.y);
  holds("gx", gx, small.gradients[0]);
  holds("y of 5 x 7 numbers", forward(a), large.y);
  holds("gx of 5 x 7 numbers", backward(forward(a), ga), large.gradients[0]);
  Array wrong(a.extents());
  for (Index i = 0; i < 5; ++i)
    for (Index j = 0; j < 7; ++j) wrong(i, j) = ga(i, j) * large.y(i, j);
  fails("gx = y g, without the sum", wrong, large.gradients[0]);

  const Order order = {2, 0, 1};
  const Library moved = library(softmax, {columns(x, order)}, columns(g, order));
  holds("y of permuted columns", moved.y, columns(y, order));
  holds("gx of permuted columns", moved.gradients[0], columns(gx, order));
  fails("y stays where it was", moved.y, y);

  const Array big({1, 2}, {1000, 1001});
  show("softmax of 1000 and 1001", forward(big));
  check("exp(1000) is infinite", std::isinf(std::exp(1000.0)));
  show("sum of the first row of gx", gx(0, 0) + gx(0, 1) + gx(0, 2));
  return verdict();
}
