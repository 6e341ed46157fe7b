#include "nn/moe.h"

#include "core/device/device.h"

#include "nn/config_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace eg::nn {
namespace {

/// Where the tokens go: rows of the experts' common input, expert after expert.
struct Plan {
  std::vector<std::int64_t> tokens; ///< by row: whose token it is
  std::vector<std::int64_t> load;   ///< rows of each expert
  std::vector<std::int64_t> places; ///< by choice (token-major): its row; the number of rows where it was dropped
  std::int64_t dropped = 0;
};

/// choices [N, k]. First choices of all tokens find a place before second ones.
Plan plan_for(const Tensor& choices, std::int64_t experts, std::int64_t capacity) {
  const std::int64_t tokens = choices.size(0), k = choices.size(1);
  const std::vector<std::int64_t> wanted = choices.to_vector<std::int64_t>();
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  Plan plan{.tokens = {}, .load = std::vector<std::int64_t>(at(experts), 0), .places = wanted};
  const auto each = [&](auto&& visit) {
    for (std::int64_t j = 0; j < k; ++j)
      for (std::int64_t n = 0; n < tokens; ++n) visit(n, n * k + j, at(wanted[at(n * k + j)]));
  };
  // First the rank of each choice within its expert, then, when the loads are known, its row.
  each([&](std::int64_t, std::int64_t choice, std::size_t expert) {
    const bool room = plan.load[expert] < capacity;
    plan.places[at(choice)] = room ? plan.load[expert]++ : -1;
    plan.dropped += room ? 0 : 1;
  });
  std::vector<std::int64_t> first(at(experts), 0);
  for (std::size_t e = 1; e < first.size(); ++e) first[e] = first[e - 1] + plan.load[e - 1];
  const std::int64_t rows = first.back() + plan.load.back();
  plan.tokens.resize(at(rows));
  each([&](std::int64_t token, std::int64_t choice, std::size_t expert) {
    std::int64_t& place = plan.places[at(choice)];
    place = place < 0 ? rows : first[expert] + place;
    if (place < rows) plan.tokens[at(place)] = token;
  });
  return plan;
}

Tensor list_of(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

/// x's rows that count.
Tensor valid_rows(const Tensor& x, const Tensor& valid) {
  if (!valid.defined()) return x;
  if (valid.dtype() != DType::boolean)
    throw DTypeError(fmt::format("mixture of experts: valid must be bool, it is {}", eg::name_of(valid.dtype())));
  if (valid.numel() != x.size(0))
    throw ShapeError(fmt::format("mixture of experts: valid must have one element for each of {} tokens, it is {}",
                                 x.size(0), valid.shape().str()));
  const std::vector<bool> counts = valid.to_vector<bool>();
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i]) rows.push_back(static_cast<std::int64_t>(i));
  return index_select(x, 0, list_of(rows));
}

void check_tokens(const Tensor& rows) {
  if (rows.size(0) == 0) throw ValueError("mixture of experts: a loss needs a token that counts");
}

} // namespace

void check(const MoeConfig& c) {
  const ConfigChecks field("mixture of experts");
  field.extent("dim", c.dim);
  field.extent("hidden", c.hidden);
  field.extent("experts", c.experts, std::int64_t{1} << 16);
  field.extent("top_k", c.top_k, c.experts);
  if (!(c.capacity_factor >= 0.0 && std::isfinite(c.capacity_factor)))
    throw ValueError(
        fmt::format("mixture of experts: capacity_factor must be 0 (dropless) or positive, not {}", c.capacity_factor));
  field.share("jitter", c.jitter);
}

Tensor load_balancing_loss(const MoeRouting& routing, const Tensor& valid) {
  const Tensor probabilities = valid_rows(routing.probabilities, valid), chosen = valid_rows(routing.experts, valid);
  check_tokens(probabilities);
  const std::int64_t experts = probabilities.size(1);
  const Tensor counts = bincount(chosen.reshape({chosen.numel()}), {}, experts).to(probabilities.dtype());
  const double scale = static_cast<double>(experts) / static_cast<double>(probabilities.size(0));
  return sum(counts * mean(probabilities, {0})) * scale;
}

Tensor router_z_loss(const MoeRouting& routing, const Tensor& valid) {
  const Tensor logits = valid_rows(routing.logits, valid);
  check_tokens(logits);
  return mean(square(logsumexp(logits, {-1})));
}

Expert::Expert(const MoeConfig& c, RandomKey key)
    : activation(c.activation), w1(c.dim, c.hidden, key.fold(0), c.bias), w2(c.hidden, c.dim, key.fold(1), c.bias) {
  register_module("w1", w1);
  register_module("w2", w2);
  if (!c.gated) return;
  w3 = std::make_unique<Linear>(c.dim, c.hidden, key.fold(2), c.bias);
  register_module("w3", *w3);
}

Tensor Expert::operator()(const Tensor& x) const {
  const Scope scope(*this);
  if (!w3) return called({&x}, w2(activate(w1(x), activation)));
  const Tensor gate = w1(x), up = (*w3)(x);
  return called({&x}, w2(activation == Activation::silu ? swiglu(gate, up) : activate(gate, activation) * up));
}

MixtureOfExperts::MixtureOfExperts(const MoeConfig& c, RandomKey key)
    : config(checked(c)), gate(c.dim, c.experts, key.fold(0), false) {
  register_module("gate", gate);
  for (std::int64_t e = 0; e < c.experts; ++e) {
    experts.push_back(std::make_unique<Expert>(c, key.fold(1).fold(static_cast<std::uint64_t>(e))));
    register_module(fmt::format("experts.{}", e), *experts.back());
  }
}

MoeRouting MixtureOfExperts::route(const Tensor& x, RandomKey key) const {
  const Scope scope(*this);
  Tensor seen = x;
  if (training() && config.jitter > 0.0)
    seen = x * random_uniform(x.shape(), key, 1.0 - config.jitter, 1.0 + config.jitter, x.dtype());
  MoeRouting r;
  r.logits = gate(seen);
  r.probabilities = softmax(r.logits);
  const ValuesAndIndices best = topk(r.probabilities, config.top_k);
  r.experts = best.indices;
  r.weights = config.renormalize ? best.values / sum(best.values, {-1}, true) : best.values;
  return r;
}

/// Results of the experts for their rows of x, expert after expert. x is halved again and again: the gradient of a
/// slice is as large as what it was cut from, so that cutting E slices from all rows would cost E passes over them on
/// the backward pass, and this costs 2 log2 E.
std::vector<Tensor> MixtureOfExperts::computed(const Tensor& x, const std::vector<std::int64_t>& load) const {
  std::vector<Tensor> results;
  const auto run = [&](auto&& self, const Tensor& part, std::size_t first, std::size_t last) -> void {
    if (last - first == 1) {
      results.push_back(load[first] > 0 ? (*experts[first])(part) : part);
      return;
    }
    const std::size_t middle = first + (last - first) / 2;
    const auto at = [&](std::size_t e) { return load.begin() + static_cast<std::ptrdiff_t>(e); };
    const std::int64_t cut = std::accumulate(at(first), at(middle), std::int64_t{0});
    self(self, part.slice(0, 0, cut), first, middle);
    self(self, part.slice(0, cut, part.size(0)), middle, last);
  };
  run(run, x, 0, experts.size());
  return results;
}

/// sum_e w_e(x) expert_e(x), w_e = 0 where an expert was not chosen: what the sparse form computes, without routing.
Tensor MixtureOfExperts::dense(const Tensor& x, const MoeRouting& routing) const {
  if (config.capacity_factor > 0.0)
    throw ValueError("mixture of experts: with a capacity, which choices are dropped depends on values");
  const DeviceScope there(x.device());
  const Tensor weights =
      scatter_add(Tensor::zeros({x.size(0), config.experts}, x.dtype()), 1, routing.experts, routing.weights);
  Tensor y;
  for (std::int64_t e = 0; e < config.experts; ++e) {
    const Tensor part = slice(weights, 1, e, e + 1) * (*experts[static_cast<std::size_t>(e)])(x);
    y = y.defined() ? y + part : part;
  }
  return y;
}

MixtureOfExperts::Output MixtureOfExperts::forward(const Tensor& x, const Tensor& addend, RandomKey key) const {
  const Scope scope(*this);
  const DeviceScope there(x.device()); // where the routing's lists are made
  if (x.rank() < 1 || x.size(-1) != config.dim)
    throw ShapeError(fmt::format("mixture of experts: x must be [..., {}], not {}", config.dim, x.shape().str()));
  const std::int64_t tokens = x.numel() / config.dim, k = config.top_k;
  const Tensor flat = x.reshape({tokens, config.dim});
  Output out{.y = {}, .routing = route(flat, key), .load = {}};

  if (!x.has_storage()) {
    const Tensor y = dense(flat, out.routing).reshape(x.shape());
    out.y = addend.defined() ? addend + y : y;
    return out;
  }
  const double even = static_cast<double>(tokens) * static_cast<double>(k) / static_cast<double>(config.experts);
  const double room = config.capacity_factor > 0.0 ? std::ceil(config.capacity_factor * even)
                                                   : static_cast<double>(tokens); // no expert is chosen twice
  const Plan plan = plan_for(out.routing.experts, config.experts,
                             static_cast<std::int64_t>(std::min(room, static_cast<double>(tokens))));
  out.load = plan.load;
  out.dropped = plan.dropped;

  const std::vector<Tensor> results = computed(index_select(flat, 0, list_of(plan.tokens)), plan.load);
  Tensor rows = concat(results, 0);
  if (plan.dropped > 0) rows = pad(rows, 0, 0, 1); // the row that dropped choices find
  const Tensor found = index_select(rows, 0, list_of(plan.places)).reshape({tokens, k, config.dim});
  const Tensor y = sum(found * out.routing.weights.unsqueeze(-1), {1}).reshape(x.shape());
  out.y = addend.defined() ? addend + y : y;
  return out;
}

Tensor MixtureOfExperts::operator()(const Tensor& x, const Tensor& addend, RandomKey key) const {
  return called({&x, &addend}, forward(x, addend, key).y);
}

} // namespace eg::nn
