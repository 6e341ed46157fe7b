#include "permute/catalogue/given_blocks.h"

#include "autograd/tape.h"
#include "core/base/error.h"
#include "nn/bert.h"
#include "nn/decoder.h"
#include "nn/init.h"
#include "permute/catalogue/stack.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::permute {
namespace {

/// Copies of blocks in one type, whose parameters may have been moved.
class Copies : public nn::Module {
public:
  Copies(const nn::Blocks& blocks, DType dtype) {
    const nn::init::SkipScope skip; // every parameter is loaded
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      blocks_.push_back(std::make_unique<nn::Block>(blocks[i]->config, RandomKey{}));
      register_module(fmt::format("blocks.{}", i), *blocks_.back());
    }
    to(dtype);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      nn::StateDict weights = blocks[i]->state_dict();
      for (auto& [name, value] : weights) value = value.to(dtype);
      blocks_[i]->load_state_dict(weights);
    }
    eval();
  }

  struct Pass {
    Tensor output;
    nn::StateDict gradients; ///< of sum(g * gelu(output)), by parameter
  };
  Pass run(const Tensor& z, const Tensor& g) const {
    Tape tape;
    Pass pass{nn::run_blocks(blocks_, z, {}, {}), {}};
    const std::vector<nn::Parameter> all = const_cast<Copies*>(this)->named_parameters();
    std::vector<Tensor> values;
    values.reserve(all.size());
    for (const nn::Parameter& p : all) values.push_back(p.value);
    const std::vector<Tensor> found = tape.gradient(sum(g * gelu(pass.output)), values);
    for (std::size_t i = 0; i < all.size(); ++i) pass.gradients.emplace_back(all[i].name, found[i]);
    return pass;
  }

private:
  nn::Blocks blocks_;
};

/// The parts of an identity.
struct Given {
  const nn::Blocks* blocks;
  Tensor z;

  const nn::BlockConfig& config() const { return blocks->front()->config; }

  void sizes(Claim& claim) const {
    claim.sizes = {{"batch", z.size(0)},     {"tokens", z.size(1)},
                   {"dim", z.size(2)},       {"heads", config().heads},
                   {"hidden", config().mlp}, {"layers", static_cast<std::int64_t>(blocks->size())}};
  }
  Tensor cotangent(Case& c) const { return c.normal(z.shape()); }
};

/// Gradients that are rounding alone (a key's bias has none) are measured against the largest of all.
void compare_gradients(Claim& claim, const nn::StateDict& value, const nn::StateDict& expected,
                       const nn::StateDict& wrong, const char* control) {
  const auto size_of = [](const Tensor& t) { return max(abs(t).reshape({t.numel()}), 0).item(); };
  double largest = 0.0;
  for (const auto& [name, g] : expected) largest = std::max(largest, size_of(g));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& [name, g] = expected[i];
    const double floor = 1e-3 * largest;
    claim.holds.push_back({"dl/d " + name, value[i].second, g, size_of(g) < floor ? floor : 0.0, false});
    claim.differs(control, value[i].second, wrong[i].second);
  }
}

Claim rows(const Given& given, Case& c, bool gradients) {
  const Copies blocks(*given.blocks, c.dtype);
  const Tensor z = given.z.to(c.dtype), g = given.cotangent(c);
  const Tensor moved = row_permutations(z.size(0), z.size(1), c.key()),
               other = row_permutations(z.size(0), z.size(1), c.key());
  const Copies::Pass plain = blocks.run(z, g), permuted = blocks.run(permute_rows(z, moved), permute_rows(g, moved));
  Claim claim;
  given.sizes(claim);
  if (!gradients) {
    claim.equal("output", permuted.output, permute_rows(plain.output, moved));
    claim.differs("another permutation on the expected side", permuted.output, permute_rows(plain.output, other));
  } else { // l depends on which token has which cotangent
    compare_gradients(claim, permuted.gradients, plain.gradients, blocks.run(z, permute_rows(g, other)).gradients,
                      "cotangents of other tokens");
  }
  return claim;
}

Claim columns(const Given& given, Case& c, bool gradients) {
  const Copies blocks(*given.blocks, c.dtype);
  Copies moved(*given.blocks, c.dtype);
  const AxisMap axes = residual_axes(moved);
  PermutationSet key, other;
  const Permutation p = c.permutation(given.config().dim);
  key.emplace("residual", p);
  other.emplace("residual", c.another(p));
  moved.load_state_dict(transform(blocks.state_dict(), axes, key));
  const Tensor z = given.z.to(c.dtype), g = given.cotangent(c);
  const Copies::Pass plain = blocks.run(z, g), permuted = moved.run(p.apply(z, -1), p.apply(g, -1));
  Claim claim;
  given.sizes(claim);
  if (!gradients) {
    claim.equal("output", permuted.output, p.apply(plain.output, -1));
    claim.differs("the plain weights", blocks.run(p.apply(z, -1), g).output, p.apply(plain.output, -1));
  } else {
    compare_gradients(claim, permuted.gradients, transform(plain.gradients, axes, key),
                      transform(plain.gradients, axes, other), "another key's permutation on the expected side");
  }
  return claim;
}

/// Rows of fc1 (gate and up alike) and columns of fc2, in every block by a permutation of its own.
Claim hidden(const Given& given, Case& c) {
  const Copies blocks(*given.blocks, c.dtype);
  Copies moved(*given.blocks, c.dtype), half(*given.blocks, c.dtype);
  AxisMap axes, without_fc2;
  PermutationSet key;
  for (std::size_t i = 0; i < given.blocks->size(); ++i) {
    const std::string at = fmt::format("blocks.{}.mlp.", i);
    const std::int64_t width = (*given.blocks)[i]->config.mlp;
    const Permutation p = c.permutation(width);
    const bool gated = (*given.blocks)[i]->config.gated;
    key.emplace(at + "fc2", p);
    key.emplace(at + "fc1", gated ? block_permutation(Permutation::identity(2), {p, p}) : p);
    for (AxisMap* map : {&axes, &without_fc2}) {
      map->push_back({at + "fc1.weight", {at + "fc1", ""}});
      if ((*given.blocks)[i]->config.mlp_bias) map->push_back({at + "fc1.bias", {at + "fc1"}});
    }
    axes.push_back({at + "fc2.weight", {"", at + "fc2"}});
  }
  moved.load_state_dict(transform(blocks.state_dict(), axes, key));
  half.load_state_dict(transform(blocks.state_dict(), without_fc2, key));
  const Tensor z = given.z.to(c.dtype), g = given.cotangent(c), plain = blocks.run(z, g).output;
  Claim claim;
  given.sizes(claim);
  claim.equal("output", moved.run(z, g).output, plain);
  claim.differs("W_2 left as it was", half.run(z, g).output, plain);
  return claim;
}

void check(const nn::Blocks& blocks, const Tensor& z) {
  if (blocks.empty()) throw ValueError("verify: the model has no blocks");
  const nn::BlockConfig& config = blocks.front()->config;
  if (z.rank() != 3 || z.size(2) != config.dim || z.size(0) < 1 || z.size(1) < 2)
    throw ShapeError(fmt::format("verify: Z must be [batch, tokens, {}] of two tokens at least, not {}", config.dim,
                                 z.shape().str()));
  if (config.rotary.on && !config.causal)
    throw ValueError("verify: blocks with rotary positions that are not causal cannot be checked");
}

} // namespace

std::vector<Identity> block_identities(const nn::Blocks& blocks, const Tensor& z) {
  check(blocks, z);
  const Given given{&blocks, z};
  const auto row = [](const char* id, const char* title, const char* tex, std::function<Claim(Case&)> run) {
    return Identity{id, title, "CVPR", "", ClaimKind::identity, Gate::whole_model, title, tex, std::move(run)};
  };
  std::vector<Identity> all;
  if (!blocks.front()->config.causal) {
    all.push_back(row("thm4.1", "all blocks and row permutations, output",
                      R"(\mathrm{Enc}(P_R Z) = P_R\, \mathrm{Enc}(Z))",
                      [given](Case& c) { return rows(given, c, false); }));
    all.push_back(row("thm4.2", "all blocks and row permutations, gradients of every parameter",
                      R"(\partial l/\partial W_{(R)} = \partial l/\partial W)",
                      [given](Case& c) { return rows(given, c, true); }));
  }
  all.push_back(row("thm4.4", "all blocks and a permuted residual stream, output",
                    R"(\mathrm{Enc}_{(P)}(Z P_C) = \mathrm{Enc}(Z) P_C)",
                    [given](Case& c) { return columns(given, c, false); }));
  all.push_back(row("thm4.5", "all blocks and a permuted residual stream, gradients of every parameter",
                    R"(\partial l/\partial W_{(P)} = P_{out}^\top\, \partial l/\partial W\, P_{in})",
                    [given](Case& c) { return columns(given, c, true); }));
  all.push_back(row("lem9.4", "hidden axes of all MLPs, output", R"(W_{1(P)} = P_t^\top W_1,\ W_{2(P)} = W_2 P_t)",
                    [given](Case& c) { return hidden(given, c); }));
  return all;
}

std::int64_t vocabulary_of(const hub::Model& model) {
  if (const auto* bert = dynamic_cast<const nn::Bert*>(&model.module())) return bert->config.vocabulary;
  if (const auto* decoder = dynamic_cast<const nn::Decoder*>(&model.module())) return decoder->config.vocabulary;
  throw ValueError("this model has no vocabulary");
}

std::vector<Identity> model_rows(const hub::Model& model, const VerifyOptions& options) {
  if (model.blocks().empty()) throw ValueError("the model has no blocks to check");
  hub::Tensors inputs = model.input_shapes(options.batch);
  for (auto& [name, like] : inputs) {
    const RandomKey key{options.seed, 1};
    if (is_floating(like.dtype())) {
      like = random_normal(like.shape(), key, 0.0, 1.0, model.module().parameters().front().dtype());
      continue;
    }
    like = random_integers({options.batch, std::min(options.tokens, model.positions())}, key, 0, vocabulary_of(model));
  }
  Tensor z;
  model.forward_around(inputs, [&](const Tensor& entered, const Tensor&) { return z = entered; });
  return block_identities(model.blocks(), z);
}

} // namespace eg::permute
