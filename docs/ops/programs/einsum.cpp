// einsum for any equation, and its gradients, by plain loops and by the library.

#include "page.h"

#include <map>

using namespace page;

namespace {

/// "ij,jk->ik": the letters of the operands, and of the result.
struct Equation {
  std::vector<std::string> operands = {""};
  std::string result;

  explicit Equation(const std::string& text) {
    const std::size_t arrow = text.find("->");
    for (const char c : text.substr(0, arrow)) {
      if (c == ',')
        operands.emplace_back();
      else
        operands.back() += c;
    }
    result = text.substr(arrow + 2);
  }
};

using Values = std::map<char, Index>; // of the letters

std::size_t place(const std::string& letters, const Array& a, const Values& at) {
  Index index = 0;
  for (std::size_t axis = 0; axis < letters.size(); ++axis) index = index * a.extent(axis) + at.at(letters[axis]);
  return static_cast<std::size_t>(index);
}

/// Calls use(at) for all values of all letters.
template <class F> void for_all(const Equation& e, const std::vector<Array>& in, F&& use) {
  Values extent, at;
  for (std::size_t k = 0; k < in.size(); ++k)
    for (std::size_t axis = 0; axis < e.operands[k].size(); ++axis) extent[e.operands[k][axis]] = in[k].extent(axis);
  Index count = 1;
  for (const auto& [letter, n] : extent) count *= n;
  for (Index number = 0; number < count; ++number) {
    Index rest = number;
    for (const auto& [letter, n] : extent) {
      at[letter] = rest % n;
      rest /= n;
    }
    use(at);
  }
}

/// y[result] += product of all operands.
Array forward(const Equation& e, const std::vector<Array>& in, const std::vector<Index>& shape) {
  Array y(shape);
  for_all(e, in, [&](const Values& at) {
    double product = 1;
    for (std::size_t k = 0; k < in.size(); ++k) product *= in[k].values()[place(e.operands[k], in[k], at)];
    y.values()[place(e.result, y, at)] += product;
  });
  return y;
}

/// Each product hands the cotangent of its output to every factor, times the other factors.
std::vector<Array> backward(const Equation& e, const std::vector<Array>& in, const Array& g) {
  std::vector<Array> sums;
  for (const Array& a : in) sums.emplace_back(a.extents());
  for_all(e, in, [&](const Values& at) {
    for (std::size_t k = 0; k < in.size(); ++k) {
      double product = g.values()[place(e.result, g, at)];
      for (std::size_t other = 0; other < in.size(); ++other)
        if (other != k) product *= in[other].values()[place(e.operands[other], in[other], at)];
      sums[k].values()[place(e.operands[k], sums[k], at)] += product;
    }
  });
  return sums;
}

Library einsum(const std::string& equation, const std::vector<Array>& inputs, const Array& g) {
  return library([&](const std::vector<eg::Tensor>& in) { return eg::einsum(equation, in); }, inputs, g);
}

void compare(const std::string& equation, const std::vector<Array>& in, const Array& g) {
  const Library there = einsum(equation, in, g);
  const std::vector<Array> sums = backward(Equation(equation), in, g);
  holds((equation + ": y").c_str(), forward(Equation(equation), in, g.extents()), there.y);
  for (std::size_t k = 0; k < in.size(); ++k)
    holds((equation + ": g" + std::to_string(k)).c_str(), sums[k], there.gradients[k]);
}

} // namespace

int main() {
  const Array a({2, 3}, {1, 2, 3, 0, 1, -1}), b({3, 2}, {1, -1, 0, 1, 2, 0}), g({2, 2}, {1, 2, 0, -1});
  const Equation product("ij,jk->ik");
  const Array y = forward(product, {a, b}, {2, 2});
  const std::vector<Array> sums = backward(product, {a, b}, g);
  show("a", a);
  show("b", b);
  show("y", y);
  show("g", g);
  show("ga", sums[0]);
  show("gb", sums[1]);

  compare("ij,jk->ik", {a, b}, g);
  compare("hqd,hkd->hqk", {normal({2, 3, 4}), normal({2, 5, 4})}, normal({2, 3, 5}));
  compare("i,j,k->kji", {normal({2}), normal({3}), normal({4})}, normal({4, 3, 2}));
  compare("ii->i", {normal({4, 4})}, normal({4}));
  compare("ij->j", {normal({3, 4})}, normal({4}));

  const Array u = normal({4, 4}), v = normal({4, 4}), gu = normal({4, 4});
  const Library plain = einsum("ij,jk->ik", {u, v}, gu);
  holds("ga = einsum(ik,jk->ij) of g and b", einsum("ik,jk->ij", {gu, v}, gu).y, plain.gradients[0]);
  holds("gb = einsum(ij,ik->jk) of a and g", einsum("ij,ik->jk", {u, gu}, gu).y, plain.gradients[1]);
  fails("ga = einsum(ik,kj->ij) of g and b", einsum("ik,kj->ij", {gu, v}, gu).y, plain.gradients[0]);

  const Order order = {2, 0, 3, 1};
  const Library moved = einsum("ij,jk->ik", {columns(u, order), rows(v, order)}, gu);
  holds("y when the letter j is permuted in both operands", moved.y, plain.y);
  holds("ga when the letter j is permuted in both operands", moved.gradients[0], columns(plain.gradients[0], order));
  fails("y when the letter j is permuted in one", einsum("ij,jk->ik", {columns(u, order), v}, gu).y, plain.y);
  const Library square = einsum("i,i->", {Array({3}, {1, 2, 3}), Array({3}, {1, 2, 3})}, Array({}, {1}));
  show("i,i-> of (1, 2, 3) with itself", square.y.values()[0]);
  Array whole = square.gradients[0];
  for (std::size_t i = 0; i < 3; ++i) whole.values()[i] += square.gradients[1].values()[i];
  show("the gradient by (1, 2, 3)", whole);
  return verdict();
}
