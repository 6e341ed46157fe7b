// Rotary positions and their gradient, by plain loops and by the library.

#include "page.h"

#include <numbers>

using namespace page;

namespace {

/// Pair i of row t, features i and i + half, turns by sign * position[t] * frequency[i].
Array turn(const Array& x, const Order& positions, const std::vector<double>& frequencies, double sign) {
  Array y(x.extents());
  const Index half = x.extent(1) / 2;
  for (Index t = 0; t < x.extent(0); ++t)
    for (Index i = 0; i < half; ++i) {
      const double angle =
          sign * static_cast<double>(positions[static_cast<std::size_t>(t)]) * frequencies[static_cast<std::size_t>(i)];
      y(t, i) = x(t, i) * std::cos(angle) - x(t, i + half) * std::sin(angle);
      y(t, i + half) = x(t, i) * std::sin(angle) + x(t, i + half) * std::cos(angle);
    }
  return y;
}

Library rotary(const Array& x, const Order& positions, const std::vector<double>& frequencies, const Array& g) {
  const eg::Tensor at = eg::Tensor::from(positions, {x.extent(0)});
  return library(
      [&](const std::vector<eg::Tensor>& in) { // one head
        const eg::Tensor heads = eg::reshape(in[0], {x.extent(0), 1, x.extent(1)});
        return eg::reshape(eg::rotary(heads, at, {.frequencies = frequencies}), {x.extent(0), x.extent(1)});
      },
      {x}, g);
}

double inner(const Array& a, const Array& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.values().size(); ++i) total += a.values()[i] * b.values()[i];
  return total;
}

} // namespace

int main() {
  const Array x({3, 4}, {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}), g({3, 4}, {1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0});
  const Order positions = {0, 1, 2};
  const std::vector<double> frequencies = {std::numbers::pi / 2, std::numbers::pi / 3};
  const Array y = turn(x, positions, frequencies, 1), gx = turn(g, positions, frequencies, -1);
  show("x", x);
  show("y", y);
  show("g", g);
  show("gx", gx);

  const Library small = rotary(x, positions, frequencies, g);
  holds("y", y, small.y);
  holds("gx", gx, small.gradients[0]);
  std::vector<double> usual; // base^(-2i / dims)
  for (int i = 0; i < 3; ++i) usual.push_back(std::pow(10000.0, -2.0 * i / 6));
  show("frequencies of 6 features", Array({1, 3}, usual));
  const Array a = normal({4, 6}), ga = normal({4, 6});
  const Order places = {5, 0, 17, 3};
  const Library large = rotary(a, places, usual, ga);
  holds("y of 4 positions", turn(a, places, usual, 1), large.y);
  holds("gx of 4 positions", turn(ga, places, usual, -1), large.gradients[0]);
  fails("gx turned the same way as x", turn(ga, places, usual, 1), large.gradients[0]);
  holds("turned forward and back", turn(large.y, places, usual, -1), a);

  const Array q = rows(a, {0}), k = rows(a, {1});
  const auto score = [&](Index s, Index t) { return inner(turn(q, {s}, usual, 1), turn(k, {t}, usual, 1)); };
  show("score of a query at 5 and a key at 2", score(5, 2));
  show("score of a query at 13 and a key at 10", score(13, 10));
  show("score of a query at 5 and a key at 3", score(5, 3));
  holds("length of y", Array({1}, {inner(y, y)}), Array({1}, {inner(x, x)}));

  const Order order = {2, 0, 3, 1}, moved_places = {17, 5, 3, 0};
  const Library moved = rotary(rows(a, order), moved_places, usual, rows(ga, order));
  holds("y of permuted rows, positions with them", moved.y, rows(large.y, order));
  holds("gx of permuted rows", moved.gradients[0], rows(large.gradients[0], order));
  fails("y of permuted rows, positions as they were", rotary(rows(a, order), places, usual, ga).y,
        rows(large.y, order));
  const Order pairs = {1, 0, 2, 4, 3, 5};
  fails("y of permuted pairs of features", rotary(columns(a, pairs), places, usual, ga).y, columns(large.y, pairs));
  return verdict();
}
