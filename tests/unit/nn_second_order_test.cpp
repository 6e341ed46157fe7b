// Second derivatives of a whole vision transformer's loss.

#include "autograd/functional.h"
#include "autograd/tape.h"
#include "core/ops.h"
#include "nn/vit.h"
#include "support/message.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace eg;

namespace {

using Tensors = std::vector<Tensor>;

nn::VitConfig small_vit(bool pre_norm) {
  nn::VitConfig c;
  c.image = 8;
  c.classes = 5;
  c.layers = 2;
  c.encoder = {.dim = 16, .heads = 2, .mlp = 24, .pre_norm = pre_norm};
  return c;
}

/// A model in f64 whose weights are large enough that every part of it bends the loss.
void make_curved(nn::Vit& model) {
  model.to(DType::f64);
  std::uint64_t tag = 0;
  for (nn::Parameter& p : model.named_parameters()) {
    const double spread = p.value.rank() == 2 ? 0.3 : 0.1;
    const Tensor drawn = random_normal(p.value.shape(), RandomKey{11, 0}.fold(tag++), 0.0, spread, DType::f64);
    p.value.copy_from(add(p.value, drawn));
  }
}

struct Problem {
  nn::Vit model;
  Tensor images = random_normal({3, 3, 8, 8}, {12, 0}, 0.0, 1.0, DType::f64);
  Tensor labels = Tensor::from<std::int64_t>({1, 4, 0}, {3});

  explicit Problem(bool pre_norm) : model(small_vit(pre_norm), {10, 0}) { make_curved(model); }
  ScalarFunction loss() {
    return [this](const Tensors& p) {
      const nn::ParameterScope scope(model, p);
      return cross_entropy(model(images), labels);
    };
  }
  Tensors direction(std::uint64_t seed) const {
    Tensors u;
    for (const Tensor& p : model.parameters())
      u.push_back(random_normal(p.shape(), RandomKey{seed, 0}.fold(u.size()), 0.0, 1.0, DType::f64));
    return u;
  }
};

double dot(const Tensors& a, const Tensors& b) {
  double total = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) total += sum(mul(a[i], b[i])).item();
  return total;
}

} // namespace

TEST_CASE("second order: Hessian-vector product of a ViT's loss against finite differences of gradients") {
  for (const bool pre_norm : {true, false}) {
    CAPTURE(pre_norm);
    Problem problem(pre_norm);
    const Tensors p = problem.model.parameters(), u = problem.direction(13), w = problem.direction(14);
    const Tensors product = hvp(problem.loss(), p, u).products;
    // Richardson: (4 D(h/2) - D(h)) / 3 with central differences D leaves an error of h^4.
    const auto gradient_at = [&](double h) {
      Tensors moved;
      for (std::size_t i = 0; i < p.size(); ++i) moved.push_back(add(p[i], affine(u[i], h, 0.0)));
      return grad(problem.loss())(moved);
    };
    const double h = 1e-4;
    const Tensors far_up = gradient_at(h), far_down = gradient_at(-h);
    const Tensors up = gradient_at(h / 2), down = gradient_at(-h / 2);
    double largest_error = 0.0, largest = 0.0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      const Tensor far = affine(sub(far_up[i], far_down[i]), 0.5 / h, 0.0);
      const Tensor near = affine(sub(up[i], down[i]), 1.0 / h, 0.0);
      const Tensor differences = affine(sub(affine(near, 4.0, 0.0), far), 1.0 / 3.0, 0.0);
      const std::vector<double> a = product[i].to_vector<double>(), b = differences.to_vector<double>();
      for (std::size_t k = 0; k < a.size(); ++k) {
        largest_error = std::max(largest_error, std::abs(a[k] - b[k]));
        largest = std::max(largest, std::abs(b[k]));
      }
    }
    MESSAGE("pre_norm ", pre_norm,
            ": largest error of any element of H u relative to the largest: ", largest_error / largest);
    CHECK(largest > 0.01); // the loss is curved along u
    CHECK(largest_error < 1e-8 * largest);

    // H is symmetric, and quadratic forms agree with jvp of the gradient.
    const double left = dot(w, product), right = dot(u, hvp(problem.loss(), p, w).products);
    CHECK(std::abs(left - right) < 1e-11 * std::abs(left));
    const Tensors forward = jvp(grad(problem.loss()), p, u).tangents;
    CHECK(std::abs(dot(w, forward) - left) < 1e-11 * std::abs(left));
  }
}

TEST_CASE("second order: a ParameterScope puts everything back and says what does not fit") {
  Problem problem(true);
  const Tensors p = problem.model.parameters();
  Tensors other = p;
  other[0] = Tensor::zeros(p[0].shape(), DType::f64);
  {
    const nn::ParameterScope scope(problem.model, other);
    CHECK(problem.model.parameters()[0].id() == other[0].id());
    const nn::ParameterScope inner(problem.model, p);
    CHECK(problem.model.parameters()[0].id() == p[0].id());
  }
  CHECK(problem.model.parameters()[0].id() == p[0].id());
  const auto says = [&](const Tensors& values, const char* words) {
    const std::string message = test::message_of([&] { const nn::ParameterScope scope(problem.model, values); });
    INFO(message);
    CHECK(message.find(words) != std::string::npos);
    CHECK(problem.model.parameters()[0].id() == p[0].id());
  };
  says({}, "ParameterScope: 0 tensors were given for");
  other.back() = Tensor::zeros({6}, DType::f64);
  says(other, "classifier.bias does not fit: the value is [6], the parameter is [5]");
  other.back() = Tensor::zeros({5});
  says(other, "classifier.bias does not fit: the value is f32, the parameter is f64");
  // Capturing the parameters instead of computing with the arguments would give zeros; it is refused.
  const std::string message = test::message_of<AutogradError>([&] {
    hvp([&](const Tensors&) { return cross_entropy(problem.model(problem.images), problem.labels); }, p,
        problem.direction(1));
  });
  CHECK(message.find("captures the same tensor") != std::string::npos);
}
