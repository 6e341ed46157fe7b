// Set Transformer: formulas, gradients, equivariance and invariance forward and backward, padding, refusals, learning.

#include "autograd/tape.h"
#include "core/reduction.h"
#include "nn/set_transformer.h"
#include "optim/optimizer.h"
#include "support/message.h"
#include "unit/nn_model_checks.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace eg;
using namespace eg::nn;
using eg::test::message_of;

namespace {

SetBlockConfig block_config(Activation activation = Activation::silu, bool norm = true) {
  SetBlockConfig c;
  c.dim = 6;
  c.heads = 3;
  c.head_dim = 4;
  c.hidden = 7;
  c.activation = activation;
  c.norm = norm;
  return c;
}

Tensor random64(const Shape& shape, std::uint64_t stream) {
  return random_normal(shape, {41, stream}, 0.0, 1.0, DType::f64);
}

/// A permutation of the elements for each of `sets` sets, none of them the identity.
Tensor orders(std::int64_t sets, std::int64_t elements, std::uint64_t seed) {
  std::vector<Tensor> list;
  for (std::int64_t b = 0; b < sets; ++b)
    list.push_back(random_nonidentity_permutation(elements, RandomKey{seed, 0}.fold(static_cast<std::uint64_t>(b))));
  return stack(list, 0);
}

/// Softmax attention of x to y with `mab`'s weights, made of elementary operations.
Tensor mab_by_hand(const Mab& mab, const Tensor& x, const Tensor& y) {
  const CrossAttention& a = mab.attention;
  const std::int64_t wide = a.heads * a.head_dim;
  const Tensor q = linear(x, a.q.weight, a.q.bias), both = linear(y, a.kv.weight, a.kv.bias);
  std::vector<Tensor> heads;
  for (std::int64_t h = 0; h < a.heads; ++h) {
    const auto part = [&](const Tensor& t, std::int64_t from) {
      return t.slice(-1, from + h * a.head_dim, from + (h + 1) * a.head_dim);
    };
    const Tensor scores = matmul(part(q, 0), part(both, 0), false, true) / std::sqrt(static_cast<double>(a.head_dim));
    heads.push_back(matmul(softmax(scores), part(both, wide)));
  }
  Tensor h = x + linear(concat(heads, -1), a.proj.weight, a.proj.bias);
  if (mab.norm1) h = layer_norm(h, mab.norm1->weight, mab.norm1->bias, mab.norm1->eps);
  Tensor z = h + linear(activate(linear(h, mab.mlp.fc1.weight, mab.mlp.fc1.bias), mab.mlp.activation),
                        mab.mlp.fc2.weight, mab.mlp.fc2.bias);
  return mab.norm2 ? layer_norm(z, mab.norm2->weight, mab.norm2->bias, mab.norm2->eps) : z;
}

/// Value and gradients (by the input, by each parameter) of <v, f(x)>.
struct Passed {
  Tensor y, by_input;
  std::vector<Tensor> by_parameters;
};
template <class F> Passed pass(const Module& model, F&& f, const Tensor& x, const Tensor& cotangent) {
  std::vector<Tensor> by = model.parameters();
  by.push_back(x);
  Tape tape;
  Passed p{.y = f(x), .by_input = {}, .by_parameters = {}};
  p.by_parameters = tape.gradient(p.y, by, cotangent);
  p.by_input = p.by_parameters.back();
  p.by_parameters.pop_back();
  return p;
}

double worst(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double error = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) error = std::max(error, relative_error(a[i], b[i]));
  return error;
}

/// How far f is from y(P x) = P y(x) with gradients that follow.
struct Broken {
  double forward, by_input, by_parameters;
};
template <class F>
Broken equivariance_error(const Module& model, F&& f, const Tensor& x, const Tensor& order, bool pooled) {
  const Tensor y = f(x);
  const Tensor v = random64(y.shape(), 99);
  const auto moved = [&](const Tensor& t) { return permute_rows(t, order); };
  const Passed plain = pass(model, f, x, v), permuted = pass(model, f, moved(x), pooled ? v : moved(v));
  return {relative_error(permuted.y, pooled ? plain.y : moved(plain.y)),
          relative_error(permuted.by_input, moved(plain.by_input)), worst(permuted.by_parameters, plain.by_parameters)};
}

void check_small(const Broken& b) {
  CHECK(b.forward < 1e-12);
  CHECK(b.by_input < 1e-11);
  CHECK(b.by_parameters < 1e-11);
}
void check_large(const Broken& b) {
  CHECK(b.forward > 1e-3);
  CHECK(b.by_input > 1e-3);
  CHECK(b.by_parameters > 1e-3);
}

} // namespace

TEST_CASE("Set Transformer: names and shapes of its parameters") {
  SetTransformerConfig c;
  c.block = block_config();
  c.block.head_dim = 2;
  c.layers = 1;
  c.inducing = 5;
  c.seeds = 2;
  c.inputs = 3;
  c.decoder_layers = 0;
  std::vector<std::string> expected{"input.weight [6, 3]", "input.bias [6]", "encoder.0.inducing [1, 5, 6]"};
  const auto mab = [&](const std::string& place) {
    for (const char* rest : {"attention.q.weight [6, 6]", "attention.q.bias [6]", "attention.kv.weight [12, 6]",
                             "attention.kv.bias [12]", "attention.proj.weight [6, 6]", "attention.proj.bias [6]",
                             "norm1.weight [6]", "norm1.bias [6]", "mlp.fc1.weight [7, 6]", "mlp.fc1.bias [7]",
                             "mlp.fc2.weight [6, 7]", "mlp.fc2.bias [6]", "norm2.weight [6]", "norm2.bias [6]"})
      expected.push_back(place + rest);
  };
  mab("encoder.0.to_points.");
  mab("encoder.0.from_points.");
  for (const char* rest :
       {"seeds [1, 2, 6]", "mlp.fc1.weight [7, 6]", "mlp.fc1.bias [7]", "mlp.fc2.weight [6, 7]", "mlp.fc2.bias [6]"})
    expected.push_back(std::string("pooling.") + rest);
  mab("pooling.mab.");
  expected.emplace_back("head.weight [1, 6]");
  expected.emplace_back("head.bias [1]");
  CHECK(test::parameter_list(SetTransformer(c, {1, 0})) == expected);
}

TEST_CASE("Set Transformer: the blocks are what the paper's formulas say") {
  for (const bool norm : {true, false}) {
    CAPTURE(norm);
    const SetBlockConfig c = block_config(Activation::relu, norm);
    const Tensor x = random64({2, 5, 6}, 0), y = random64({2, 4, 6}, 1);
    Mab mab(c, {1, 0});
    test::make_lively(mab);
    CHECK(relative_error(mab(x, y), mab_by_hand(mab, x, y)) < 1e-12);
    CHECK(relative_error(mab(x, x), mab_by_hand(mab, x, y)) > 1e-2); // control
    Sab sab(c, {2, 0});
    test::make_lively(sab);
    CHECK(relative_error(sab(x), mab_by_hand(sab.mab, x, x)) < 1e-12);
    Isab isab(c, 3, {3, 0});
    test::make_lively(isab);
    const Tensor points = isab.inducing.expand({2, 3, 6});
    CHECK(relative_error(isab(x), mab_by_hand(isab.from_points, x, mab_by_hand(isab.to_points, points, x))) < 1e-12);
    Pma pma(c, 2, {4, 0});
    test::make_lively(pma);
    CHECK(relative_error(pma(x), mab_by_hand(pma.mab, pma.seeds.expand({2, 2, 6}), pma.mlp(x))) < 1e-12);
  }
}

TEST_CASE("Set Transformer: gradients by elements and parameters, with padding, once and twice") {
  const Tensor x = random64({2, 4, 3}, 2);
  const Tensor valid = Tensor::from<std::int64_t>({1, 1, 0, 1, 1, 1, 1, 0}, {2, 4}).to(DType::boolean);
  for (const std::int64_t inducing : {0, 2}) {
    CAPTURE(inducing);
    SetTransformerConfig c;
    c.inputs = 3;
    c.outputs = 2;
    c.layers = 1;
    c.inducing = inducing;
    c.seeds = 2;
    c.block = block_config();
    SetTransformer model(c, {5, 0});
    test::make_lively(model);
    for (const Tensor& mask : {Tensor(), valid}) {
      const auto forward = [&](const std::vector<Tensor>& in) { return model(in[0], mask); };
      const CheckResult first = test::gradcheck_model(model, {x}, forward);
      CHECK_MESSAGE(first.pass, first.detail);
      const CheckResult second = test::gradcheck_model(model, {x}, forward, {.directions = 1, .second = true});
      CHECK_MESSAGE(second.pass, second.detail);
    }
  }
}

TEST_CASE("Set Transformer: SAB and ISAB are equivariant, forward and backward, and not when positions are added") {
  const Tensor x = random64({3, 6, 6}, 3), order = orders(3, 6, 7), positions = random64({6, 6}, 4);
  Sab sab(block_config(Activation::relu), {6, 0});
  test::make_lively(sab);
  check_small(equivariance_error(
      sab, [&](const Tensor& t) { return sab(t); }, x, order, false));
  check_large(equivariance_error(
      sab, [&](const Tensor& t) { return sab(t + positions); }, x, order, false));
  Isab isab(block_config(Activation::relu), 4, {8, 0});
  test::make_lively(isab);
  check_small(equivariance_error(
      isab, [&](const Tensor& t) { return isab(t); }, x, order, false));
  check_large(equivariance_error(
      isab, [&](const Tensor& t) { return isab(t + positions); }, x, order, false));
}

TEST_CASE("Set Transformer: PMA and the whole model are invariant, forward and backward; gradients by elements move") {
  // The CVPR paper (section 4.2) says that PMA leaves dL/dZ as it is and misaligns weight gradients. It does neither.
  const Tensor x = random64({3, 6, 6}, 5), order = orders(3, 6, 9), positions = random64({6, 6}, 6);
  Pma pma(block_config(Activation::relu), 2, {10, 0});
  test::make_lively(pma);
  const auto f = [&](const Tensor& t) { return pma(t); };
  check_small(equivariance_error(pma, f, x, order, true));
  check_large(equivariance_error(
      pma, [&](const Tensor& t) { return pma(t + positions); }, x, order, true));
  const Tensor v = random64({3, 2, 6}, 7);
  CHECK(relative_error(pass(pma, f, permute_rows(x, order), v).by_input, pass(pma, f, x, v).by_input) > 1e-2);

  SetTransformerConfig c;
  c.inputs = 6;
  c.inducing = 3;
  c.seeds = 2;
  c.block = block_config(Activation::relu);
  SetTransformer model(c, {11, 0});
  test::make_lively(model);
  check_small(equivariance_error(
      model, [&](const Tensor& t) { return model(t); }, x, order, true));
  check_large(equivariance_error(
      model, [&](const Tensor& t) { return model(t + positions); }, x, order, true));
}

TEST_CASE("Set Transformer: in exact mode the equalities hold bit for bit") {
  const ReductionScope exact(Reduction::exact);
  SetTransformerConfig c;
  c.inputs = 5;
  c.inducing = 3;
  c.block = block_config(Activation::relu);
  SetTransformer model(c, {11, 0});
  const Tensor x = random_normal({2, 9, 5}, {12, 0}), order = orders(2, 9, 13);
  CHECK(same_bits(model(permute_rows(x, order)), model(x)));
}

TEST_CASE("Set Transformer: padded sets give what the sets alone give, whatever stands in the padding") {
  SetTransformerConfig c;
  c.inputs = 3;
  c.seeds = 2;
  c.outputs = 2;
  c.block = block_config();
  for (const std::int64_t inducing : {0, 4}) {
    CAPTURE(inducing);
    c.inducing = inducing;
    SetTransformer model(c, {14, 0});
    test::make_lively(model);
    const Tensor x = random64({2, 5, 3}, 8);
    // The first set has the elements 0, 2 and 3, the second one all.
    const Tensor valid = Tensor::from<std::int64_t>({1, 0, 1, 1, 0, 1, 1, 1, 1, 1}, {2, 5}).to(DType::boolean);
    const Tensor first = index_select(x.slice(0, 0, 1), 1, Tensor::from<std::int64_t>({0, 2, 3}, {3}));
    const Tensor y = model(x, valid);
    CHECK(relative_error(y.slice(0, 0, 1), model(first)) < 1e-12);
    CHECK(relative_error(y.slice(0, 1, 2), model(x.slice(0, 1, 2))) < 1e-12);
    CHECK(relative_error(y, model(x)) > 1e-3); // control: without the mask it is another number
    const Tensor other = where(valid.unsqueeze(-1), x, random64({2, 5, 3}, 9) * 10.0);
    CHECK(relative_error(model(other, valid), y) < 1e-12);
    const Tensor g = pass(
                         model, [&](const Tensor& t) { return model(t, valid); }, x, random64({2, 2, 2}, 10))
                         .by_input;
    for (const std::int64_t padded : {1, 4})
      CHECK(relative_error(g.select(0, 0).select(0, padded), Tensor::zeros({3}, DType::f64)) == 0.0);
    CHECK(relative_error(g.select(0, 0).select(0, 2), Tensor::zeros({3}, DType::f64)) > 0.0);
    // permuted together with its mask, a padded set is the same set
    const Tensor order = orders(2, 5, 15);
    CHECK(relative_error(model(permute_rows(x, order), gather(valid, 1, order)), y) < 1e-12);
  }
}

TEST_CASE("Set Transformer: f32 follows f64; a state dict carries a model over") {
  SetTransformerConfig c;
  c.inputs = 4;
  c.inducing = 3;
  c.block = block_config();
  SetTransformer a(c, {16, 0}), b(c, {17, 0});
  const Tensor x = random_normal({2, 7, 4}, {18, 0});
  CHECK_FALSE(same_bits(a(x), b(x)));
  b.load_state_dict(a.state_dict());
  CHECK(same_bits(a(x), b(x)));
  const Tensor narrow = a(x);
  a.to(DType::f64);
  CHECK(relative_error(narrow.to(DType::f64), a(x.to(DType::f64))) < 2e-5);
}

TEST_CASE("Set Transformer: what it refuses, and with which words") {
  SetTransformerConfig good;
  good.inputs = 4;
  good.block = block_config();
  const SetTransformer model(good, {1, 0});
  const Tensor x = random_normal({2, 3, 4}, {1, 1}), h = random_normal({2, 3, 6}, {1, 2});
  CHECK(message_of<ShapeError>([&] {
          model(x, Tensor::ones({2, 4}, DType::boolean));
        }) == "set transformer: valid must be [2, 3], one for each element, not [2, 4]");
  CHECK(message_of<DTypeError>([&] {
          model(x, Tensor::ones({2, 3}));
        }) == "set transformer: valid must be bool, it is f32");
  CHECK(message_of<ShapeError>([&] { model.pooling.mab(h.slice(-1, 0, 5), h); }) ==
        "set transformer: x must be [batch, elements, 6], not [2, 3, 5]");
  CHECK(message_of<ShapeError>([&] {
          model.pooling.mab(random_normal({3, 2, 6}, {1, 3}), h);
        }) == "set transformer: x and y differ in their number of sets: x is [3, 2, 6], y is [2, 3, 6]");
  const auto refused = [&](auto change) {
    SetTransformerConfig c = good;
    change(c);
    return message_of<ValueError>([&] { SetTransformer(c, {}); });
  };
  CHECK(refused([](auto& c) { c.inputs = 0; }) == "set transformer: inputs must be positive, not 0");
  CHECK(refused([](auto& c) { c.seeds = 0; }) == "set transformer: seeds must be positive, not 0");
  CHECK(refused([](auto& c) { c.inducing = -2; }) == "set transformer: inducing must be positive, not -2");
  CHECK(refused([](auto& c) { c.layers = -1; }) == "set transformer: layers must not be negative, not -1");
  CHECK(refused([](auto& c) {
          c.block.heads = 4;
          c.block.head_dim = 0;
        }) == "set transformer: dim 6 is not a multiple of heads 4; give head_dim");
  CHECK(refused([](auto& c) { c.block.head_dim = -1; }) == "set transformer: head_dim must not be negative, not -1");
  CHECK(refused([](auto& c) { c.block.norm_eps = 0.0; }) ==
        "set transformer: norm_eps must be positive and at most 1, not 0");
  CHECK(refused([](auto& c) { c.block.hidden = 1 << 21; }) ==
        "set transformer: hidden must be at most 1048576, not 2097152");
  CHECK(message_of<ValueError>([] { Isab(block_config(), 0, {}); }) ==
        "set transformer: inducing must be positive, not 0");
}

TEST_CASE("Set Transformer: learns the largest number of a set (Lee et al., section 5.1), sets of all sizes") {
  SetTransformerConfig c;
  c.inputs = 1;
  c.layers = 1;
  c.decoder_layers = 0;
  c.block = {.dim = 16, .heads = 4, .hidden = 16, .norm = false};
  const SetTransformer model(c, {20, 0});
  const std::vector<Tensor> parameters = model.parameters();
  const auto optimizer = optim::make_optimizer("adam", parameters);
  struct Batch {
    Tensor x, valid, largest;
  };
  const auto batch = [](std::uint64_t seed) {
    const Tensor x = random_uniform({64, 8, 1}, {21, seed}, 0.0, 1.0);
    const Tensor sizes = random_integers({64, 1}, {22, seed}, 1, 9);
    const Tensor valid = lt(Tensor::arange(8).reshape({1, 8}).expand({64, 8}), sizes.expand({64, 8}));
    return Batch{x, valid, amax(where(valid, x.squeeze(-1), Tensor::zeros({64, 8})), {1})};
  };
  const auto loss_of = [&](const Batch& b) { return mse_loss(model(b.x, b.valid).reshape({64}), b.largest); };
  const Batch held_out = batch(1000);
  const double before = loss_of(held_out).item();
  for (std::uint64_t step = 0; step < 150; ++step) {
    const Batch b = batch(step);
    Tape tape;
    optimizer->step(tape.gradient(loss_of(b), parameters), 3e-3);
  }
  const double after = loss_of(held_out).item(), spread = var(held_out.largest).item();
  CAPTURE(before);
  CAPTURE(after);
  CHECK(after < 0.1 * before);
  CHECK(after < 0.1 * spread); // control: the mean of all sets would leave `spread`
}
