// A linear layer y = x W^T + b and its gradients, by plain loops and by the library.

#include "page.h"

using namespace page;

namespace {

Array forward(const Array& x, const Array& w, const Array& b) {
  Array y({x.extent(0), w.extent(0)});
  for (Index r = 0; r < x.extent(0); ++r)
    for (Index o = 0; o < w.extent(0); ++o) {
      y(r, o) = b(o);
      for (Index i = 0; i < w.extent(1); ++i) y(r, o) += x(r, i) * w(o, i);
    }
  return y;
}

struct Gradients {
  Array x, w, b;
};

/// One walk over the products of the forward pass: each hands its cotangent to both its factors.
Gradients backward(const Array& x, const Array& w, const Array& g) {
  Gradients sums{Array(x.extents()), Array(w.extents()), Array({w.extent(0)})};
  for (Index r = 0; r < x.extent(0); ++r)
    for (Index o = 0; o < w.extent(0); ++o) {
      sums.b(o) += g(r, o);
      for (Index i = 0; i < w.extent(1); ++i) {
        sums.x(r, i) += g(r, o) * w(o, i);
        sums.w(o, i) += g(r, o) * x(r, i);
      }
    }
  return sums;
}

eg::Tensor linear(const std::vector<eg::Tensor>& in) { return eg::linear(in[0], in[1], in[2]); }

} // namespace

int main() {
  const Array x({2, 3}, {1, 2, 3, 0, 1, -1}), w({2, 3}, {1, 0, 2, -1, 1, 0}), b({2}, {0.5, -1});
  const Array g({2, 2}, {1, 2, 0, -1});
  const Array y = forward(x, w, b);
  const Gradients sums = backward(x, w, g);
  show("x", x);
  show("W", w);
  show("b", b);
  show("y", y);
  show("g", g);
  show("gx", sums.x);
  show("gW", sums.w);
  show("gb", sums.b);

  const Library small = library(linear, {x, w, b}, g);
  holds("y", y, small.y);
  holds("gx", sums.x, small.gradients[0]);
  holds("gW", sums.w, small.gradients[1]);
  holds("gb", sums.b, small.gradients[2]);
  const Array a = normal({5, 7}), wa = normal({4, 7}), ba = normal({4}), ga = normal({5, 4});
  const Gradients loops = backward(a, wa, ga);
  const Library large = library(linear, {a, wa, ba}, ga);
  holds("y of 5 rows", forward(a, wa, ba), large.y);
  holds("gx of 5 rows", loops.x, large.gradients[0]);
  holds("gW of 5 rows", loops.w, large.gradients[1]);
  holds("gb of 5 rows", loops.b, large.gradients[2]);
  fails("gW from the first row alone", backward(rows(a, {0}), wa, rows(ga, {0})).w, large.gradients[1]);

  const Order order = {2, 0, 1}, swap = {1, 0};
  const Library moved =
      library(linear, {columns(x, order), columns(rows(w, swap), order), columns(b, swap)}, columns(g, swap));
  holds("y of permuted columns and permuted weights", moved.y, columns(y, swap));
  holds("gx of permuted columns and permuted weights", moved.gradients[0], columns(sums.x, order));
  holds("gW moves as W does", moved.gradients[1], columns(rows(sums.w, swap), order));
  fails("y of permuted columns and plain weights", library(linear, {columns(x, order), w, b}, g).y, y);
  return verdict();
}
