#pragma once
// What the programs of these pages share: random values in f64, weights that are nowhere special, and verdicts.

#include <equigrad/equigrad.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <type_traits>

namespace theorem {

using namespace eg;
using permute::Permutation;

/// How many keys were drawn.
inline std::uint64_t& draws() {
  static std::uint64_t count = 0;
  return count;
}

/// A key that no other call gives.
inline RandomKey next_key() { return {.seed = 1, .stream = ++draws()}; }

inline Tensor normal(const Shape& shape, double stddev = 1.0, double mean = 0.0) {
  return random_normal(shape, next_key(), mean, stddev, DType::f64);
}

/// Never the identity.
inline Permutation permutation(std::int64_t size) { return Permutation::random_nonidentity(size, next_key()); }

/// One for each sample, [samples, tokens]: what permute_rows takes.
inline Tensor rows(std::int64_t samples, std::int64_t tokens) {
  return permute::row_permutations(samples, tokens, next_key());
}

/// f64, gamma about 1, every other parameter about 0 and none of them zero.
inline void randomize(nn::Module& module) {
  module.to(DType::f64);
  for (nn::Parameter& p : module.named_parameters()) {
    const bool gamma = p.name.find("norm") != std::string::npos && p.name.ends_with("weight");
    p.value.copy_from(normal(p.value.shape(), 0.3, gamma ? 1.0 : 0.0));
  }
}

/// A block whose weights `key` has moved.
inline std::unique_ptr<nn::Block> moved_by(const permute::BlocksKey& key, const nn::Block& block) {
  auto moved = std::make_unique<nn::Block>(block.config, RandomKey{});
  moved->to(DType::f64);
  moved->load_state_dict(permute::transform(block.state_dict(), permute::block_axes(), key.permutations(block.config)));
  return moved;
}

/// dL/d(parameter) of L = sum(g * gelu(output())), with one g for every output of a shape.
template <class F> nn::StateDict gradients(const nn::Module& module, F&& output) {
  Tape tape;
  const Tensor y = output();
  const Tensor g = random_normal(y.shape(), {.seed = 2}, 0.0, 1.0, DType::f64);
  const std::vector<Tensor> values = tape.gradient(sum(g * gelu(y)), module.parameters());
  nn::StateDict named = module.state_dict();
  for (std::size_t i = 0; i < named.size(); ++i) named[i].second = values[i];
  return named;
}

/// Twenty steps of SGD with momentum on batches Z [4, 7, 12]; output(Z, step) is what the model makes of one.
template <class F> void train(nn::Module& module, F&& output) {
  const auto optimizer = optim::sgd(module.parameters(), {.momentum = 0.9});
  for (std::uint64_t step = 0; step < 20; ++step) {
    Tape tape;
    const Tensor z = random_normal({4, 7, 12}, {.seed = 3, .stream = step}, 0.0, 1.0, DType::f64);
    const Tensor loss = mean(square(output(z, step) - z));
    optimizer->step(tape.gradient(loss, module.parameters()), 0.05);
  }
}

inline double error(const Tensor& a, const Tensor& b) { return relative_error(a, b); }
inline double error(const nn::StateDict& a, const nn::StateDict& b) {
  double worst = a.size() == b.size() ? 0.0 : 1.0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = std::max(worst, relative_error(a[i].second, b[i].second));
  return worst;
}

inline bool& all_as_they_must() {
  static bool good = true;
  return good;
}

inline void say(const char* what, bool good, const char* yes, const char* no) {
  std::printf("%s: %s\n", what, good ? yes : no);
  all_as_they_must() = all_as_they_must() && good;
}

/// Tensors, or gradients by name: `a` is to equal `b`.
template <class T> void holds(const char* what, const T& a, const std::type_identity_t<T>& b) {
  say(what, error(a, b) <= 1e-11, "holds to 1e-11", "FAILS");
}
inline void holds_in_bits(const char* what, const Tensor& a, const Tensor& b) {
  say(what, same_bits(a, b), "holds bit for bit", "FAILS");
}
/// A control: `a` must differ from `b`.
template <class T> void fails(const char* what, const T& a, const std::type_identity_t<T>& b) {
  say(what, error(a, b) > 1e-3, "fails, as it must", "HOLDS, and must not");
}

/// The exit code.
inline int verdict() { return all_as_they_must() ? 0 : 1; }

} // namespace theorem
