// Checks how gradients move under invertible maps of the weights, and which of those maps a training run follows.

#include "permute/catalogue/case.h"

#include "autograd/tape.h"
#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace eg::permute {
namespace {

Tensor scales(Case& c, std::int64_t size) { return exp(c.normal({size}, 0.5)); }

/// An invertible matrix and its inverse: Q_1 diag(s) Q_2 from orthogonal Q_1, Q_2.
struct Invertible {
  Tensor map, inverse;

  Invertible(Case& c, std::int64_t d) {
    const Tensor left = orthonormal(c.normal({d, d})), right = orthonormal(c.normal({d, d}));
    const Tensor s = scales(c, d).to(DType::f64);
    map = matmul(left * s, right).to(c.dtype);
    inverse = matmul(right / s.reshape({d, 1}), left, true, true).to(c.dtype);
  }
};

Tensor identity_matrix(std::int64_t d, DType dtype) {
  std::vector<double> entries(static_cast<std::size_t>(d * d));
  for (std::int64_t i = 0; i < d; ++i) entries[static_cast<std::size_t>(i * d + i)] = 1.0;
  return Tensor::from<double>(entries, {d, d}).to(dtype);
}

Tensor transposed(const Tensor& x) { return transpose(x, 0, 1).contiguous(); }

/// y = x W_1^T W_2^T with a map A between the layers and B before them: W_1' = A W_1 B, W_2' = W_2 A^-1, x' = x B^-T.
void compare_linear(Claim& claim, Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim, h = c.options.hidden;
  const Tensor x = c.normal({n, d}), w1 = c.normal({h, d}, 0.3), w2 = c.normal({d, h}, 0.3), g = c.normal({n, d});
  const Invertible a(c, h), b(c, d);
  const auto gradients = [&](const Tensor& z, const Tensor& first, const Tensor& second) {
    Tape tape;
    return tape.gradient(sum(g * gelu(linear(linear(z, first), second))), {first, second});
  };
  const std::vector<Tensor> plain = gradients(x, w1, w2);
  const std::vector<Tensor> moved =
      gradients(matmul(x, b.inverse, false, true), matmul(matmul(a.map, w1), b.map), matmul(w2, a.inverse));
  claim.equal("dl/dW_1' = A^-T G B^-T", moved[0],
              matmul(matmul(a.inverse, plain[0], true, false), b.inverse, false, true));
  claim.equal("dl/dW_2' = G A^T", moved[1], matmul(plain[1], a.map, false, true));
  claim.differs("the gradient moved as the weight is, A G B", moved[0], matmul(matmul(a.map, plain[0]), b.map));
}

/// SwiGLU with W_3' = diag(s) W_3 and W_2' = W_2 diag(s)^-1 (swiglu-scale): gradients move by 1/s and s.
void compare_swiglu(Claim& claim, Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim, h = c.options.hidden;
  const Tensor x = c.normal({n, d}), w1 = c.normal({h, d}, 0.3), w3 = c.normal({h, d}, 0.3), w2 = c.normal({d, h}, 0.3),
               g = c.normal({n, d}), s = scales(c, h), down = s.reshape({h, 1});
  const auto gradients = [&](const Tensor& up, const Tensor& out) {
    Tape tape;
    return tape.gradient(sum(g * gelu(linear(swiglu(linear(x, w1), linear(x, up)), out))), {w1, up, out});
  };
  const std::vector<Tensor> plain = gradients(w3, w2), moved = gradients(w3 * down, w2 / s);
  claim.equal("SwiGLU: dl/dW_1' = dl/dW_1", moved[0], plain[0]);
  claim.equal("SwiGLU: dl/dW_3' = diag(s)^-1 G", moved[1], plain[1] / down);
  claim.equal("SwiGLU: dl/dW_2' = G diag(s)", moved[2], plain[2] * s);
}

/// Rotated queries and keys with W_Q' = diag(s) W_Q and W_K' = diag(s)^-1 W_K, s alike for the features of a pair
/// (rope-scale).
void compare_rotary(Claim& claim, Case& c) {
  const std::int64_t n = c.options.tokens, d = 2 * (c.options.dim / 2);
  const Tensor x = c.normal({n, d}), wq = c.normal({d, d}, 0.3), wk = c.normal({d, d}, 0.3), g = c.normal({n, d}),
               pair = scales(c, d / 2), s = concat({pair, pair}, 0).reshape({d, 1}), positions = Tensor::arange(n);
  const auto turned = [&](const Tensor& z) { return rotary(z.reshape({1, n, 1, d}), positions).reshape({n, d}); };
  const auto gradients = [&](const Tensor& a, const Tensor& b) {
    Tape tape;
    const Tensor y = scaled_dot_product_attention(turned(linear(x, a)), turned(linear(x, b)), x);
    return tape.gradient(sum(g * gelu(y)), {a, b});
  };
  const std::vector<Tensor> plain = gradients(wq, wk), moved = gradients(wq * s, wk / s);
  claim.equal("rotary: dl/dW_Q' = diag(s)^-1 G", moved[0], plain[0] / s);
  claim.equal("rotary: dl/dW_K' = diag(s) G", moved[1], plain[1] * s);
}

Claim gradient_covector(Case& c) {
  Claim claim;
  compare_linear(claim, c);
  compare_swiglu(claim, c);
  compare_rotary(claim, c);
  return claim;
}

using Clip = std::function<void(std::vector<Tensor>&)>;

/// Regression by x -> gelu(x W_1^T + b_1) W_2^T, whose inputs and outputs are seen in the basis of an orthogonal R:
/// x R, W_1 R, R^T W_2.
struct TurnedTask {
  std::vector<Tensor> x, y;
  Tensor w1, b1, w2;

  explicit TurnedTask(Case& c) {
    const std::int64_t d = c.options.dim, h = c.options.hidden;
    w1 = c.normal({h, d}, 0.4);
    b1 = c.normal({h}, 0.3);
    w2 = c.normal({d, h}, 0.3);
    for (std::int64_t step = 0; step < c.options.steps; ++step) {
      x.push_back(c.normal({c.options.tokens, d}));
      y.push_back(c.normal({c.options.tokens, d}));
    }
  }

  /// W_1, b_1 and W_2 after training in the basis of r (undefined: the plain one), seen from the plain one.
  std::vector<Tensor> trained(const std::string& optimizer, double rate, const Tensor& r, const Clip& clip = {}) const {
    const auto turn = [&](const Tensor& z) { return r.defined() ? matmul(z, r) : z.clone(); };
    const std::vector<Tensor> weights{turn(w1), b1.clone(), transposed(turn(transposed(w2)))};
    const auto rule = optim::make_optimizer(optimizer, weights);
    for (std::size_t step = 0; step < x.size(); ++step) {
      Tape tape;
      const Tensor apart = linear(gelu(linear(turn(x[step]), weights[0], weights[1])), weights[2]) - turn(y[step]);
      std::vector<Tensor> gradients = tape.gradient(mean(apart * apart), weights);
      tape.close();
      if (clip) clip(gradients);
      rule->step(gradients, rate);
    }
    if (!r.defined()) return weights;
    return {matmul(weights[0], r, false, true), weights[1], matmul(r, weights[2])};
  }
};

struct Rule {
  const char* name;
  double rate, rate_f32; ///< in f32 an element near zero may take another sign: its step has to stay below the gate
};
constexpr Rule linear_rules[] = {
    {"sgd", 0.02, 0.02}, {"momentum", 0.005, 0.005}, {"nesterov", 0.005, 0.005}, {"muon", 2e-3, 2e-3}};
constexpr Rule elementwise_rules[] = {{"adam", 3e-4, 3e-4},
                                      {"adamw", 3e-4, 3e-4},
                                      {"rmsprop", 3e-4, 3e-4},
                                      {"lion", 3e-4, 1e-5},
                                      {"adafactor", 3e-4, 3e-4}};

double rate_of(const Rule& rule, const Case& c) { return c.dtype == DType::f32 ? rule.rate_f32 : rule.rate; }

void clip_by_norm(std::vector<Tensor>& gradients) { optim::clip_gradients(gradients, 0.1); }

void compare_weights_of(Claim& claim, const std::string& what, const std::vector<Tensor>& value,
                        const std::vector<Tensor>& expected) {
  constexpr const char* names[] = {"W_1", "b_1", "W_2"};
  for (std::size_t i = 0; i < expected.size(); ++i) claim.equal(what + ": " + names[i], value[i], expected[i]);
}

double distance(const std::vector<Tensor>& value, const std::vector<Tensor>& expected) {
  double worst = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, relative_error(value[i], expected[i]));
  return worst;
}

/// Rules that treat a matrix as one: W_t R for orthogonal R. The control is the smallest distance of the others.
Claim orthogonal_training(Case& c) {
  const TurnedTask task(c);
  const Tensor r = orthonormal(c.normal({c.options.dim, c.options.dim})).to(c.dtype);
  Claim claim;
  for (const Rule& rule : linear_rules)
    compare_weights_of(claim, rule.name, task.trained(rule.name, rate_of(rule, c), r),
                       task.trained(rule.name, rate_of(rule, c), {}));
  compare_weights_of(claim, "sgd, clipped by the joint norm", task.trained("sgd", 0.02, r, clip_by_norm),
                     task.trained("sgd", 0.02, {}, clip_by_norm));
  constexpr double large_rate = 5e-3; // small steps would leave the twins close together for want of movement
  double least = 1.0;
  for (const Rule& rule : elementwise_rules)
    least = std::min(least, distance(task.trained(rule.name, large_rate, r), task.trained(rule.name, large_rate, {})));
  claim.control = "smallest distance under Adam, AdamW, RMSprop, Lion and Adafactor";
  claim.fails.push_back(
      {claim.control, Tensor::full({1}, least, DType::f64), Tensor::zeros({1}, DType::f64), 1.0, false});
  return claim;
}

/// Rules that are odd functions, element by element or of the whole matrix: signed permutations.
Claim signed_training(Case& c) {
  const TurnedTask task(c);
  const std::int64_t d = c.options.dim;
  const Permutation p = c.permutation(d);
  Tensor signs = sign(c.normal({d}));
  signs.slice(0, 0, 1).fill(-1.0);
  const Tensor map = p.apply(identity_matrix(d, c.dtype), 1) * signs;
  Claim claim;
  for (const auto& rules : {std::span<const Rule>(linear_rules), std::span<const Rule>(elementwise_rules)})
    for (const Rule& rule : rules)
      compare_weights_of(claim, rule.name, task.trained(rule.name, rate_of(rule, c), map),
                         task.trained(rule.name, rate_of(rule, c), {}));
  const Clip above = [](std::vector<Tensor>& gradients) {
    for (Tensor& g : gradients) g = clamp(g, -1e9, 0.01);
  };
  claim.differs("gradients clipped from above alone", task.trained("sgd", 0.02, map, above)[0],
                task.trained("sgd", 0.02, {}, above)[0]);
  return claim;
}

} // namespace

std::vector<Identity> covector_identities() {
  using enum ClaimKind;
  return {
      {"grad-covector", "gradients are covectors", "", "", law, Gate::one_pass,
       "Where weights move by invertible maps, gradients move by their inverse transposes; for orthogonal maps, "
       "permutations among them, both are the same.",
       R"(W' = A W B,\ L'(W') = L(A^{-1} W' B^{-1}) \Rightarrow \frac{\partial L'}{\partial W'} = A^{-\top} \frac{\partial L}{\partial W} B^{-\top})",
       gradient_covector},
      {"train-orth", "training in another orthonormal basis", "", "", law, Gate::training,
       "SGD, momentum, Nesterov's, clipping by norm and Muon follow every orthogonal map of the features; Adam, AdamW, "
       "RMSprop, Lion and Adafactor do not.",
       R"(W_0' = W_0 R,\ R^\top R = I \Rightarrow W_t' = W_t R)", orthogonal_training},
      {"train-sign", "training with signed permutations", "", "", law, Gate::training,
       "All rules follow signed permutations of the features: each is an odd function of the gradients.",
       R"(W_0' = W_0 P D,\ D = \mathrm{diag}(\pm 1) \Rightarrow W_t' = W_t P D)", signed_training},
  };
}

} // namespace eg::permute
