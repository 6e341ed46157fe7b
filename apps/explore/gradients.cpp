// The page "gradients": a gradient moves by the inverse transpose of what moves its weight.

#include "apps/explore/pages.h"
#include "apps/explore/small_block.h"

#include "core/ops.h"

#include <cmath>
#include <fmt/format.h>

namespace eg::explore {

using nlohmann::json;
using permute::Permutation;

namespace {

/// A = D R P and its inverse P^T R^T D^-1: P a permutation, R turns pairs of neighbours, D scales rows.
struct Map {
  Tensor map, inverse;
};

/// `turn` in radians; row i is scaled by 1 + stretch (i + 1) / size.
Map map_of(const Permutation& p, double turn, double stretch) {
  const std::int64_t size = p.size();
  const auto at = [size](std::int64_t i, std::int64_t j) { return static_cast<std::size_t>(i * size + j); };
  std::vector<double> map(static_cast<std::size_t>(size * size)), inverse(map.size());
  const double c = std::cos(turn), s = std::sin(turn);
  for (std::int64_t i = 0; i < size; ++i) {
    const double scale = 1.0 + stretch * static_cast<double>(i + 1) / static_cast<double>(size);
    const bool alone = i % 2 == 0 && i + 1 == size; // an odd size leaves the last row without a partner
    const std::int64_t partner = i % 2 == 0 ? i + 1 : i - 1;
    // Row i of R P is c e_p(i) -+ s e_p(partner).
    map[at(i, p[i])] = scale * (alone ? 1.0 : c);
    inverse[at(p[i], i)] = (alone ? 1.0 : c) / scale;
    if (alone) continue;
    const double beside = i % 2 == 0 ? -s : s;
    map[at(i, p[partner])] = scale * beside;
    inverse[at(p[partner], i)] = beside / scale;
  }
  return {Tensor::from<double>(map, {size, size}), Tensor::from<double>(inverse, {size, size})};
}

Tensor product(const Tensor& a, const Tensor& x, const Tensor& b, bool transposed) {
  return matmul(matmul(a, x, transposed, false), b, false, transposed);
}

} // namespace

void ask_gradients(Question& question, Reply& reply, Session&) {
  const auto rows = question.whole("rows", 6, 2, 32), columns = question.whole("columns", 8, 2, 32),
             samples = question.whole("samples", 5, 1, 32);
  const RandomKey key{.seed = static_cast<std::uint64_t>(question.whole("seed", 1, 0, 1'000'000))};
  const Permutation left = question.order("left", rows), right = question.order("right", columns);
  const double turn = question.number("turn", 0.0, 0.0, 1.6), stretch = question.number("stretch", 0.0, 0.0, 4.0);
  question.finish();

  const auto normal = [&](const Shape& shape, std::uint64_t tag, double deviation = 1.0) {
    return random_normal(shape, key.fold(tag), 0.0, deviation, DType::f64);
  };
  const Tensor x = normal({samples, columns}, 1), w = normal({rows, columns}, 2, 0.5), b = normal({rows}, 3, 0.3),
               cotangent = normal({samples, rows}, 4);
  const Map a = map_of(left, turn, stretch), m = map_of(right, turn, stretch);
  // L(W) = sum(C gelu(X W^T + b)); the same loss as a function of W' = A W B is L'(W') = L(A^-1 W' B^-1).
  const auto loss = [&](const Tensor& weight) { return sum(cotangent * gelu(linear(x, weight, b))); };
  Tape plain_tape;
  const Tensor value = loss(w);
  const Tensor gradient = plain_tape.gradient(value, {w})[0];
  plain_tape.close();
  const Tensor moved = product(a.map, w, m.map, false);
  Tape tape;
  const Tensor moved_value = loss(product(a.inverse, moved, m.inverse, false));
  const Tensor measured = tape.gradient(moved_value, {moved})[0];
  tape.close();
  const Tensor covector = product(a.inverse, gradient, m.inverse, true),
               vector = product(a.map, gradient, m.map, false);

  json& body = reply.body;
  const auto show = [&](const char* name, const Tensor& tensor) { body[name] = reply.tensor(tensor); };
  show("a", a.map);
  show("b", m.map);
  show("w", w);
  show("moved", moved);
  show("gradient", gradient);
  show("measured", measured);
  show("covector", covector);
  show("vector", vector);
  body["loss"] = value.item();
  body["moved_loss"] = moved_value.item();
  constexpr double tolerance = 1e-11;
  body["as_covector"] = Reply::comparison(measured, covector, tolerance);
  body["as_weight"] = Reply::comparison(measured, vector, tolerance);
}

} // namespace eg::explore
