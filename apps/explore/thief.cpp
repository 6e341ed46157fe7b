// The page "thief": recovers permutations from what a cloud sees.

#include "apps/explore/pages.h"
#include "apps/explore/small_block.h"
#include "permute/recovery/key_recovery.h"
#include "permute/recovery/matching.h"
#include "permute/recovery/vocabulary.h"

#include "core/ops.h"
#include "permute/blocks_key.h"

#include <chrono>
#include <cmath>

namespace eg::explore {

using nlohmann::json;
using permute::Permutation;
using permute::PermutationSet;

namespace {

/// x with normal noise of `share` times its own standard deviation.
Tensor blurred(const Tensor& x, double share, RandomKey key) {
  if (share == 0.0) return x;
  const Tensor apart = x - mean(x);
  return x + random_normal(x.shape(), key, 0.0, share * std::sqrt(mean(apart * apart).item()), x.dtype());
}

/// The vectors of the features [vectors, dim]: parameters that have no other axis. What moves them is the key's
/// permutation of the features alone.
Tensor vectors_of(const nn::StateDict& weights, const permute::AxisMap& axes) {
  std::vector<Tensor> rows;
  for (const auto& [name, x] : weights)
    for (const permute::ParameterAxes& a : axes)
      if (a.parameter == name && a.groups == std::vector<std::string>{"residual"}) rows.push_back(x.unsqueeze(0));
  return concat(rows, 0);
}

/// |a - b| / |b|, of all elements.
double misfit(const Tensor& a, const Tensor& b) {
  const Tensor apart = a - b;
  return std::sqrt(sum(apart * apart).item() / sum(b * b).item());
}

std::int64_t agreeing(const Permutation& a, const Permutation& b) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) count += a[i] == b[i] ? 1 : 0;
  return count;
}

} // namespace

void ask_thief(Question& question, Reply& reply, Session&) {
  const nn::BlockConfig config = read_config(question, 16, 64);
  const auto tokens = question.whole("tokens", 8, 2, 32);
  const RandomKey key{.seed = static_cast<std::uint64_t>(question.whole("seed", 1, 0, 1'000'000))};
  // weights: all weights are public. gain: one norm's gain is. pair: one plain input is known. tokens: the embeddings
  // are public, and the order of the tokens is the secret.
  const std::string sees = question.word("sees", {"weights", "gain", "pair", "tokens"});
  const double noise = question.number("noise", 0.0, 0.0, 10.0);
  const bool secret = question.flag("secret"); // the thief knows the shapes alone
  // What the reader dragged: place i shows column guess[i] of what is seen (row guess[i] for tokens).
  const Permutation guess = question.order("guess", sees == "tokens" ? tokens : config.dim);
  question.finish();

  nn::Block block(config, key), other(config, key.fold(1));
  draw_generic(block, DType::f64, key);
  draw_generic(other, DType::f64, key.fold(1));
  const auto moves = permute::BlocksKey::random(config, 1, permute::KeyForm::decoupled, key.fold(2));
  const permute::AxisMap axes = permute::block_axes();
  PermutationSet truth = moves.permutations(config);
  nn::StateDict observed = permute::transform(block.state_dict(), axes, truth),
                known = secret ? other.state_dict() : block.state_dict();
  std::uint64_t draw = 10;
  for (auto& [name, x] : known) x = blurred(x, noise, key.fold(draw++));
  const Tensor z = draw_tokens(tokens, config.dim, DType::f64, key.fold(3)),
               known_z = secret ? draw_tokens(tokens, config.dim, DType::f64, key.fold(4)) : z,
               blurred_z = blurred(known_z, noise, key.fold(5));

  PermutationSet found;
  const auto began = std::chrono::steady_clock::now();
  Tensor seen, guessed_from;
  if (sees == "weights") {
    found = permute::recover_key(observed, known, axes);
    seen = vectors_of(observed, axes);
    guessed_from = vectors_of(known, axes);
  } else if (sees == "gain") {
    found["residual"] = permute::sort_match(observed[0].second, known[0].second);
    seen = observed[0].second.unsqueeze(0);
    guessed_from = known[0].second.unsqueeze(0);
  } else if (sees == "pair") {
    seen = moves.residual.apply(z, 2).select(0, 0);
    guessed_from = blurred_z.select(0, 0);
    found["residual"] = permute::features_from_states(seen, guessed_from);
  } else {
    const Permutation rows = Permutation::random_nonidentity(tokens, key.fold(6));
    truth = {{"tokens", rows}};
    seen = rows.apply(z, 1).select(0, 0);
    guessed_from = blurred_z.select(0, 0);
    // Row i of what is seen is token found[i].
    found["tokens"] = Permutation(permute::best_match(permute::squared_distances(seen, guessed_from)));
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;

  json& body = reply.body;
  body["seen"] = reply.tensor(seen);
  body["known"] = reply.tensor(guessed_from);
  json& groups = body["groups"] = json::array();
  std::int64_t right_of_all = 0, all = 0;
  for (const auto& [name, p] : found) {
    const Permutation& wanted = truth.at(name);
    const std::int64_t right = agreeing(p, wanted);
    groups.push_back({{"name", name}, {"found", p.gather()}, {"truth", wanted.gather()}, {"right", right}});
    right_of_all += right;
    all += p.size();
  }
  // Seen column i is known column truth[i], so that the order that undoes the key is the inverse.
  const std::string moved = sees == "tokens" ? "tokens" : "residual";
  const int axis = sees == "tokens" ? 0 : 1;
  const Permutation undoing = found.at(moved).inverse();
  const Tensor dragged = guess.apply(seen, axis);
  body["dragged"] = reply.tensor(dragged);
  body["misfit"] = misfit(dragged, guessed_from);
  body["places"] = agreeing(guess, truth.at(moved).inverse());
  body["undoing"] = undoing.gather();
  body["least_misfit"] = misfit(undoing.apply(seen, axis), guessed_from);
  body["right"] = right_of_all;
  body["of"] = all;
  body["log2_keys"] = permute::log2_count(config, 1, permute::KeyForm::decoupled);
  body["ms"] = took.count();
}

} // namespace eg::explore
