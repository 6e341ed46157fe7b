#include "core/ops.h"
#include "core/reduction.h"
#include "permute/blocks_key.h"
#include "permute/key.h"

#include <cmath>
#include <doctest/doctest.h>

namespace {

using namespace eg::permute;
using eg::Tensor;

eg::nn::BlockConfig small() {
  eg::nn::BlockConfig config;
  config.dim = 12;
  config.heads = 3;
  config.head_dim = 4;
  config.mlp = 10;
  return config;
}

TEST_CASE("axes: a gather on every named axis, undone by the inverse") {
  const Tensor w = eg::random_normal({4, 3}, {1, 0}, 0, 1, eg::DType::f64);
  const PermutationSet set{{"out", Permutation({2, 0, 3, 1})}, {"in", Permutation({1, 2, 0})}};
  const ParameterAxes axes{"w", {"out", "in"}};
  const Tensor moved = transform(w, axes, set);
  for (std::int64_t i = 0; i < 4; ++i)
    for (std::int64_t j = 0; j < 3; ++j) CHECK(moved.at({i, j}) == w.at({set.at("out")[i], set.at("in")[j]}));
  CHECK(eg::same_bits(transform(moved, axes, inverse(set)), w));
}

TEST_CASE("axes: refusals name the parameter") {
  const PermutationSet set{{"a", Permutation({1, 0})}};
  const Tensor w = Tensor::zeros({3, 2});
  CHECK_THROWS_WITH_AS(transform(w, {"w", {"a"}}, set), doctest::Contains("\"w\" is [3, 2]"), eg::ShapeError);
  CHECK_THROWS_WITH_AS(transform(w, {"w", {"a", ""}}, set), doctest::Contains("axis 0 of parameter \"w\""),
                       eg::ShapeError);
  CHECK_THROWS_WITH_AS(transform(w, {"w", {"", "b"}}, set), doctest::Contains("no permutation for group \"b\""),
                       eg::ValueError);
  CHECK_THROWS_WITH_AS(transform(eg::nn::StateDict{}, AxisMap{{"w", {"", "a"}}}, set),
                       doctest::Contains("no tensor named"), eg::ValueError);
}

TEST_CASE("axes: from one key to another without the plain weights") {
  const PermutationSet from{{"g", Permutation::random_nonidentity(9, {1, 1})}};
  const PermutationSet to{{"g", Permutation::random_nonidentity(9, {1, 2})}};
  const Tensor w = eg::random_normal({9}, {1, 3});
  const ParameterAxes axes{"w", {"g"}};
  CHECK(eg::same_bits(transform(transform(w, axes, from), axes, between(from, to)), transform(w, axes, to)));
  CHECK_THROWS_AS(between(from, {}), eg::ValueError);
  CHECK_THROWS_AS(between({}, from), eg::ValueError);
}

TEST_CASE("keys: block permutations are the wreath product") {
  const Permutation p = block_permutation(Permutation({1, 0}), {Permutation({2, 0, 1}), Permutation({0, 2, 1})});
  CHECK(p.gather() == std::vector<std::int64_t>{5, 3, 4, 0, 2, 1});
  CHECK(is_block_permutation(p, 3));
  CHECK_FALSE(is_block_permutation(p, 2));
  CHECK_FALSE(is_block_permutation(Permutation({0, 3, 2, 1}), 2));
  CHECK_FALSE(is_block_permutation(p, 4));
}

TEST_CASE("keys: forms have the structure that they promise") {
  const auto config = small();
  const BlocksKey tied = BlocksKey::random(config, 2, KeyForm::tied, {7, 0});
  CHECK(is_block_permutation(tied.residual, 4));
  CHECK(tied.blocks[1].qk == tied.residual);
  CHECK(tied.blocks[1].v == tied.residual);
  CHECK(tied.blocks[0].hidden.is_identity());

  const BlocksKey paper = BlocksKey::random(config, 2, KeyForm::paper, {7, 0});
  for (std::int64_t h = 0; h < 3; ++h)
    for (std::int64_t i = 0; i < 4; ++i) CHECK(paper.residual[h * 4 + i] % 4 == paper.residual[i] % 4);

  const BlocksKey free = BlocksKey::random(config, 2, KeyForm::decoupled, {7, 0});
  CHECK(free.blocks[0].qk != free.blocks[1].qk);
  for (const BlockKey& block : free.blocks) {
    CHECK(is_block_permutation(block.qk, 4));
    CHECK(is_block_permutation(block.v, 4));
    CHECK(block.qk != block.v);
    CHECK_FALSE(block.hidden.is_identity());
    for (std::int64_t i = 0; i < 12; ++i) CHECK(block.qk[i] / 4 == block.v[i] / 4);
  }
  const BlocksKey residual = BlocksKey::random(config, 2, KeyForm::residual, {7, 0});
  CHECK_FALSE(residual.residual.is_identity());
  CHECK(residual.blocks[0].qk.is_identity());
}

TEST_CASE("keys: tied forms need a square attention, decoupled ones do not") {
  auto config = small();
  config.head_dim = 5;
  CHECK_THROWS_WITH_AS(BlocksKey::random(config, 1, KeyForm::tied, {}), doctest::Contains("3 * 5 is not 12"),
                       eg::ValueError);
  const BlocksKey key = BlocksKey::random(config, 1, KeyForm::decoupled, {});
  CHECK(key.blocks[0].qk.size() == 15);
  CHECK(key.permutations(config).at("blocks.0.qkv").size() == 45);
  CHECK(key_form_named("tied") == KeyForm::tied);
  CHECK_THROWS_WITH_AS(key_form_named("free"), doctest::Contains("paper, tied, decoupled, residual"), eg::ValueError);
}

TEST_CASE("keys: the fused projection's rows are (which, head, inner)") {
  const auto config = small();
  const BlocksKey key = BlocksKey::random(config, 1, KeyForm::decoupled, {8, 0});
  const Permutation qkv = key.permutations(config).at("blocks.0.qkv");
  for (std::int64_t i = 0; i < 12; ++i) {
    CHECK(qkv[i] == key.blocks[0].qk[i]);
    CHECK(qkv[12 + i] == 12 + key.blocks[0].qk[i]);
    CHECK(qkv[24 + i] == 24 + key.blocks[0].v[i]);
  }
}

TEST_CASE("keys: secret keys draw for every site") {
  const auto config = small();
  const SecretKey secret = SecretKey::generate();
  const BlocksKey a = BlocksKey::draw(config, 2, KeyForm::decoupled, secret.source("m"));
  const BlocksKey b = BlocksKey::draw(config, 2, KeyForm::decoupled, secret.source("m"));
  CHECK(a.permutations(config) == b.permutations(config));
  CHECK(a.permutations(config) !=
        BlocksKey::draw(config, 2, KeyForm::decoupled, secret.source("n")).permutations(config));
}

TEST_CASE("keys: a ViT's map moves every parameter of the encoder, and the edges when asked") {
  eg::nn::VitConfig config;
  config.encoder = small();
  config.layers = 2;
  CHECK(vit_axes(config).size() == 24);
  CHECK(vit_axes(config, KeyScope::model).size() == 24 + 7);
  config.position = eg::nn::PositionEmbedding::sinusoidal;
  CHECK_THROWS_WITH_AS(vit_axes(config, KeyScope::model), doctest::Contains("sinusoidal"), eg::ValueError);
}

TEST_CASE("axes: optimiser state moves with the weights, and training goes on as if nothing had been") {
  const std::vector<std::string> names = {"w", "b"};
  const AxisMap axes = {{"w", {"out", "in"}}, {"b", {"out"}}};
  const PermutationSet set{{"out", Permutation::random_nonidentity(5, {2, 1})},
                           {"in", Permutation::random_nonidentity(4, {2, 2})}};
  const eg::ReductionScope exact(eg::Reduction::exact); // the means of Adafactor and the products of Muon are sums
  for (const char* name : {"momentum", "adam", "adamw", "rmsprop", "lion", "adafactor", "muon"}) {
    INFO(name);
    const auto draw = [](std::uint64_t i) {
      return eg::nn::StateDict{{"w", eg::random_normal({5, 4}, {3, i})}, {"b", eg::random_normal({5}, {4, i})}};
    };
    const auto values = [](const eg::nn::StateDict& state) {
      return std::vector<Tensor>{state[0].second.clone(), state[1].second.clone()};
    };
    std::vector<Tensor> plain = values(draw(0)), moved = values(draw(0));
    const auto a = eg::optim::make_optimizer(name, plain, 0.1), b = eg::optim::make_optimizer(name, moved, 0.1);
    for (std::uint64_t step = 1; step <= 3; ++step) {
      a->step(values(draw(step)), 0.01);
      b->step(values(draw(step)), 0.01);
    }
    // from here on, b lives in the permuted world
    moved[0].copy_from(transform(moved[0], axes[0], set));
    moved[1].copy_from(transform(moved[1], axes[1], set));
    transform_optimizer(*b, names, axes, set);
    for (std::uint64_t step = 4; step <= 6; ++step) {
      a->step(values(draw(step)), 0.01);
      b->step(values(transform(draw(step), axes, set)), 0.01);
    }
    CHECK(eg::same_bits(moved[0], transform(plain[0], axes[0], set)));
    CHECK(eg::same_bits(moved[1], transform(plain[1], axes[1], set)));
    CHECK_THROWS_WITH_AS(transform_optimizer(*b, {"w"}, axes, set), doctest::Contains("1 names were given"),
                         eg::ValueError);
    CHECK_THROWS_WITH_AS(transform_optimizer(*b, {"w", "c"}, axes, set), doctest::Contains("no parameter named \"b\""),
                         eg::ValueError);
  }
}

TEST_CASE("axes: a module's parameters move in place and come back") {
  eg::nn::VitConfig config;
  config.image = 8;
  config.encoder = small();
  config.layers = 2;
  eg::nn::Vit vit(config, {5, 0});
  const eg::nn::StateDict handles = vit.state_dict();
  eg::nn::StateDict before;
  for (const auto& [name, value] : handles) before.emplace_back(name, value.clone());
  const BlocksKey key = BlocksKey::random(config.encoder, config.layers, KeyForm::decoupled, {6, 0});
  const AxisMap axes = vit_axes(config);
  const PermutationSet set = key.permutations(config.encoder);
  transform_module(vit, axes, set);
  std::size_t changed = 0;
  for (std::size_t i = 0; i < handles.size(); ++i)
    changed += eg::same_bits(handles[i].second, before[i].second) ? 0 : 1;
  // the four matrices of each block; norm weights and biases are constant as initialised
  CHECK(changed == 2 * 4);
  transform_module(vit, axes, inverse(set));
  for (std::size_t i = 0; i < handles.size(); ++i) CHECK(eg::same_bits(handles[i].second, before[i].second));
}

TEST_CASE("keys: sizes of the key spaces of ViT-Base") {
  eg::nn::BlockConfig base;
  base.dim = 768;
  base.heads = 12;
  base.head_dim = 64;
  base.mlp = 3072;
  CHECK(std::round(log2_count(base, 12, KeyForm::paper)) == 325);
  CHECK(std::round(log2_count(base, 12, KeyForm::tied)) == 3581);
  CHECK(std::round(log2_count(base, 12, KeyForm::residual)) == 6259);
}

} // namespace
