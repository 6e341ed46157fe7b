// The page "features": permuted features need permuted weights.

#include "apps/explore/pages.h"
#include "apps/explore/small_block.h"

#include "core/ops.h"
#include "permute/blocks_key.h"

namespace eg::explore {

using nlohmann::json;
using permute::Permutation;

void ask_features(Question& question, Reply& reply, Session&) {
  const nn::BlockConfig config = read_config(question, 8, 32);
  const auto tokens = question.whole("tokens", 4, 2, 16);
  const RandomKey key{.seed = static_cast<std::uint64_t>(question.whole("seed", 1, 0, 1'000'000))};
  const Precision precision = question.precision();
  const Permutation columns = question.order("order", config.dim);
  // plain: the weights stay. residual: they follow where they meet Z. tied: the inner axes of attention, too, by the
  // same permutation. decoupled: those by another one, whole heads and within heads.
  const std::string form = question.word("weights", {"plain", "residual", "tied", "decoupled"});
  question.finish();

  const ReductionScope sums(precision.exact ? Reduction::exact : Reduction::fast);
  nn::Block block(config, key);
  draw_generic(block, precision.dtype, key);
  const Tensor z = draw_tokens(tokens, config.dim, precision.dtype, key.fold(101)),
               cotangent = draw_tokens(tokens, config.dim, precision.dtype, key.fold(102));

  permute::BlocksKey moves = permute::BlocksKey::identity(config, 1);
  if (form == "decoupled") moves = permute::BlocksKey::random(config, 1, permute::KeyForm::decoupled, key.fold(104));
  moves.residual = form == "plain" ? Permutation::identity(config.dim) : columns;
  if (form == "tied") moves.blocks[0].qk = moves.blocks[0].v = columns;
  const permute::AxisMap axes = permute::block_axes();
  const permute::PermutationSet permutations = moves.permutations(config);
  const nn::StateDict weights = permute::transform(block.state_dict(), axes, permutations);
  const auto twin = block_with(config, weights, precision.dtype);

  const auto run = [](const nn::Block& of, const Tensor& x, const Tensor& c) {
    return pass_of(of, x, c, [&](const Tensor& in) { return of(in); });
  };
  const Pass plain = run(block, z, cotangent), moved = run(*twin, columns.apply(z, 2), columns.apply(cotangent, 2));
  const Tensor expected = columns.apply(plain.output, 2);
  const double tolerance = page_tolerance(precision.dtype, precision.exact);

  json& body = reply.body;
  body["z"] = reply.tensor(z);
  body["moved"] = reply.tensor(columns.apply(z, 2));
  body["output"] = reply.tensor(plain.output);
  body["moved_output"] = reply.tensor(moved.output);
  body["expected"] = reply.tensor(expected);
  body["forward"] = Reply::comparison(moved.output, expected, tolerance);
  // Tied permutations are valid if heads move as wholes (mh-valid).
  body["keeps_heads"] = permute::is_block_permutation(columns, config.width_of_head());
  json& shown = body["weights"] = json::array();
  const nn::StateDict before = block.state_dict(), gradients = permute::transform(plain.gradients, axes, permutations);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto& [name, x] = before[i];
    json one{{"name", name},
             {"before", reply.tensor(x)},
             {"after", reply.tensor(weights[i].second)},
             {"gradient", reply.tensor(plain.gradients[i].second)},
             {"moved_gradient", reply.tensor(moved.gradients[i].second)},
             {"groups", json::array()}};
    for (const permute::ParameterAxes& a : axes)
      if (a.parameter == name) one["groups"] = a.groups;
    one["backward"] = Reply::comparison(moved.gradients[i].second, gradients[i].second, tolerance);
    shown.push_back(std::move(one));
  }
  json& lists = body["permutations"] = json::object();
  for (const auto& [name, p] : permutations) lists[name] = p.gather();
}

} // namespace eg::explore
