// A convolution of images and its gradients, by plain loops and by the library.

#include "page.h"

using namespace page;

namespace {

struct Window {
  Index stride = 1, padding = 0;
};

/// Calls use(n, o, i, j, c, u, v, r, q) for every product of the convolution: output (n, o, i, j), tap (o, c, u, v) and
/// pixel (n, c, r, q); pixels outside the image are 0 and left out.
template <class F> void for_each_product(const Array& x, const Array& w, const Array& y, Window window, F&& use) {
  for (Index n = 0; n < y.extent(0); ++n)
    for (Index o = 0; o < y.extent(1); ++o)
      for (Index i = 0; i < y.extent(2); ++i)
        for (Index j = 0; j < y.extent(3); ++j)
          for (Index c = 0; c < w.extent(1); ++c)
            for (Index u = 0; u < w.extent(2); ++u)
              for (Index v = 0; v < w.extent(3); ++v) {
                const Index r = i * window.stride - window.padding + u, q = j * window.stride - window.padding + v;
                if (r >= 0 && r < x.extent(2) && q >= 0 && q < x.extent(3)) use(n, o, i, j, c, u, v, r, q);
              }
}

Array forward(const Array& x, const Array& w, const Array& b, Window window) {
  const auto size = [&](std::size_t axis) {
    return (x.extent(axis) + 2 * window.padding - w.extent(axis)) / window.stride + 1;
  };
  Array y({x.extent(0), w.extent(0), size(2), size(3)});
  for (Index n = 0; n < y.extent(0); ++n)
    for (Index o = 0; o < y.extent(1); ++o)
      for (Index i = 0; i < y.extent(2); ++i)
        for (Index j = 0; j < y.extent(3); ++j) y(n, o, i, j) = b(o);
  for_each_product(x, w, y, window,
                   [&](Index n, Index o, Index i, Index j, Index c, Index u, Index v, Index r, Index q) {
                     y(n, o, i, j) += w(o, c, u, v) * x(n, c, r, q);
                   });
  return y;
}

struct Gradients {
  Array x, w, b;
};

/// The same walk: each product hands the cotangent of its output to both its factors.
Gradients backward(const Array& x, const Array& w, const Array& g, Window window) {
  Gradients sums{Array(x.extents()), Array(w.extents()), Array({w.extent(0)})};
  for_each_product(x, w, g, window,
                   [&](Index n, Index o, Index i, Index j, Index c, Index u, Index v, Index r, Index q) {
                     sums.x(n, c, r, q) += w(o, c, u, v) * g(n, o, i, j);
                     sums.w(o, c, u, v) += g(n, o, i, j) * x(n, c, r, q);
                   });
  for (Index n = 0; n < g.extent(0); ++n)
    for (Index o = 0; o < g.extent(1); ++o)
      for (Index i = 0; i < g.extent(2); ++i)
        for (Index j = 0; j < g.extent(3); ++j) sums.b(o) += g(n, o, i, j);
  return sums;
}

Library conv2d(const Array& x, const Array& w, const Array& b, const Array& g, Window window) {
  const eg::Conv2dOptions options{.stride = {window.stride, window.stride},
                                  .padding = {window.padding, window.padding}};
  return library([&](const std::vector<eg::Tensor>& in) { return eg::conv2d(in[0], in[1], in[2], options); }, {x, w, b},
                 g);
}

} // namespace

int main() {
  const Array x({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}), w({1, 1, 2, 2}, {1, 2, 0, -1}), b({1}, {0});
  const Array g({1, 1, 2, 2}, {1, 0, 2, -1});
  const Array y = forward(x, w, b, {});
  const Gradients sums = backward(x, w, g, {});
  show("x", x);
  show("w", w);
  show("y", y);
  show("g", g);
  show("gx", sums.x);
  show("gw", sums.w);
  show("gb", sums.b);

  const Library small = conv2d(x, w, b, g, {});
  holds("y", y, small.y);
  holds("gx", sums.x, small.gradients[0]);
  holds("gw", sums.w, small.gradients[1]);
  holds("gb", sums.b, small.gradients[2]);
  const Window window{.stride = 2, .padding = 1};
  const Array a = normal({2, 3, 6, 5}), wa = normal({4, 3, 3, 2}), ba = normal({4}), ga = normal({2, 4, 3, 3});
  const Gradients loops = backward(a, wa, ga, window);
  const Library large = conv2d(a, wa, ba, ga, window);
  holds("y with stride 2 and padding 1", forward(a, wa, ba, window), large.y);
  holds("gx with stride 2 and padding 1", loops.x, large.gradients[0]);
  holds("gw with stride 2 and padding 1", loops.w, large.gradients[1]);
  holds("gb with stride 2 and padding 1", loops.b, large.gradients[2]);
  fails("gw from the first image alone", backward(rows(a, {0}), wa, rows(ga, {0}), window).w, large.gradients[1]);

  const Order order = {2, 0, 3, 1};
  const Array gb = normal({2, 4, 3, 3});
  const Library plain = conv2d(a, wa, ba, gb, window);
  const auto channels = [&](const Array& images) { // permutes axis 1
    Array moved(images.extents());
    for (Index n = 0; n < 2; ++n)
      for (Index o = 0; o < 4; ++o)
        for (Index i = 0; i < 3; ++i)
          for (Index j = 0; j < 3; ++j) moved(n, o, i, j) = images(n, order[static_cast<std::size_t>(o)], i, j);
    return moved;
  };
  const Library moved = conv2d(a, rows(wa, order), rows(ba, order), channels(gb), window);
  holds("y of permuted output channels", moved.y, channels(plain.y));
  holds("gx of permuted output channels", moved.gradients[0], plain.gradients[0]);
  holds("gw moves as w does", moved.gradients[1], rows(plain.gradients[1], order));
  fails("y of permuted output channels, without moving it", moved.y, plain.y);
  const Order mirror = {2, 1, 0};
  const Array c = normal({1, 1, 3, 3});
  fails("y of an image with its columns reversed", conv2d(columns(c, mirror), w, b, g, {}).y,
        columns(forward(c, w, b, {}), {1, 0}));
  const Array turned({1, 1, 2, 2}, {-1, 0, 2, 1}); // w with both axes reversed
  holds("gx is a convolution of g, padded, by the reversed w", forward(g, turned, b, {.stride = 1, .padding = 1}),
        sums.x);
  return verdict();
}
