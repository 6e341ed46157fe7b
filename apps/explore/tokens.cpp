// The page "tokens": a block sees its tokens in another order, forward and backward.

#include "apps/explore/pages.h"
#include "apps/explore/small_block.h"

#include "core/ops.h"

#include <algorithm>

namespace eg::explore {

using nlohmann::json;

namespace {

/// One value on the way through the block, and the axes along which tokens stand.
struct Stage {
  const char* name;
  Tensor value;
  std::vector<int> token_axes;
};

/// Embedding, attention step by step, output. `offset` is added to the tokens and `gain` multiplies them, by position.
std::vector<Stage> stages_of(const nn::Block& block, const Tensor& z, const Tensor& offset, const Tensor& gain) {
  Tensor entered = z;
  if (offset.defined()) entered = entered + offset;
  if (gain.defined()) entered = entered * gain;
  nn::MultiHeadAttention::Trace trace;
  const Tensor output = block.traced(entered, trace);
  return {{"what enters", entered, {1}},    {"queries", trace.q, {2}},   {"keys", trace.k, {2}},
          {"values", trace.v, {2}},         {"S", trace.scores, {2, 3}}, {"S V", trace.a, {2}},
          {"attention", trace.output, {1}}, {"output", output, {1}}};
}

Tensor reordered(const Tensor& x, const std::vector<int>& axes, const permute::Permutation& order) {
  Tensor y = x;
  for (const int axis : axes) y = order.apply(y, axis);
  return y;
}

} // namespace

void ask_tokens(Question& question, Reply& reply, Session&) {
  const auto tokens = question.whole("tokens", 6, 2, 16);
  nn::BlockConfig config = read_config(question, 8, 32);
  const RandomKey key{.seed = static_cast<std::uint64_t>(question.whole("seed", 1, 0, 1'000'000))};
  const Precision precision = question.precision();
  const permute::Permutation order = question.order("order", tokens);
  const bool positions = question.flag("positions"), scaled = question.flag("scaled");
  config.causal = question.flag("causal");
  config.rotary.on = question.flag("rotary");
  question.finish();

  const ReductionScope sums(precision.exact ? Reduction::exact : Reduction::fast);
  nn::Block block(config, key);
  draw_generic(block, precision.dtype, key);
  const Tensor z = draw_tokens(tokens, config.dim, precision.dtype, key.fold(101)),
               cotangent = draw_tokens(tokens, config.dim, precision.dtype, key.fold(102));
  const Tensor offset = positions ? draw_tokens(tokens, config.dim, precision.dtype, key.fold(103)) : Tensor{};
  Tensor gain;
  if (scaled) {
    std::vector<double> factors(static_cast<std::size_t>(tokens), 1.0);
    factors[1] = 1.6;
    gain = Tensor::from<double>(factors, {1, tokens, 1}).to(precision.dtype);
  }
  const Tensor moved = order.apply(z, 1);
  std::vector<Stage> plain, permuted;
  const auto pass = [&](const Tensor& x, const Tensor& c, std::vector<Stage>& stages) {
    return pass_of(block, x, c, [&](const Tensor& in) {
      stages = stages_of(block, in, offset, gain);
      return stages.back().value;
    });
  };
  const Pass a = pass(z, cotangent, plain), b = pass(moved, order.apply(cotangent, 1), permuted);

  const double tolerance = page_tolerance(precision.dtype, precision.exact);
  json& body = reply.body;
  json& steps = body["stages"] = json::array();
  for (std::size_t i = 0; i < plain.size(); ++i) {
    json step = Reply::comparison(permuted[i].value, reordered(plain[i].value, plain[i].token_axes, order), tolerance);
    step["name"] = plain[i].name;
    steps.push_back(std::move(step));
  }
  const auto first = std::find_if(steps.begin(), steps.end(), [](const json& step) { return !step["holds"]; });
  body["broken_at"] = first == steps.end() ? json(nullptr) : (*first)["name"];
  const Tensor expected = order.apply(a.output, 1);
  body["z"] = reply.tensor(z);
  body["moved"] = reply.tensor(moved);
  body["output"] = reply.tensor(a.output);
  body["moved_output"] = reply.tensor(b.output);
  body["expected"] = reply.tensor(expected);
  body["scores"] = reply.tensor(plain[4].value);
  body["moved_scores"] = reply.tensor(permuted[4].value);
  body["forward"] = Reply::comparison(b.output, expected, tolerance);
  body["gradient"] = reply.tensor(a.input_gradient);
  body["moved_gradient"] = reply.tensor(b.input_gradient);
  body["backward"] = Reply::comparison(b.input_gradient, order.apply(a.input_gradient, 1), tolerance);
  // b_K has no gradient but for rounding (bk-rotary), so it is compared as part of the fused bias.
  json worst = nullptr;
  for (std::size_t i = 0; i < a.gradients.size(); ++i) {
    json one = Reply::comparison(b.gradients[i].second, a.gradients[i].second, tolerance);
    one["name"] = a.gradients[i].first;
    const auto size = [](const json& c) { return c["error"].is_null() ? 1e300 : c["error"].get<double>(); };
    if (worst.is_null() || size(one) > size(worst)) worst = std::move(one);
  }
  body["weights"] = std::move(worst);
}

} // namespace eg::explore
