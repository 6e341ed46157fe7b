// Attention y = softmax(c q k^T) v and its gradients, by plain loops and by the library.

#include "page.h"

using namespace page;

namespace {

/// S = softmax(c q k^T), a row for each query.
Array weights(const Array& q, const Array& k, double c) {
  Array s({q.extent(0), k.extent(0)});
  for (Index i = 0; i < q.extent(0); ++i) {
    double largest = -INFINITY, total = 0;
    for (Index j = 0; j < k.extent(0); ++j) {
      for (Index d = 0; d < q.extent(1); ++d) s(i, j) += c * q(i, d) * k(j, d);
      largest = std::max(largest, s(i, j));
    }
    for (Index j = 0; j < k.extent(0); ++j) total += s(i, j) = std::exp(s(i, j) - largest);
    for (Index j = 0; j < k.extent(0); ++j) s(i, j) /= total;
  }
  return s;
}

Array forward(const Array& s, const Array& v) {
  Array y({s.extent(0), v.extent(1)});
  for (Index i = 0; i < s.extent(0); ++i)
    for (Index j = 0; j < v.extent(0); ++j)
      for (Index d = 0; d < v.extent(1); ++d) y(i, d) += s(i, j) * v(j, d);
  return y;
}

struct Gradients {
  Array q, k, v, e;
};

Gradients backward(const Array& q, const Array& k, const Array& v, const Array& s, const Array& y, const Array& g,
                   double c) {
  Gradients result{Array(q.extents()), Array(k.extents()), Array(v.extents()), Array(s.extents())};
  for (Index i = 0; i < q.extent(0); ++i) {
    double inner = 0; // of g_i and y_i: the sum that softmax needs
    for (Index d = 0; d < v.extent(1); ++d) inner += g(i, d) * y(i, d);
    for (Index j = 0; j < k.extent(0); ++j) {
      double slope = 0; // of the loss by S_ij
      for (Index d = 0; d < v.extent(1); ++d) slope += g(i, d) * v(j, d);
      result.e(i, j) = s(i, j) * (slope - inner);
      for (Index d = 0; d < q.extent(1); ++d) result.q(i, d) += c * result.e(i, j) * k(j, d);
      for (Index d = 0; d < q.extent(1); ++d) result.k(j, d) += c * result.e(i, j) * q(i, d);
      for (Index d = 0; d < v.extent(1); ++d) result.v(j, d) += s(i, j) * g(i, d);
    }
  }
  return result;
}

Library attention(const Array& q, const Array& k, const Array& v, const Array& g, double c) {
  return library(
      [&](const std::vector<eg::Tensor>& in) { return eg::scaled_dot_product_attention(in[0], in[1], in[2], c); },
      {q, k, v}, g);
}

} // namespace

int main() {
  const Array q({2, 2}, {1, 0, 0, 0}), k({3, 2}, {0, 1, std::log(2.0), 0, std::log(5.0), -1});
  const Array v({3, 2}, {1, 0, 0, 1, 1, 1}), g({2, 2}, {1, 0, 0, 1});
  const Array s = weights(q, k, 1), y = forward(s, v);
  const Gradients gradients = backward(q, k, v, s, y, g, 1);
  show("q", q);
  show("k", k);
  show("v", v);
  show("S", s);
  show("y", y);
  show("g", g);
  show("gE", gradients.e);
  show("gq", gradients.q);
  show("gk", gradients.k);
  show("gv", gradients.v);

  const Library small = attention(q, k, v, g, 1);
  holds("y", y, small.y);
  holds("gq", gradients.q, small.gradients[0]);
  holds("gk", gradients.k, small.gradients[1]);
  holds("gv", gradients.v, small.gradients[2]);
  const Array qa = normal({5, 4}), ka = normal({6, 4}), va = normal({6, 3}), ga = normal({5, 3});
  const Array sa = weights(qa, ka, 0.5), ya = forward(sa, va);
  const Gradients loops = backward(qa, ka, va, sa, ya, ga, 0.5);
  const Library large = attention(qa, ka, va, ga, 0.5);
  holds("y of 5 queries", ya, large.y);
  holds("gq of 5 queries", loops.q, large.gradients[0]);
  holds("gk of 5 queries", loops.k, large.gradients[1]);
  holds("gv of 5 queries", loops.v, large.gradients[2]);
  fails("gq without the sum of the softmax", backward(qa, ka, va, sa, Array(ya.extents()), ga, 0.5).q,
        large.gradients[0]);

  const Order order = {2, 0, 1}, swap = {1, 0};
  const Library keys = attention(q, rows(k, order), rows(v, order), g, 1);
  holds("y of permuted keys and values", keys.y, y);
  holds("gk of permuted keys and values", keys.gradients[1], rows(gradients.k, order));
  holds("gv of permuted keys and values", keys.gradients[2], rows(gradients.v, order));
  const Library queries = attention(rows(q, swap), k, v, rows(g, swap), 1);
  holds("y of permuted queries", queries.y, rows(y, swap));
  holds("gq of permuted queries", queries.gradients[0], rows(gradients.q, swap));
  holds("gk of permuted queries", queries.gradients[1], gradients.k);
  const Library inner = attention(columns(q, swap), columns(k, swap), v, g, 1);
  holds("y of permuted features of q and k", inner.y, y);
  holds("gq of permuted features", inner.gradients[0], columns(gradients.q, swap));
  holds("gk of permuted features", inner.gradients[1], columns(gradients.k, swap));
  fails("y of permuted keys, values where they were", attention(q, rows(k, order), v, g, 1).y, y);
  return verdict();
}
