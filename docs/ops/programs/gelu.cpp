// GELU, y = x Phi(x), and its gradient, by plain loops and by the library.

#include "page.h"

#include <numbers>

using namespace page;

namespace {

double distribution(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi); }

Array forward(const Array& x) {
  Array y(x.extents());
  for (std::size_t i = 0; i < y.values().size(); ++i) y.values()[i] = x.values()[i] * distribution(x.values()[i]);
  return y;
}

Array backward(const Array& x, const Array& g) {
  Array gx(x.extents());
  for (std::size_t i = 0; i < gx.values().size(); ++i) {
    const double at = x.values()[i];
    gx.values()[i] = g.values()[i] * (distribution(at) + at * density(at));
  }
  return gx;
}

/// The approximation with tanh, as the library's gelu_tanh.
double tanh_form(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

eg::Tensor gelu(const std::vector<eg::Tensor>& in) { return eg::gelu(in[0]); }

} // namespace

int main() {
  const Array x({1, 5}, {-2, -1, 0, 1, 2}), g({1, 5}, {1, 1, 1, 1, 1});
  const Array y = forward(x), gx = backward(x, g);
  show("x", x);
  show("y", y);
  show("g", g);
  show("gx", gx);

  const Array a = normal({4, 6}), ga = normal({4, 6});
  const Library small = library(gelu, {x}, g), large = library(gelu, {a}, ga);
  holds("y", y, small.y);
  holds("gx", gx, small.gradients[0]);
  holds("y of 4 x 6 numbers", forward(a), large.y);
  holds("gx of 4 x 6 numbers", backward(a, ga), large.gradients[0]);
  Array wrong(a.extents());
  for (std::size_t i = 0; i < wrong.values().size(); ++i)
    wrong.values()[i] = ga.values()[i] * distribution(a.values()[i]);
  fails("gx = g Phi(x), without the second term", wrong, large.gradients[0]);

  const Order order = {2, 0, 1, 5, 3, 4}, swap = {1, 3, 0, 2};
  const Library moved = library(gelu, {rows(columns(a, order), swap)}, rows(columns(ga, order), swap));
  holds("y of permuted rows and columns", moved.y, rows(columns(large.y, order), swap));
  holds("gx of permuted rows and columns", moved.gradients[0], rows(columns(large.gradients[0], order), swap));
  fails("y stays where it was", moved.y, large.y);

  double least = 0;
  for (double step = 0.5; step > 1e-12; step /= 2) // walk downhill from -0.5, halving the step when it goes too far
    while (backward(Array({1}, {-0.5 - least - step}), Array({1}, {1})).values()[0] > 0) least += step;
  const double at = -0.5 - least;
  show("the least value is at x", at);
  show("and is", at * distribution(at));
  double worst = 0;
  for (int i = -5000; i <= 5000; ++i)
    worst = std::max(worst, std::abs(tanh_form(0.001 * i) - 0.001 * i * distribution(0.001 * i)));
  show("largest difference of the tanh form, in units of 0.001", worst / 0.001);
  show("gelu(x) - gelu(-x) at 2", forward(Array({1}, {2})).values()[0] - forward(Array({1}, {-2})).values()[0]);
  return verdict();
}
