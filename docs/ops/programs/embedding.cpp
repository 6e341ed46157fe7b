// An embedding, y = rows of a table, and its gradient, by plain loops and by the library.

#include "page.h"

using namespace page;

namespace {

Array forward(const Array& table, const Order& ids) {
  Array y({static_cast<Index>(ids.size()), table.extent(1)});
  for (Index i = 0; i < y.extent(0); ++i)
    for (Index c = 0; c < y.extent(1); ++c) y(i, c) = table(ids[static_cast<std::size_t>(i)], c);
  return y;
}

/// Each row of the cotangent is added where the row of the table was read.
Array backward(Index words, const Order& ids, const Array& g) {
  Array gw({words, g.extent(1)});
  for (Index i = 0; i < g.extent(0); ++i)
    for (Index c = 0; c < g.extent(1); ++c) gw(ids[static_cast<std::size_t>(i)], c) += g(i, c);
  return gw;
}

Library embedding(const Array& table, const Order& ids, const Array& g) {
  const eg::Tensor places = eg::Tensor::from(ids, {static_cast<Index>(ids.size())});
  return library([&](const std::vector<eg::Tensor>& in) { return eg::embedding(in[0], places); }, {table}, g);
}

} // namespace

int main() {
  const Array table({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), g({3, 2}, {1, 0, 0, 1, 2, 3});
  const Order ids = {2, 0, 2};
  const Array y = forward(table, ids), gw = backward(4, ids, g);
  show("W", table);
  show("y", y);
  show("g", g);
  show("gW", gw);

  const Library small = embedding(table, ids, g);
  holds("y", y, small.y);
  holds("gW", gw, small.gradients[0]);
  const Array words = normal({9, 5}), ga = normal({6, 5});
  const Order text = {3, 3, 0, 8, 3, 1};
  const Library large = embedding(words, text, ga);
  holds("y of 6 words", forward(words, text), large.y);
  holds("gW of 6 words", backward(9, text, ga), large.gradients[0]);
  Array overwritten({9, 5});
  for (Index i = 0; i < 6; ++i)
    for (Index c = 0; c < 5; ++c) overwritten(text[static_cast<std::size_t>(i)], c) = ga(i, c);
  fails("gW with = in place of +=", overwritten, large.gradients[0]);

  // y = onehot(ids) W: the table's gradient is onehot(ids)^T g.
  Array onehot({3, 4});
  for (Index i = 0; i < 3; ++i) onehot(i, ids[static_cast<std::size_t>(i)]) = 1;
  const Library product =
      library([](const std::vector<eg::Tensor>& in) { return eg::matmul(in[0], in[1]); }, {onehot, table}, g);
  show("onehot(ids)", onehot);
  holds("y as a product", product.y, y);
  holds("gW as a product", product.gradients[1], gw);

  // Row v of the permuted table is row order[v]: word w is now where order has w.
  const Order order = {2, 0, 3, 1}, renamed = {0, 1, 0};
  const Library moved = embedding(rows(table, order), renamed, g);
  holds("y of permuted words, ids with them", moved.y, y);
  holds("gW moves as the table does", moved.gradients[0], rows(gw, order));
  fails("y of permuted words, ids as they were", embedding(rows(table, order), ids, g).y, y);
  const Order swap = {1, 0};
  holds("gW of permuted features", embedding(columns(table, swap), ids, columns(g, swap)).gradients[0],
        columns(gw, swap));
  show("sum of gW less sum of g", sum(gw) - sum(g));
  return verdict();
}
