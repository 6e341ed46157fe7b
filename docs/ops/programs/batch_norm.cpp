// Batch norm of the columns of a batch and its gradients, by plain loops and by the library.

#include "page.h"

using namespace page;

namespace {

struct Statistics {
  Array mean, variance;
};

Statistics statistics(const Array& x) {
  Statistics s{Array({x.extent(1)}), Array({x.extent(1)})};
  const auto n = static_cast<double>(x.extent(0));
  for (Index c = 0; c < x.extent(1); ++c) {
    for (Index i = 0; i < x.extent(0); ++i) s.mean(c) += x(i, c) / n;
    for (Index i = 0; i < x.extent(0); ++i) s.variance(c) += (x(i, c) - s.mean(c)) * (x(i, c) - s.mean(c)) / n;
  }
  return s;
}

Array normalised(const Array& x, const Statistics& s, double eps) {
  Array xh(x.extents());
  for (Index i = 0; i < x.extent(0); ++i)
    for (Index c = 0; c < x.extent(1); ++c) xh(i, c) = (x(i, c) - s.mean(c)) / std::sqrt(s.variance(c) + eps);
  return xh;
}

Array forward(const Array& x, const Array& gamma, const Array& beta, double eps) {
  Array y = normalised(x, statistics(x), eps);
  for (Index i = 0; i < x.extent(0); ++i)
    for (Index c = 0; c < x.extent(1); ++c) y(i, c) = y(i, c) * gamma(c) + beta(c);
  return y;
}

struct Gradients {
  Array x, gamma, beta;
};

Gradients backward(const Array& x, const Array& gamma, const Array& g, double eps) {
  const Statistics s = statistics(x);
  const Array xh = normalised(x, s, eps);
  Gradients result{Array(x.extents()), Array({x.extent(1)}), Array({x.extent(1)})};
  const auto n = static_cast<double>(x.extent(0));
  for (Index c = 0; c < x.extent(1); ++c) {
    for (Index i = 0; i < x.extent(0); ++i) result.beta(c) += g(i, c);
    for (Index i = 0; i < x.extent(0); ++i) result.gamma(c) += g(i, c) * xh(i, c);
    const double factor = gamma(c) / std::sqrt(s.variance(c) + eps);
    for (Index i = 0; i < x.extent(0); ++i) // the two means are sums that are there already
      result.x(i, c) = factor * (g(i, c) - result.beta(c) / n - xh(i, c) * result.gamma(c) / n);
  }
  return result;
}

Library batch_norm(const std::vector<Array>& inputs, const Array& g, double eps) {
  return library([&](const std::vector<eg::Tensor>& in) { return eg::batch_norm(in[0], in[1], in[2], eps).y; }, inputs,
                 g);
}

} // namespace

int main() {
  const Array x({4, 2}, {1, 0, 1, 4, 3, 4, 3, 0}), gamma({2}, {2, 4}), beta({2}, {0, 1});
  const Array g({4, 2}, {1, 0, 0, 1, 0, 0, 0, 0});
  const Array y = forward(x, gamma, beta, 0);
  const Gradients gradients = backward(x, gamma, g, 0);
  show("x", x);
  show("mean", statistics(x).mean);
  show("variance", statistics(x).variance);
  show("y", y);
  show("g", g);
  show("gx", gradients.x);
  show("ggamma", gradients.gamma);
  show("gbeta", gradients.beta);

  const Library small = batch_norm({x, gamma, beta}, g, 0);
  holds("y", y, small.y);
  holds("gx", gradients.x, small.gradients[0]);
  holds("ggamma", gradients.gamma, small.gradients[1]);
  holds("gbeta", gradients.beta, small.gradients[2]);
  const Array a = normal({6, 3}), gammas = normal({3}), betas = normal({3}), ga = normal({6, 3});
  const Gradients loops = backward(a, gammas, ga, 1e-5);
  const Library large = batch_norm({a, gammas, betas}, ga, 1e-5);
  holds("y of 6 samples", forward(a, gammas, betas, 1e-5), large.y);
  holds("gx of 6 samples", loops.x, large.gradients[0]);
  holds("ggamma of 6 samples", loops.gamma, large.gradients[1]);
  Array wrong(a.extents());
  for (Index i = 0; i < 6; ++i)
    for (Index c = 0; c < 3; ++c) wrong(i, c) = gammas(c) / std::sqrt(statistics(a).variance(c) + 1e-5) * ga(i, c);
  fails("gx = gamma r g, as if the statistics were constant", wrong, large.gradients[0]);

  const Order order = {3, 0, 2, 1}, swap = {1, 0};
  const Library moved = batch_norm({rows(x, order), gamma, beta}, rows(g, order), 0);
  holds("y of permuted samples", moved.y, rows(y, order));
  holds("gx of permuted samples", moved.gradients[0], rows(gradients.x, order));
  holds("ggamma stays where it is", moved.gradients[1], gradients.gamma);
  const Library channels =
      batch_norm({columns(x, swap), columns(gamma, swap), columns(beta, swap)}, columns(g, swap), 0);
  holds("gx of permuted channels, gamma with them", channels.gradients[0], columns(gradients.x, swap));
  fails("y of permuted channels, gamma where it was", batch_norm({columns(x, swap), gamma, beta}, g, 0).y,
        columns(y, swap));

  Array other = x;
  other(3, 0) = 7;
  show("y of the first sample, when the last sample changes from 3 to 7", forward(other, gamma, beta, 0)(0, 0));
  const Array fixed = normalised(x, {Array({2}, {0, 0}), Array({2}, {1, 1})}, 0);
  show("xh by running statistics 0 and 1", rows(fixed, {0}));
  return verdict();
}
