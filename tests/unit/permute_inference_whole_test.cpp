// Models of which an inference once knew too little: each with its whole group, whose generators commute with the model
// and move gradients along.

#include "core/meta.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "permute/symmetries.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

using namespace eg;
using namespace eg::permute;

namespace {

using Tensors = std::vector<Tensor>;
using Model = std::function<Tensor(const Tensors&)>;

Tensor general(const Shape& shape, std::uint64_t tag) { return random_normal(shape, {tag, 6}, 0.2, 1.0, DType::f64); }
Tensor numbers(const std::vector<std::int64_t>& list, const Shape& shape) { return Tensor::from(list, shape); }
Tensor reals(const std::vector<double>& list, const Shape& shape) { return Tensor::from(list, shape); }

Tensors tensors_of(const nn::StateDict& list) {
  Tensors tensors;
  for (const auto& [name, tensor] : list) tensors.push_back(tensor);
  return tensors;
}

/// The order of the inferred group of a function of leaves of these shapes, read from shapes alone, once it is
/// certified.
double order_of(const std::vector<Shape>& shapes, const Model& f) {
  nn::StateDict leaves, seen;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    leaves.emplace_back("x" + std::to_string(i), general(shapes[i], i + 1));
    seen.emplace_back(leaves.back().first, Tensor::meta(shapes[i], DType::f64));
  }
  const auto run = [&](const nn::StateDict& list) -> nn::StateDict { return {{"y", f(tensors_of(list))}}; };
  const auto read = [&] {
    const MetaCallScope shapes_alone;
    return ModelSymmetries({.parameters = seen, .inputs = {}, .run = [&] { return run(seen); }});
  };
  const ModelSymmetries s = read();
  CHECK_NOTHROW(s.certify(run, leaves));
  double bits = 0.0;
  for (const SymmetryGroup& g : s.groups()) bits += g.log2_count;
  return std::round(std::exp2(bits) * 1e6) / 1e6;
}

} // namespace

TEST_CASE("rows that are repeated move with their copies, and copies change places") {
  const Model f = [](const Tensors& v) { return repeat_interleave(v[0], 2, 1); };
  CHECK(order_of({{3, 2}}, f) == 2 * 6 * 6 * 4); // columns, the rows of each, the two copies of each
}

TEST_CASE("an axis that is cut into other blocks than it was joined from") {
  const Model halves = [](const Tensors& v) { return reshape(v[0], {2, 4}); };
  CHECK(order_of({{4, 2}}, halves) == 2 * 4 * 16); // the halves, two rows of each, two columns of each row
  const Model between = [](const Tensors& v) { return reshape(v[0], {3, 2}); };
  CHECK(order_of({{2, 3}}, between) == 2 * 4); // all the other way round, the first and the last two elements
}

TEST_CASE("a constant table: rows and columns that go with each other") {
  const Tensor diagonal = reals({1, 0, 0, 0, 1, 0, 0, 0, 1}, {3, 3});
  CHECK(order_of({{3, 3}}, [&](const Tensors& v) { return v[0] * diagonal; }) == 6);
  const Tensor circle = reals({0, 2, 1, 1, 0, 2, 2, 1, 0}, {3, 3});
  CHECK(order_of({{3, 3}}, [&](const Tensors& v) { return v[0] + circle; }) == 3);
  const Tensor other = reals({2, 2, 1, 2, 1, 2}, {2, 3});
  CHECK(order_of({{2, 3}}, [&](const Tensors& v) { return v[0] + other; }) == 2);
  // Two tables of one axis: the group that keeps both.
  const Tensor columns = reals({0, 0, 1}, {3});
  CHECK(order_of({{3, 3}}, [&](const Tensors& v) { return v[0] * diagonal + columns; }) == 2);
  const Tensor cube = reals({0, 1, 1, 0, 1, 0, 0, 1}, {2, 2, 2});
  CHECK(order_of({{2, 2, 2}}, [&](const Tensors& v) { return v[0] + cube; }) ==
        4); // exchanges of an even number of axes
}

TEST_CASE("a table whose axes are blocks: what can be exchanged by itself moves") {
  const Tensor table = reals({0, 0, 1, 1}, {4});
  const Model f = [&](const Tensors& v) { return reshape(v[0] * table, {2, 2}); };
  CHECK(order_of({{4}}, f) == 4);
}

TEST_CASE("triangles and causal rows that see the same") {
  CHECK(order_of({{3, 2}}, [](const Tensors& v) { return tril(v[0], 0); }) == 2);      // the last two rows
  CHECK(order_of({{4, 4}}, [](const Tensors& v) { return triu(v[0], -2); }) == 6 * 6); // of all but row 3 and column 0
  CHECK(order_of({{2, 4}}, [](const Tensors& v) { return masked_softmax(v[0], {}, true); }) == 6);
}

TEST_CASE("a number added to a whole row of a mask is not seen") {
  const Tensor mask = reals({0, 1, 0, 5}, {4, 1});
  CHECK(order_of({{4, 3}}, [&](const Tensors& v) { return masked_softmax(v[0], mask); }) == 24 * 6 * 6 * 6 * 6);
  const double closed = -std::numeric_limits<double>::infinity();
  const Tensor rows = reals({0, closed, 2, closed, closed, 7}, {3, 2});
  CHECK(order_of({{3, 2}}, [&](const Tensors& v) { return masked_softmax(v[0], rows); }) == 2);
}

TEST_CASE("constant labels: classes move with the rows that name them") {
  const Tensor labels = numbers({2, -100, 0, -100, 3}, {5});
  CHECK(order_of({{5, 4}}, [&](const Tensors& v) { return cross_entropy(v[0], labels, 0.1, -100, "none"); }) == 2 * 6);
  const Tensor places = numbers({2, 0, 1}, {3});
  CHECK(order_of({{3}}, [&](const Tensors& v) { return gather(v[0], 0, places); }) == 6);
  const Tensor table = numbers({0, 1, 1, 0}, {2, 2});
  CHECK(order_of({{2, 2}}, [&](const Tensors& v) { return gather(v[0], 1, table); }) == 4);
}

TEST_CASE("one tensor joined with itself: its places can be exchanged") {
  const Model f = [](const Tensors& v) { return linear(concat({v[0], v[0]}, 0), v[1]); };
  CHECK(order_of({{2}, {4, 4}}, f) == 24 * 2 * 4);
  CHECK(order_of({{3}}, [](const Tensors& v) { return stack({v[0], v[0]}, 0); }) == 6 * 2);
  const Model others = [](const Tensors& v) { return concat({v[0], tanh(v[0])}, 0); };
  CHECK(order_of({{3}}, others) == 6); // of two functions they cannot
}

TEST_CASE("an axis added to itself in another order") {
  CHECK(order_of({{6}}, [](const Tensors& v) { return v[0] * flip(v[0], {0}); }) == 48); // S_2 wr S_3
  CHECK(order_of({{5}}, [](const Tensors& v) { return v[0] + 2.0 * roll(v[0], {1}, {0}); }) == 5);
}

TEST_CASE("equal elements: their order is of no matter where places are not read") {
  const Model sorted = [](const Tensors& v) { return sort(pad(v[0], 0, 1, 0), 0).values; };
  CHECK(order_of({{4}}, sorted) == 24);
}

TEST_CASE("factors of products of all others, and dropout of nothing") {
  CHECK(order_of({{4}}, [](const Tensors& v) { return prod_of_others(v[0], 0); }) == 24);
  CHECK(order_of({{3, 2}}, [](const Tensors& v) {
          return dropout(v[0], 0.0, {1, 2});
        }) == 6 * 8); // columns of each row
  CHECK(order_of({{3}}, [](const Tensors& v) { return drop_path(v[0], 0.0, {1, 2}); }) == 6);
  // What one key drops alike, the next one does not.
  CHECK(order_of({{3}}, [](const Tensors& v) { return dropout(v[0], 0.5, {1, 2}); }) == 1);
}

TEST_CASE("tables that are too large for a search move by equal slices, at once") {
  const auto table = [](std::int64_t n, const std::function<bool(std::int64_t, std::int64_t)>& is_one) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) values.push_back(is_one(i, j) ? 1.0 : 0.0);
    return Tensor::from(values, {n, n});
  };
  const auto bits_of = [](const Tensor& constant) {
    const MetaCallScope shapes_alone;
    const Tensor x = Tensor::meta(constant.shape(), DType::f64);
    const ModelSymmetries s({.parameters = {}, .inputs = {{"x", x}}, .run = [&] {
                               return nn::StateDict{{"y", x * constant}};
                             }});
    double bits = 0.0;
    for (const SymmetryGroup& g : s.groups()) bits += g.log2_count;
    return bits;
  };
  CHECK(bits_of(table(300, [](auto i, auto j) { return i == j; })) == 0.0);
  CHECK(bits_of(table(300, [](auto i, auto j) { return i / 2 == j / 2; })) == doctest::Approx(300.0)); // in each pair
  CHECK(bits_of(random_normal({500, 700}, {1, 2}, 0.0, 1.0, DType::f64)) == 0.0);
}
