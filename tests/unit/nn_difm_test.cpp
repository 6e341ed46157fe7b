// DIFM: its formula in plain loops, gradients, what permuted fields do to its two parts, refusals, learning.

#include "autograd/tape.h"
#include "nn/difm.h"
#include "nn/metrics.h"
#include "optim/optimizer.h"
#include "support/criteo.h"
#include "support/message.h"
#include "unit/nn_model_checks.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace eg;
using namespace eg::nn;
using eg::test::message_of;

namespace {

DifmConfig small(Activation activation = Activation::silu) {
  DifmConfig c;
  c.vocabularies = {5, 3, 7};
  c.numeric = 2;
  c.dim = 3;
  c.heads = 2;
  c.head_dim = 4;
  c.hidden = {6, 5};
  c.activation = activation;
  return c;
}

/// Rows for the config above; the largest ids occur.
struct Rows {
  Tensor ids = Tensor::from<std::int64_t>({4, 0, 6, 1, 2, 0, 0, 1, 3, 4, 2, 6}, {4, 3});
  Tensor values = random_normal({4, 2}, {21, 0}, 0.5, 1.0, DType::f64);
};

double value_at(const Tensor& x, std::initializer_list<std::int64_t> index) { return x.at(index); }

/// The logit of one row as the paper writes it, in plain loops.
double logit_in_loops(const Difm& model, const Rows& rows, std::int64_t row) {
  const DifmConfig& c = model.config;
  const std::int64_t fields = c.fields(), wide = c.heads * c.head_dim;
  using Matrix = std::vector<std::vector<double>>;
  const auto zeros = [](std::int64_t n, std::int64_t m) {
    return Matrix(static_cast<std::size_t>(n), std::vector<double>(static_cast<std::size_t>(m), 0.0));
  };
  const auto z = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const auto silu_of = [](double x) { return x / (1.0 + std::exp(-x)); };
  Matrix e = zeros(fields, c.dim), first = zeros(fields, 1);
  std::int64_t offset = 0;
  for (std::int64_t f = 0; f < fields; ++f) {
    const bool is_id = f < c.categorical();
    const std::int64_t at = is_id ? offset + static_cast<std::int64_t>(rows.ids.at({row, f})) : f - c.categorical();
    const double x = is_id ? 1.0 : rows.values.at({row, at});
    const auto read = [&](const FieldEmbedding& table, std::int64_t j) {
      return x * value_at(is_id ? table.weight : table.numeric_weight, {at, j});
    };
    for (std::int64_t j = 0; j < c.dim; ++j) e[z(f)][z(j)] = read(model.embedding, j);
    first[z(f)][0] = read(model.first_order, 0);
    if (is_id) offset += c.vocabularies[z(f)];
  }
  const auto project = [&](const Tensor& weight, std::int64_t first_row, const std::vector<double>& x) {
    std::vector<double> y(z(wide), 0.0);
    for (std::int64_t o = 0; o < wide; ++o)
      for (std::size_t i = 0; i < x.size(); ++i)
        y[z(o)] += weight.at({first_row + o, static_cast<std::int64_t>(i)}) * x[i];
    return y;
  };
  Matrix q, k, v, out;
  for (std::int64_t f = 0; f < fields; ++f) {
    q.push_back(project(model.qkv.weight, 0, e[z(f)]));
    k.push_back(project(model.qkv.weight, wide, e[z(f)]));
    v.push_back(project(model.qkv.weight, 2 * wide, e[z(f)]));
    out.push_back(project(model.residual.weight, 0, e[z(f)]));
  }
  for (std::int64_t f = 0; f < fields; ++f)
    for (std::int64_t h = 0; h < c.heads; ++h) {
      std::vector<double> score(z(fields), 0.0);
      double total = 0.0;
      for (std::int64_t g = 0; g < fields; ++g) {
        for (std::int64_t i = h * c.head_dim; i < (h + 1) * c.head_dim; ++i)
          score[z(g)] += q[z(f)][z(i)] * k[z(g)][z(i)] / std::sqrt(static_cast<double>(c.head_dim));
        total += score[z(g)] = std::exp(score[z(g)]);
      }
      for (std::int64_t g = 0; g < fields; ++g)
        for (std::int64_t i = h * c.head_dim; i < (h + 1) * c.head_dim; ++i)
          out[z(f)][z(i)] += score[z(g)] / total * v[z(g)][z(i)];
    }
  std::vector<double> o;
  for (const auto& row_of_e : e) o.insert(o.end(), row_of_e.begin(), row_of_e.end());
  for (const auto& layer : model.layers) {
    std::vector<double> next(z(layer->weight.size(0)));
    for (std::int64_t i = 0; i < layer->weight.size(0); ++i) {
      next[z(i)] = layer->bias.at({i});
      for (std::size_t j = 0; j < o.size(); ++j)
        next[z(i)] += layer->weight.at({i, static_cast<std::int64_t>(j)}) * o[j];
      next[z(i)] = silu_of(next[z(i)]);
    }
    o = next;
  }
  double logit = model.bias.at({0});
  std::vector<double> m(z(fields), 0.0);
  for (std::int64_t f = 0; f < fields; ++f) {
    for (std::int64_t g = 0; g < fields; ++g)
      for (std::int64_t i = 0; i < wide; ++i)
        m[z(f)] += model.vector_factor.weight.at({f, g * wide + i}) * silu_of(out[z(g)][z(i)]);
    for (std::size_t j = 0; j < o.size(); ++j)
      m[z(f)] += model.bit_factor.weight.at({f, static_cast<std::int64_t>(j)}) * o[j];
    logit += m[z(f)] * first[z(f)][0];
  }
  for (std::int64_t f = 0; f < fields; ++f)
    for (std::int64_t g = f + 1; g < fields; ++g)
      for (std::int64_t j = 0; j < c.dim; ++j) logit += m[z(f)] * e[z(f)][z(j)] * m[z(g)] * e[z(g)][z(j)];
  return logit;
}

/// Columns of a matrix that belong to fields, `width` to each, in another order of the fields.
Tensor by_fields(const Tensor& order, std::int64_t width) {
  return (order.to(DType::f64).unsqueeze(-1) * static_cast<double>(width) + Tensor::arange(width, DType::f64))
      .reshape({order.numel() * width})
      .to(DType::i64);
}

} // namespace

TEST_CASE("DIFM: names and shapes of its parameters") {
  CHECK(test::parameter_list(Difm(small(), {1, 0})) ==
        std::vector<std::string>{"embedding.weight [15, 3]", "embedding.numeric_weight [2, 3]",
                                 "first_order.weight [15, 1]", "first_order.numeric_weight [2, 1]", "bias [1]",
                                 "qkv.weight [24, 3]", "residual.weight [8, 3]", "layers.0.weight [6, 15]",
                                 "layers.0.bias [6]", "layers.1.weight [5, 6]", "layers.1.bias [5]",
                                 "vector_factor.weight [5, 40]", "bit_factor.weight [5, 5]"});
}

TEST_CASE("DIFM: logits are those of the paper's formula in plain loops, and f32 follows f64") {
  Difm model(small(), {1, 0});
  test::make_lively(model);
  const Rows rows;
  const Tensor logits = model(rows.ids, rows.values);
  REQUIRE(logits.shape() == Shape{4});
  for (std::int64_t r = 0; r < 4; ++r)
    CHECK(logits.at({r}) == doctest::Approx(logit_in_loops(model, rows, r)).epsilon(1e-12));
  const Tensor plain = model.machine(rows.ids, rows.values, model.embed(rows.ids, rows.values),
                                     Tensor::ones({4, 5}, DType::f64)); // control: without factors it is another number
  CHECK(relative_error(plain, logits) > 1e-2);
  model.to(DType::f32);
  CHECK(relative_error(model(rows.ids, rows.values.to(DType::f32)).to(DType::f64), logits) < 2e-5);
}

TEST_CASE("DIFM: gradients by values and parameters, once and twice") {
  const Rows rows;
  for (const Activation activation : {Activation::silu, Activation::tanh}) {
    Difm model(small(activation), {2, 0});
    test::make_lively(model);
    const auto forward = [&](const std::vector<Tensor>& in) { return model(rows.ids, in[0]); };
    const CheckResult first = test::gradcheck_model(model, {rows.values}, forward);
    CHECK_MESSAGE(first.pass, first.detail);
    const CheckResult second = test::gradcheck_model(model, {rows.values}, forward, {.second = true});
    CHECK_MESSAGE(second.pass, second.detail);
  }
}

TEST_CASE("DIFM: permuted fields permute the vector-wise part; its output unshuffled gives the same logits") {
  Difm model(small(Activation::relu), {3, 0});
  test::make_lively(model);
  const Rows rows;
  const Tensor e = model.embed(rows.ids, rows.values);
  std::vector<Tensor> orders; // one for each row of the table, as the experiment of paper 001, C.4 shuffles
  for (std::uint64_t r = 0; r < 4; ++r) orders.push_back(random_nonidentity_permutation(5, {4, r}));
  const Tensor order = stack(orders, 0), shuffled = permute_rows(e, order);
  const Tensor o = model.vector_wise(e), of_shuffled = model.vector_wise(shuffled);
  CHECK(relative_error(of_shuffled, permute_rows(o, order)) < 1e-14);
  CHECK(relative_error(of_shuffled, o) > 1e-2);

  const Tensor bits = model.bit_wise(e), logits = model(rows.ids, rows.values);
  const auto finish = [&](const Tensor& vectors, const Tensor& bit) {
    return model.machine(rows.ids, rows.values, e, model.factors(vectors, bit));
  };
  CHECK(relative_error(finish(permute_rows(of_shuffled, invert_permutation(order)), bits), logits) < 1e-13);
  CHECK(relative_error(finish(of_shuffled, bits), logits) > 1e-3);           // not unshuffled
  CHECK(relative_error(finish(o, model.bit_wise(shuffled)), logits) > 1e-3); // the bit-wise part shuffled
}

TEST_CASE("DIFM: gradients through a shuffled vector-wise part are those of the plain model") {
  Difm model(small(), {3, 0});
  test::make_lively(model);
  const Rows rows;
  const Tensor order = random_nonidentity_permutation(5, {5, 0});
  const auto gradients = [&](bool shuffle, bool undo) {
    Tape tape;
    const Tensor e = model.embed(rows.ids, rows.values);
    Tensor o = model.vector_wise(shuffle ? permute_rows(e, order) : e);
    if (undo) o = permute_rows(o, invert_permutation(order));
    const Tensor logits = model.machine(rows.ids, rows.values, e, model.factors(o, model.bit_wise(e)));
    return tape.gradient(sum(square(logits)), model.parameters());
  };
  const std::vector<Tensor> plain = gradients(false, false), shuffled = gradients(true, true),
                            wrong = gradients(true, false);
  double worst = 0.0, least_wrong = 1.0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    worst = std::max(worst, relative_error(shuffled[i], plain[i]));
    least_wrong = std::min(least_wrong, relative_error(wrong[i], plain[i]));
  }
  CHECK(worst < 1e-12);
  CHECK(least_wrong > 1e-4);
}

TEST_CASE("DIFM: the bit-wise part follows permuted fields when the columns of its first layer do") {
  Difm model(small(), {6, 0});
  test::make_lively(model);
  const Rows rows;
  const Tensor order = random_nonidentity_permutation(5, {7, 0});
  const Tensor e = model.embed(rows.ids, rows.values), before = model.bit_wise(e);
  CHECK(relative_error(model.bit_wise(permute_rows(e, order)), before) > 1e-2);
  Linear& first = *model.layers[0];
  first.weight.copy_from(permute_columns(first.weight, by_fields(order, 3)));
  CHECK(relative_error(model.bit_wise(permute_rows(e, order)), before) < 1e-14);
}

TEST_CASE("DIFM: a state dict carries a model over; dropout is for training alone") {
  DifmConfig c = small();
  c.dropout = 0.5;
  Difm a(c, {8, 0}), b(c, {9, 0});
  const Rows rows;
  const Tensor values = rows.values.to(DType::f32);
  CHECK_FALSE(same_bits(a(rows.ids, values, {1, 0}), a(rows.ids, values, {2, 0})));
  a.eval();
  b.eval();
  CHECK_FALSE(same_bits(a(rows.ids, values), b(rows.ids, values)));
  b.load_state_dict(a.state_dict());
  CHECK(same_bits(a(rows.ids, values, {1, 0}), b(rows.ids, values, {2, 0})));
}

TEST_CASE("DIFM: only categorical or only numeric fields") {
  DifmConfig c = small();
  c.numeric = 0;
  const Difm ids_only(c, {1, 0});
  const Rows rows;
  CHECK(ids_only(rows.ids).shape() == Shape{4});
  CHECK(message_of([&] { ids_only(rows.ids, rows.values); }) ==
        "difm: values were given and the model has no numeric fields");
  c = small();
  c.vocabularies.clear();
  const Difm values_only(c, {1, 0});
  CHECK(values_only({}, rows.values.to(DType::f32)).shape() == Shape{4});
  CHECK(message_of([&] { values_only(rows.ids, rows.values); }) ==
        "difm: ids were given and the model has no categorical fields");
}

TEST_CASE("DIFM: what it refuses, and with which words") {
  const Difm model(small(), {1, 0});
  const Rows rows;
  const Tensor values = rows.values.to(DType::f32);
  const auto words = [&](const Tensor& ids, const Tensor& x) { return message_of([&] { model(ids, x); }); };
  const auto ids_of = [](std::initializer_list<std::int64_t> list) { return Tensor::from<std::int64_t>(list, {1, 3}); };
  CHECK(words(ids_of({4, 3, 0}), values.slice(0, 0, 1)) == "difm: id 3 of field 1 in row 0 is outside [0, 3)");
  CHECK_THROWS_AS(model(ids_of({-1, 0, 0}), values), IndexError);
  CHECK(words(rows.ids.slice(1, 0, 2), values) ==
        "difm: ids must be [batch, 3], one column for each categorical field, not [4, 2]");
  CHECK(words(rows.ids, {}) == "difm: values must be [batch, 2], one column for each numeric field, not undefined");
  CHECK(words(rows.ids.to(DType::f32), values) == "difm: ids must be i64, they are f32");
  CHECK(words(rows.ids, values.slice(0, 0, 3)) ==
        "difm: ids and values differ in their number of rows: ids is [4, 3], values is [3, 2]");
  const auto refused = [](auto change) {
    DifmConfig c = small();
    change(c);
    return message_of<ValueError>([&] { Difm(c, {}); });
  };
  CHECK(refused([](DifmConfig& c) { c.vocabularies[1] = 0; }) == "difm: vocabularies[1] must be positive, not 0");
  CHECK(refused([](DifmConfig& c) { c.numeric = -1; }) == "difm: numeric must not be negative, not -1");
  CHECK(refused([](DifmConfig& c) {
          c.vocabularies = {4};
          c.numeric = 0;
        }) == "difm: one field; interactions need two at least");
  CHECK(refused([](DifmConfig& c) { c.hidden.clear(); }) == "difm: hidden is empty; the bit-wise part needs a layer");
  CHECK(refused([](DifmConfig& c) { c.hidden[1] = 0; }) == "difm: hidden[1] must be positive, not 0");
  CHECK(refused([](DifmConfig& c) { c.heads = 5000; }) == "difm: heads must be at most 4096, not 5000");
  CHECK(refused([](DifmConfig& c) { c.dropout = 1.0; }) == "difm: dropout must be in [0, 1), not 1");
}

namespace {

struct Table {
  Tensor ids, values, labels;
};

/// Trains on all of `table`; gives the first and the last loss.
std::pair<double, double> fit(const Difm& model, const Table& table, int steps, double rate) {
  const std::vector<Tensor> parameters = model.parameters();
  const auto optimizer = optim::make_optimizer("adamw", parameters);
  std::pair<double, double> losses;
  for (int step = 0; step < steps; ++step) {
    Tape tape;
    const Tensor loss = bce_with_logits(model(table.ids, table.values), table.labels);
    losses.second = loss.item();
    if (step == 0) losses.first = losses.second;
    optimizer->step(tape.gradient(loss, parameters), rate);
  }
  return losses;
}

double auc_of(const Tensor& scores, const Tensor& labels) { return nn::auc(scores, labels.to(DType::i64)); }

/// Rows whose clicks depend on pairs of categories alone: click when x_a x_b + x_b x_c + x_a x_c > 0 with x = +-1 for
/// even and odd ids. No field alone says anything.
Table table_of_pairs(std::int64_t rows, std::uint64_t seed) {
  Table t;
  t.ids = random_integers({rows, 3}, {31, seed}, 0, 6);
  t.values = random_normal({rows, 1}, {32, seed});
  const std::vector<std::int64_t> ids = t.ids.to_vector<std::int64_t>();
  std::vector<float> labels;
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    const auto sign = [&](std::size_t f) { return ids[3 * r + f] % 2 == 0 ? 1 : -1; };
    labels.push_back(sign(0) * sign(1) + sign(1) * sign(2) + sign(0) * sign(2) > 0 ? 1.0F : 0.0F);
  }
  t.labels = Tensor::from(labels, {rows});
  return t;
}

} // namespace

TEST_CASE("DIFM: learns clicks that depend on pairs of fields, for rows it has not seen") {
  DifmConfig c;
  c.vocabularies = {6, 6, 6};
  c.numeric = 1;
  c.hidden = {16};
  const Table train = table_of_pairs(512, 0), rest = table_of_pairs(512, 1);
  const Difm model(c, {1, 0});
  const auto [first, last] = fit(model, train, 60, 2e-2);
  CHECK(last < 0.5 * first);
  CHECK(auc_of(model(rest.ids, rest.values), rest.labels) > 0.95);
  // control: labels of other rows teach nothing about these
  const Difm blind(c, {1, 0});
  const Tensor other = index_select(train.labels, 0, random_nonidentity_permutation(512, {2, 0}));
  fit(blind, {train.ids, train.values, other}, 60, 2e-2);
  CHECK(std::abs(auc_of(blind(rest.ids, rest.values), rest.labels) - 0.5) < 0.15);
}

TEST_CASE("DIFM: the Criteo sample from its file to the AUC of rows held out") {
  const auto table = test::criteo_or_skip("DIFM: the Criteo sample from its file to the AUC of rows held out");
  if (!table) return;
  REQUIRE(table->labels.size() == 200);
  std::vector<Tensor> scores, labels;
  for (int fold = 0; fold < 5; ++fold) {
    const test::CriteoSplit split = test::split_criteo(*table, fold, 5);
    DifmConfig c;
    c.vocabularies = split.vocabularies;
    c.numeric = split.train.values.size(1);
    c.dim = 4;
    c.heads = 2;
    c.head_dim = 4;
    c.hidden = {16};
    const Difm model(c, {1, 0});
    const auto [first, last] = fit(model, {split.train.ids, split.train.values, split.train.labels}, 40, 3e-3);
    CHECK(last < 0.5 * first);
    CHECK(auc_of(model(split.train.ids, split.train.values), split.train.labels) > 0.9);
    scores.push_back(model(split.held_out.ids, split.held_out.values));
    labels.push_back(split.held_out.labels);
  }
  // 160 rows of 39 fields teach little about 40 others (49 clicks in all: chance is 0.5 +- 0.05; logistic regression on
  // the numbers reaches 0.65): the pipeline is tested here, and that what is learned is not upside down.
  const double area = auc_of(concat(scores, 0), concat(labels, 0));
  MESSAGE("AUC of 200 rows, each held out once: " << area);
  CHECK(area > 0.5);
}
