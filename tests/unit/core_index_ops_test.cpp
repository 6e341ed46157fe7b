#include "autograd/tape.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/random.h"
#include "core/threads/parallel.h"

#include <doctest/doctest.h>

using namespace eg;

namespace {

std::vector<double> numbers(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

Tensor list(std::initializer_list<std::int64_t> values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

/// Runs f with 1, 2 and 3 threads and expects the same bits.
template <class F> void same_for_any_threads(F&& f) {
  parallel::set_threads(1);
  const Tensor one = f();
  for (const int threads : {2, 3}) {
    parallel::set_threads(threads);
    CHECK(same_bits(f(), one));
  }
  parallel::set_threads(0);
}

} // namespace

TEST_CASE("permuting and permuting back is the identity, and the adjoint is the inverse") {
  const Tensor x = random_normal({3, 65, 33}, {1, 1});
  const Tensor columns = random_permutation(33, {1, 2});
  const Tensor rows = stack({random_permutation(65, {1, 3}), random_permutation(65, {1, 4}), Tensor::arange(65)}, 0);
  CHECK(same_bits(permute_columns(permute_columns(x, columns), invert_permutation(columns)), x));
  CHECK(same_bits(permute_rows(permute_rows(x, rows), invert_permutation(rows)), x));
  CHECK(same_bits(permute_rows(x, rows).select(0, 1), permute_rows(x.select(0, 1), rows.select(0, 1))));
  CHECK(same_bits(permute_columns(x, columns), index_select(x, -1, columns)));

  Tape tape;
  const Tensor y = permute_rows(permute_columns(x, columns), rows);
  const std::vector<Tensor> grads = tape.gradient(y, {x}, y);
  CHECK(same_bits(grads[0], x)); // P^T P x = x, bit for bit
}

TEST_CASE("index_select, gather and embedding agree where they overlap") {
  const Tensor x = random_normal({7, 5}, {2, 1});
  const Tensor ids = list({6, 0, 6, 3});
  CHECK(same_bits(embedding(x, ids), index_select(x, 0, ids)));
  CHECK(same_bits(gather(x, 0, ids.unsqueeze(1).expand({4, 5})), index_select(x, 0, ids)));
  CHECK(same_bits(index_select(x.transpose(), 1, ids), index_select(x, 0, ids).transpose()));
  CHECK(numbers(gather(Tensor::from<std::uint8_t>({1, 2, 3, 4}, {2, 2}), 1, list({1, 0}).reshape({2, 1}))) ==
        std::vector<double>{2, 3});
  CHECK(numbers(index_select(Tensor::from<bool>({true, false}, {2}), 0, list({1, 1, 0}))) ==
        std::vector<double>{0, 0, 1});
  CHECK(embedding(x, Tensor::zeros({2, 0}, DType::i64)).shape() == Shape({2, 0, 5}));
}

TEST_CASE("scatter_add adds repeated indices and leaves x alone") {
  const Tensor x = Tensor::from<std::int64_t>({1, 2, 3}, {3});
  const Tensor y = scatter_add(x, 0, list({2, 0, 2}), list({10, 20, 30}));
  CHECK(numbers(y) == std::vector<double>{21, 2, 43});
  CHECK(numbers(x) == std::vector<double>{1, 2, 3});
}

TEST_CASE("sums over repeated indices do not depend on the number of threads") {
  const Tensor grad = random_normal({3000, 130}, {3, 1});
  const Tensor ids = random_integers({3000}, {3, 2}, 0, 17);
  same_for_any_threads([&] { return call1(embedding_backward_op, {grad, ids}, {{"rows", std::int64_t{17}}}); });
  const Tensor wide = random_normal({40, 3000}, {3, 3});
  const Tensor places = random_integers({40, 3000}, {3, 4}, 0, 9);
  same_for_any_threads([&] { return scatter_add(Tensor::zeros({40, 9}), 1, places, wide); });
  same_for_any_threads([&] { return scatter_add(Tensor::zeros({9, 3000}), 0, places, wide); });
  same_for_any_threads([&] {
    return call1(index_select_backward_op, {wide, ids}, {{"axis", std::int64_t{1}}, {"extent", std::int64_t{20}}});
  });
}

TEST_CASE("gradients of lookups have the bits of additions to zeros, in index order") {
  for (const std::int64_t width : {1, 15, 16, 70}) { // few columns are added, many written
    Tensor grad = random_normal({3, 400, width}, {3, 5});
    for (std::int64_t i = 0; i < width; ++i) grad.mutable_data<float>()[i] = -0.0F;
    Tensor ids = random_integers({400}, {3, 6}, 0, 90);
    ids.mutable_data<std::int64_t>()[0] = 95; // the only one there: 0 + -0 is 0
    const Tensor everywhere = ids.reshape({1, 400, 1}).expand({3, 400, width}).contiguous();
    const Tensor added = scatter_add(Tensor::zeros({3, 97, width}), 1, everywhere, grad);
    const Attrs attributes{{"axis", std::int64_t{1}}, {"extent", std::int64_t{97}}};
    CHECK(same_bits(call1(index_select_backward_op, {grad, ids}, attributes), added));
    const Tensor rows = call1(embedding_backward_op, {grad.select(0, 0), ids}, {{"rows", std::int64_t{97}}});
    CHECK(same_bits(rows, added.select(0, 0)));
    Tensor often = ids.clone(); // most of the index names two targets
    for (std::int64_t k = 1; k < 300; ++k) often.mutable_data<std::int64_t>()[k] = k % 3 == 0 ? 7 : 96;
    const Tensor all = often.reshape({1, 400, 1}).expand({3, 400, width}).contiguous();
    CHECK(same_bits(call1(index_select_backward_op, {grad, often}, attributes),
                    scatter_add(Tensor::zeros({3, 97, width}), 1, all, grad)));
  }
}

TEST_CASE("scatter_add gives the same bits for every memory layout of x") {
  for (const std::int64_t width : {1, 5, 600}) {
    const Shape shape{3, 40, width};
    const Tensor source = random_normal({3, 70, width}, {3, 7}),
                 places = random_integers({3, 70, width}, {3, 8}, 0, 40);
    const Tensor row = random_normal({1, 1, width}, {3, 9});
    for (const Tensor& x : {Tensor::full({}, 2.5).expand(shape), row.expand(shape), random_normal(shape, {3, 10}),
                            random_normal({width, 40, 3}, {3, 11}).transpose(0, 2)}) {
      const Tensor kept = x.clone();
      CHECK(same_bits(scatter_add(x, 1, places, source), scatter_add(kept.contiguous(), 1, places, source)));
      CHECK(same_bits(scatter_add(x, 1, Tensor::zeros({3, 0, width}, DType::i64), Tensor::zeros({3, 0, width})), x));
      CHECK(same_bits(x, kept));
    }
  }
}

TEST_CASE("indices are checked before anything is written, and named") {
  const Tensor x = random_normal({4, 3}, {4, 1});
  CHECK_THROWS_WITH_AS(embedding(x, list({0, 4})),
                       doctest::Contains("embedding: index 4 at position 1 is outside [0, 4)"), IndexError);
  CHECK_THROWS_WITH_AS(permute_columns(x, list({0, 1, 1})),
                       doctest::Contains("permute_columns: not a permutation of 0..2: 1 occurs at positions 1 and 2"),
                       ValueError);
  CHECK_THROWS_AS(permute_rows(x, list({0, 1, 2})), ShapeError);
  CHECK_THROWS_AS(gather(x, 1, Tensor::full({4, 1}, -1, DType::i64)), IndexError);
  CHECK_THROWS_AS(index_select(x, 0, Tensor::zeros({2})), DTypeError);
  CHECK_THROWS_AS(invert_permutation(list({0, 2})), IndexError);
  CHECK_THROWS_AS(embedding(Tensor::zeros({0, 3}), list({0})), IndexError);
}

TEST_CASE("a large table's gradient touches only the rows that were read") {
  const Tensor weight = random_normal({1000, 8}, {5, 1});
  const Tensor ids = Tensor::from<std::int64_t>({999, 3, 999, 0}, {2, 2});
  Tape tape;
  const Tensor y = embedding(weight, ids);
  const Tensor g = tape.gradient(y, {weight}, Tensor::ones({2, 2, 8}))[0];
  CHECK(g.at({999, 0}) == 2.0);
  CHECK(g.at({3, 7}) == 1.0);
  CHECK(g.at({500, 4}) == 0.0);
}
