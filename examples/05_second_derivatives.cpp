// Derivatives beyond the gradient, without ever writing a Hessian down: Jacobian-vector and Hessian-vector products on
// Rosenbrock's banana, f(x, y) = (1 - x)^2 + 100 (y - x^2)^2, and Newton's method made of them.

#include <equigrad/equigrad.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

using Tensors = std::vector<eg::Tensor>;

eg::Tensor vec(double a, double b) { return eg::Tensor::from<double>({a, b}, {2}); }

/// The two residuals r = (1 - x, 10 (y - x^2)); f = |r|^2. Its argument is p = (x, y).
Tensors residuals(const Tensors& in) {
  const eg::Tensor x = in[0].slice(0, 0, 1), y = in[0].slice(0, 1, 2);
  return {eg::concat({eg::affine(x, -1.0, 1.0), eg::affine(y - x * x, 10.0, 0.0)}, 0)};
}

eg::Tensor banana(const Tensors& in) {
  const eg::Tensor r = residuals(in)[0];
  return eg::sum(r * r);
}

double dot(const eg::Tensor& a, const eg::Tensor& b) { return eg::sum(a * b).item(); }

/// Solves H s = g by conjugate gradients: all it asks of H are products H v.
eg::Tensor newton_step(const eg::Tensor& p, const eg::Tensor& g) {
  eg::Tensor s = vec(0, 0), rest = g, v = g;
  for (int i = 0; i < 2; ++i) { // two unknowns, two steps
    const eg::Tensor hv = eg::hvp(banana, {p}, {v}).products[0];
    const double length = dot(rest, rest) / dot(v, hv);
    s = s + eg::affine(v, length, 0.0);
    const eg::Tensor left = rest - eg::affine(hv, length, 0.0);
    v = left + eg::affine(v, dot(left, left) / dot(rest, rest), 0.0);
    rest = left;
  }
  return s;
}

} // namespace

int main() {
  const eg::Tensor p = vec(-1.2, 1.0), u = vec(1.0, 0.5);

  // J u: how the outputs move when the input moves along u. The other way round, J^T v, is what a backward pass gives.
  const eg::Tensor pushed = eg::jvp(residuals, {p}, {u}).tangents[0];
  const eg::Tensor v = vec(0.3, -0.7);
  const eg::Tensor pulled = eg::vjp(residuals, {p}, {v}).gradients[0];
  std::printf("<v, J u> = %.12f = <J^T v, u> = %.12f\n", dot(v, pushed), dot(pulled, u));

  // H u: the derivative of the gradient along u. By hand, H = [[1200 x^2 - 400 y + 2, -400 x], [-400 x, 200]].
  const eg::Hvp second = eg::hvp(banana, {p}, {u});
  std::printf("f = %.4f, gradient = (%.4f, %.4f), H u = (%.4f, %.4f)\n", second.value.item(),
              second.gradients[0].at({0}), second.gradients[0].at({1}), second.products[0].at({0}),
              second.products[0].at({1}));
  const double by_hand = (1200 * 1.44 - 400 + 2) + 480 * 0.5;

  // Small enough to look at whole, with one backward pass a row.
  const eg::Tensor h = eg::hessian(banana, {p})[0][0];
  std::printf("H = %s\n", h.str().c_str());

  // Newton's method: minus the inverse Hessian times the gradient, step by step.
  eg::Tensor at = p;
  const auto gradient = eg::grad(banana);
  for (int step = 0; step < 7; ++step) {
    at = at - newton_step(at, gradient({at})[0]);
    std::printf("step %d: f = %.3e at (%.6f, %.6f)\n", step + 1, banana({at}).item(), at.at({0}), at.at({1}));
  }

  const bool adjoint = std::abs(dot(v, pushed) - dot(pulled, u)) < 1e-12;
  const bool product = std::abs(second.products[0].at({0}) - by_hand) < 1e-9;
  const bool found = std::abs(at.at({0}) - 1.0) < 1e-8 && std::abs(at.at({1}) - 1.0) < 1e-8;
  return adjoint && product && found ? 0 : 1;
}
