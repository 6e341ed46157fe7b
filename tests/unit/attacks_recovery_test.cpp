// The exact attacks on drawn numbers: each recovers the whole secret, and a control in which it must not.

#include "apps/attacks/alignment.h"
#include "apps/attacks/fingerprints.h"
#include "apps/attacks/gradients.h"
#include "apps/attacks/images.h"
#include "apps/attacks/metrics.h"
#include "autograd/tape.h"
#include "core/ops.h"
#include "permute/least_squares.h"
#include "permute/recovery/key_recovery.h"
#include "permute/recovery/matching.h"
#include "permute/recovery/vocabulary.h"
#include "support/message.h"

#include <cmath>
#include <doctest/doctest.h>
#include <numeric>

using namespace eg;
using permute::Permutation;

namespace {

Tensor normal(const Shape& shape, std::uint64_t stream, double stddev = 1.0) {
  return random_normal(shape, {11, stream}, 0.0, stddev, DType::f64);
}

Permutation draw(std::int64_t size, std::uint64_t stream) {
  return Permutation::random_nonidentity(size, {12, stream});
}

/// |A^T (A x - b)|, zero for a least-squares solution.
double normal_residual(const Tensor& a, const Tensor& x, const Tensor& b) {
  return amax(abs(matmul(a, matmul(a, x) - b, true, false))).item();
}

} // namespace

TEST_CASE("pivoted QR: least squares, rank and null space") {
  const Tensor a = normal({30, 7}, 1), b = normal({30, 3}, 2);
  const permute::PivotedQr qr(a);
  CHECK(qr.rank() == 7);
  CHECK(normal_residual(a, qr.solve(b), b) < 1e-12);
  CHECK(normal_residual(a, qr.solve(b) * 1.01, b) > 1e-3); // control
  const Tensor x = normal({7, 3}, 3);
  CHECK(relative_error(qr.solve(matmul(a, x)), x) < 1e-12);
  const Tensor n = qr.null_space();
  CHECK(n.shape() == Shape{30, 23});
  CHECK(amax(abs(matmul(a, n, true, false))).item() < 1e-13);
  CHECK(relative_error(matmul(n, n, true, false), eye(23, -1, DType::f64)) < 1e-13);

  // Rank 4: the solution is not unique, the residual is still the least.
  const Tensor poor = matmul(normal({30, 4}, 4), normal({4, 7}, 5));
  const permute::PivotedQr rough(poor);
  CHECK(rough.rank() == 4);
  CHECK(normal_residual(poor, rough.solve(b), b) < 1e-10);
  CHECK(permute::PivotedQr(Tensor::zeros({3, 2}, DType::f64)).rank() == 0);
  // Wide: as many conditions as rows.
  const Tensor wide = normal({3, 8}, 6);
  CHECK(relative_error(matmul(wide, permute::PivotedQr(wide).solve(b.slice(0, 0, 3))), b.slice(0, 0, 3)) < 1e-12);
  CHECK_THROWS_AS(qr.solve(normal({29, 1}, 7)), ShapeError);
  CHECK_THROWS_AS(permute::PivotedQr(Tensor::full({2, 2}, std::nan(""), DType::f64)), ValueError);
}

TEST_CASE("row matching: the keys of a transformed MLP, sorted where the other axis is secret too") {
  const std::int64_t d = 24, t = 40;
  const nn::StateDict plain = {{"up", normal({t, d}, 1)}, {"down", normal({d, t}, 2)}, {"gain", normal({d}, 3)}};
  const permute::AxisMap axes = {
      {"up", {"hidden", "residual"}}, {"down", {"residual", "hidden"}}, {"gain", {"residual"}}};
  const permute::PermutationSet key{{"residual", draw(d, 1)}, {"hidden", draw(t, 2)}};
  const nn::StateDict secret = permute::transform(plain, axes, key);
  CHECK(permute::recover_key(secret, plain, axes) == key);

  nn::StateDict tuned = secret;
  for (auto& [name, w] : tuned) w = w + normal(w.shape(), 9, 0.05);
  CHECK(permute::recover_key(tuned, plain, axes) == key);

  // Control: other weights tell nothing.
  const nn::StateDict other = {{"up", normal({t, d}, 5)}, {"down", normal({d, t}, 6)}, {"gain", normal({d}, 7)}};
  const permute::PermutationSet wrong = permute::recover_key(secret, other, axes);
  CHECK(attacks::key_recovery_rate(wrong.at("residual"), key.at("residual")) < 0.3);
  CHECK(attacks::key_recovery_rate(wrong.at("hidden"), key.at("hidden")) < 0.3);
}

TEST_CASE("row matching: one permutation on both sides of a matrix") {
  const nn::StateDict plain = {{"w", normal({16, 16}, 1)}, {"b", normal({16}, 2)}};
  const permute::AxisMap axes = {{"w", {"p", "p"}}, {"b", {"p"}}};
  const permute::PermutationSet key{{"p", draw(16, 1)}};
  CHECK(permute::recover_key(permute::transform(plain, axes, key), plain, axes) == key);
  CHECK_FALSE(permute::recover_key(plain, plain, axes) == key);
  CHECK(test::message_of<ValueError>([&] {
          permute::recover_key(plain, plain, {{"absent", {"q"}}});
        }).find("no tensor of the group \"q\"") != std::string::npos);
  CHECK(test::message_of<ValueError>([&] {
          permute::recover_key({{"g", Tensor::ones({4})}}, {{"g", Tensor::ones({4})}}, {{"g", {"p"}}});
        }).find("over and over") != std::string::npos);
  CHECK_THROWS_AS(permute::recover_key({{"w", normal({2, 3}, 1)}}, {{"w", normal({3, 2}, 1)}}, axes), ShapeError);
}

TEST_CASE("gain sort, and the linear map behind any d known rows") {
  const Permutation p = draw(50, 1);
  const Tensor gain = normal({50}, 1);
  CHECK(permute::sort_match(p.apply(gain, 0), gain) == p);
  CHECK_FALSE(permute::sort_match(p.apply(normal({50}, 2), 0), gain) == p);
  CHECK_THROWS_AS(permute::sort_match(gain, normal({49}, 1)), ShapeError);

  const Tensor rows = normal({30, 12}, 3), q = normal({12, 12}, 4);
  CHECK(relative_error(permute::recover_linear_map(matmul(rows, q), rows), q) < 1e-11);
  CHECK(relative_error(permute::recover_linear_map(matmul(normal({30, 12}, 5), q), rows), q) > 0.1);
  CHECK(test::message_of<ValueError>([&] {
          permute::recover_linear_map(rows.slice(0, 0, 5), rows.slice(0, 0, 5));
        }).find("rank 5") != std::string::npos);
}

TEST_CASE("vocabulary matching in its four forms, against noise, and P_C from one token") {
  const std::int64_t v = 2000, d = 64, tokens = 40;
  const Tensor table = normal({v, d}, 1);
  const Tensor ids = random_integers({tokens}, {5, 0}, 0, v);
  const auto text = ids.to_vector<std::int64_t>();
  const Tensor states = index_select(table, 0, ids);
  const Permutation columns = draw(d, 1), rows = draw(tokens, 2);
  const permute::NextStates next = [&](std::span<const std::int64_t>) { return table; };
  const auto matched = [&](const Tensor& seen, permute::StateForm form) {
    return permute::match_vocabulary(seen, next, form).ids;
  };
  CHECK(matched(states, {}) == text);
  CHECK(matched(columns.apply(states, 1), {.columns = true}) == text);
  const Tensor shuffled = rows.apply(states, 0);
  CHECK(attacks::token_bag_rate(matched(shuffled, {.rows = true}), text) == 1.0);
  CHECK(attacks::token_bag_rate(matched(columns.apply(shuffled, 1), {.rows = true, .columns = true}), text) == 1.0);
  // Controls: without sorting, permuted features are nobody's; other embeddings know nothing.
  CHECK(attacks::recovery_rate(matched(columns.apply(states, 1), {}), text) < 0.1);
  CHECK(attacks::recovery_rate(matched(normal({tokens, d}, 9), {}), text) < 0.1);
  // Features permuted and noisy: 0.1 hardly matters, 1.0 takes everything.
  const auto noisy = [&](double sigma) {
    return attacks::recovery_rate(matched(columns.apply(states, 1) + normal({tokens, d}, 7, sigma), {.columns = true}),
                                  text);
  };
  CHECK(noisy(0.03) == 1.0);
  CHECK(noisy(0.1) > 0.9);
  CHECK(noisy(0.3) < 0.7);
  CHECK(noisy(1.0) < 0.1);
  CHECK(permute::features_from_states(columns.apply(states.slice(0, 0, 1), 1), states.slice(0, 0, 1)) == columns);
}

TEST_CASE("vocabulary matching follows states that depend on what came before, and finds their order") {
  const std::int64_t v = 50, d = 24, tokens = 9;
  const Tensor table = normal({v, d}, 1), w = normal({d, d}, 2, 0.4);
  const permute::NextStates next = [&](std::span<const std::int64_t> prefix) { // s_i = E[x_i] + tanh(s_(i-1) W)
    Tensor before = Tensor::zeros({1, d}, DType::f64);
    for (const std::int64_t id : prefix) before = table.slice(0, id, id + 1) + tanh(matmul(before, w));
    return table + tanh(matmul(before, w));
  };
  const auto text = random_integers({tokens}, {6, 0}, 0, v).to_vector<std::int64_t>();
  std::vector<Tensor> states;
  for (std::size_t i = 0; i < text.size(); ++i) states.push_back(next(std::span(text).first(i)).select(0, text[i]));
  const Permutation rows = draw(tokens, 1), columns = draw(d, 2);
  const Tensor seen = columns.apply(rows.apply(stack(states, 0), 0), 1);
  const permute::VocabularyMatch found = permute::match_vocabulary(seen, next, {.rows = true, .columns = true});
  CHECK(found.ids == text);
  CHECK(Permutation(found.rows) == rows.inverse());
  const permute::NextStates alone = [&](std::span<const std::int64_t>) { return table; };
  CHECK_FALSE(permute::match_vocabulary(seen, alone, {.rows = true, .columns = true}).ids == text);
}

TEST_CASE("linear inversion looks through P_C, to rounding; not through a narrow embedding") {
  const std::int64_t n = 40, tokens = 5, d = 32, p = 12;
  const Tensor images = normal({n, tokens, p}, 1), e = normal({d, p}, 2), b = normal({d}, 3),
               pe = normal({tokens, d}, 4);
  const Permutation columns = draw(d, 1);
  const auto features = [&](const Tensor& x) { return columns.apply(linear(x, e, b) + pe, -1); };
  const attacks::LinearInversion inversion(features(images), images);
  const Tensor fresh = normal({3, tokens, p}, 9);
  CHECK(amax(abs(inversion(features(fresh)) - fresh)).item() < 1e-12);
  CHECK(amax(abs(inversion(draw(d, 5).apply(features(fresh), -1)) - fresh)).item() > 0.1); // control: another key
  const Tensor narrow = normal({8, p}, 6);
  const attacks::LinearInversion less(linear(images, narrow), images);
  CHECK(amax(abs(less(linear(fresh, narrow)) - fresh)).item() > 0.1);
  CHECK_THROWS_AS(inversion(fresh), ShapeError);
}

TEST_CASE("position embeddings give the order of the rows away") {
  const std::int64_t tokens = 17, d = 32, p = 12;
  const Tensor e = normal({d, p}, 1), plain = normal({tokens, d}, 2, 0.3);
  const Permutation rows = draw(tokens, 1);
  const Tensor z = rows.apply(plain + matmul(normal({tokens, p}, 3), e, false, true), 0);
  CHECK(attacks::rows_by_positions(z, e, plain) == rows);
  CHECK_FALSE(attacks::rows_by_positions(z, e, normal({tokens, d}, 5, 0.3)) == rows);
  CHECK(test::message_of<ValueError>([&] {
          attacks::rows_by_positions(z, normal({d, d}, 4), plain);
        }).find("fills all features") != std::string::npos);
}

TEST_CASE("masks and attention scores give the order of the rows away, and the text") {
  const std::int64_t n = 12;
  const Permutation r = draw(n, 1);
  const Tensor seen = ge(Tensor::arange(n).reshape({n, 1}), Tensor::arange(n).reshape({1, n}));
  CHECK(attacks::rows_of_causal_mask(r.apply(r.apply(seen, 0), 1)) == r);
  const Tensor added = masked_fill(Tensor::zeros({n, n}), logical_not(seen), -1e9);
  CHECK(attacks::rows_of_causal_mask(r.apply(r.apply(added, 0), 1)) == r);
  CHECK_THROWS_AS(attacks::rows_of_causal_mask(Tensor::zeros({n, n})), ValueError);

  const Tensor scores = softmax(normal({3, n, n}, 1)), other = softmax(normal({3, n, n}, 2));
  const Tensor moved = r.apply(r.apply(scores, 1), 2);
  CHECK(attacks::rows_by_attention(moved, scores) == r);
  CHECK(attacks::rows_by_attention(draw(3, 4).apply(moved, 0), scores) == r); // heads have moved too
  CHECK_FALSE(attacks::rows_by_attention(moved, other) == r);
  CHECK(attacks::text_by_attention(moved, {other, scores, softmax(normal({3, n, n}, 3))}) == 1);
  CHECK_THROWS_AS(attacks::text_by_attention(moved, {}), ShapeError);
}

TEST_CASE("a key-value cache names its text, plain or permuted within heads") {
  const std::int64_t heads = 3, v = 200, width = 16;
  const Tensor vocabulary = normal({heads, v, width}, 1), ids = random_integers({20}, {7, 0}, 0, v);
  const auto text = ids.to_vector<std::int64_t>();
  const Tensor cached = index_select(vocabulary, 1, ids);
  CHECK(attacks::text_by_cache(cached, vocabulary, attacks::CacheForm::plain) == text);
  const Tensor hidden = draw(width, 1).apply(cached, 2);
  CHECK(attacks::text_by_cache(hidden, vocabulary, attacks::CacheForm::within_heads) == text);
  CHECK(attacks::recovery_rate(attacks::text_by_cache(hidden, vocabulary, attacks::CacheForm::plain), text) < 0.2);
}

TEST_CASE("gradients name labels, whatever permutation of features they went through") {
  const std::int64_t classes = 7, d = 20, batch = 12;
  const Tensor w = normal({classes, d}, 1), bias = normal({classes}, 2);
  const auto cut = [&](const Tensor& z, const Tensor& labels) {
    Tape tape;
    const Tensor loss = cross_entropy(linear(z, w * 0.2, bias * 0.2), labels, 0.0, -100, "sum");
    return tape.gradient(loss, {z})[0];
  };
  const Tensor labels = random_integers({batch}, {8, 0}, 0, classes);
  const Tensor gradients = cut(normal({batch, d}, 4), labels);
  const Tensor examples = cut(normal({classes, d}, 5), Tensor::arange(classes));
  const Permutation p = draw(d, 1);
  CHECK(attacks::labels_from_cut_gradients(p.apply(gradients, 1), p.apply(examples, 1)) ==
        labels.to_vector<std::int64_t>());
  CHECK_FALSE(attacks::labels_from_cut_gradients(p.apply(gradients, 1), examples) == labels.to_vector<std::int64_t>());
  Tensor rows = Tensor::zeros({5, d}, DType::f64);
  rows.slice(0, 3, 4).copy_from(gradients.slice(0, 0, 1));
  CHECK(attacks::class_token_row(rows) == 3);
}

TEST_CASE("fresh permutations for each query are aligned by what the queries share, and the weights follow") {
  const std::int64_t queries = 6, d = 18, k = 10, n = 8;
  const Tensor w = normal({d, k}, 1), shared_input = normal({1, k}, 2);
  std::vector<Tensor> shared, outputs, inputs;
  for (std::int64_t q = 0; q < queries; ++q) {
    const auto stream = static_cast<std::uint64_t>(q);
    const Tensor x = concat({shared_input, normal({n, k}, 10 + stream)}, 0);
    const Tensor y = draw(d, 20 + stream).apply(linear(x, w), 1);
    inputs.push_back(x);
    outputs.push_back(y);
    shared.push_back(y.slice(0, 0, 1));
  }
  const std::vector<Permutation> gathers = attacks::align_queries(stack(shared, 0));
  CHECK(gathers.front().is_identity());
  for (std::size_t q = 0; q < outputs.size(); ++q) outputs[q] = gathers[q].apply(outputs[q], 1);
  const Tensor stolen = transpose(permute::recover_linear_map(concat(outputs, 0), concat(inputs, 0)));
  CHECK(relative_error(stolen, draw(d, 20).apply(w, 0)) < 1e-12);
  CHECK(relative_error(stolen, w) > 0.1); // one permutation stays unknown
}
