// The mean cross-entropy of rows of logits and its gradient, by plain loops and by the library.

#include "page.h"

using namespace page;

namespace {

/// -log softmax(x)_label of each row, their mean, and softmax(x) for the backward pass.
struct Forward {
  double loss = 0;
  Array losses, p;
};

Forward forward(const Array& x, const Order& labels) {
  Forward result{0, Array({x.extent(0)}), Array(x.extents())};
  for (Index i = 0; i < x.extent(0); ++i) {
    double largest = x(i, 0), total = 0;
    for (Index j = 0; j < x.extent(1); ++j) largest = std::max(largest, x(i, j));
    for (Index j = 0; j < x.extent(1); ++j) total += std::exp(x(i, j) - largest);
    for (Index j = 0; j < x.extent(1); ++j) result.p(i, j) = std::exp(x(i, j) - largest) / total;
    result.losses(i) = largest + std::log(total) - x(i, labels[static_cast<std::size_t>(i)]);
    result.loss += result.losses(i) / static_cast<double>(x.extent(0));
  }
  return result;
}

/// (p - onehot(label)) times what one row's loss weighs in the mean.
Array backward(const Array& p, const Order& labels, double g) {
  Array gx(p.extents());
  for (Index i = 0; i < p.extent(0); ++i)
    for (Index j = 0; j < p.extent(1); ++j) {
      const double t = j == labels[static_cast<std::size_t>(i)] ? 1 : 0;
      gx(i, j) = g / static_cast<double>(p.extent(0)) * (p(i, j) - t);
    }
  return gx;
}

Library cross_entropy(const Array& x, const Order& labels, double g) {
  const eg::Tensor truth = eg::Tensor::from(labels, {x.extent(0)});
  return library([&](const std::vector<eg::Tensor>& in) { return eg::cross_entropy(in[0], truth); }, {x},
                 Array({}, {g}));
}

} // namespace

int main() {
  const Array x({2, 3}, {0, std::log(2.0), std::log(5.0), 1, 1, 1});
  const Order labels = {2, 0};
  const Forward y = forward(x, labels);
  const Array gx = backward(y.p, labels, 1);
  show("logits", x);
  show("p", y.p);
  show("losses", y.losses);
  show("loss", y.loss);
  show("glogits", gx);

  const Library small = cross_entropy(x, labels, 1);
  holds("loss", Array({}, {y.loss}), small.y);
  holds("glogits", gx, small.gradients[0]);
  const Array a = normal({5, 7});
  const Order truth = {3, 0, 6, 6, 1};
  const Forward ya = forward(a, truth);
  const Library large = cross_entropy(a, truth, 0.7);
  holds("loss of 5 rows", Array({}, {ya.loss}), large.y);
  holds("glogits of 5 rows", backward(ya.p, truth, 0.7), large.gradients[0]);
  fails("glogits = p / 5, without the labels", backward(ya.p, {9, 9, 9, 9, 9}, 0.7), large.gradients[0]);

  // Column j of the permuted logits is column order[j]: class c is now where order has c.
  const Order order = {2, 0, 1}, relabelled = {0, 1};
  const Library moved = cross_entropy(columns(x, order), relabelled, 1);
  holds("loss of permuted classes, labels with them", moved.y, small.y);
  holds("glogits of permuted classes", moved.gradients[0], columns(gx, order));
  fails("loss of permuted classes, labels as they were", cross_entropy(columns(x, order), labels, 1).y, small.y);

  const Forward sure = forward(Array({1, 2}, {1000, 0}), {1});
  show("loss of logits 1000 and 0 for the second class", sure.loss);
  show("glogits of these", backward(sure.p, {1}, 1));
  check("log(exp(0) / (exp(1000) + exp(0))) is not finite",
        !std::isfinite(std::log(std::exp(0.0) / (std::exp(1000.0) + std::exp(0.0)))));
  show("loss of 3 equal logits, log 3", forward(Array({1, 3}), {0}).loss);
  return verdict();
}
