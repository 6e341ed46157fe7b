// Sorting, scattering and permuting on a device beyond the sizes of the rows' samples, and the checks of their indices.

#include "autograd/tape.h"
#include "core/device/device.h"
#include "core/ops.h"
#include "core/random.h"
#include "core/strided.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

using namespace eg;

namespace {

Tensor there(const Tensor& x) { return x.to(Device::cuda()); }
Tensor here(const Tensor& x) { return x.to(Device::cpu()); }

/// Few values, so that many are equal, with zeros of both signs, NaN and infinities among them.
Tensor repetitive(const Shape& shape, DType dtype, std::uint64_t seed) {
  Tensor x = random_integers(shape, RandomKey{seed, 1}, -40, 40).to(dtype);
  const double strange[] = {-0.0, 0.0, std::nan(""), INFINITY, -INFINITY, -std::nan("")};
  visit_floating(dtype, [&]<class T>() {
    T* at = x.mutable_data<T>();
    for (std::int64_t i = 0; i < x.numel(); i += 97) at[i] = static_cast<T>(strange[i / 97 % 6]);
  });
  return x;
}

Tensor drawn_ids(std::int64_t count, std::int64_t extent, std::uint64_t seed) {
  return random_integers({count}, RandomKey{seed, 2}, 0, extent);
}

/// What the device says, now or when it is next waited for.
std::string refusal_of(const std::function<Tensor()>& call) {
  try {
    here(call());
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing";
}

} // namespace

TEST_CASE("long lines are sorted on a device as on the CPU") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : {Shape{4100}, Shape{3, 1500}, Shape{2, 1025, 3}, Shape{700, 3}, Shape{5, 1024}}) {
      const Tensor x = repetitive(shape, dtype, 11);
      for (const int axis : {0, -1})
        for (const bool descending : {false, true}) {
          CAPTURE(shape.str());
          CAPTURE(axis);
          const ValuesAndIndices wanted = sort(x, axis, descending);
          const ValuesAndIndices got = sort(there(x), axis, descending);
          CHECK(same_bits(here(got.values), wanted.values));
          CHECK(same_bits(here(got.indices), wanted.indices));
          const std::int64_t k = shape[axis] / 3;
          const ValuesAndIndices best = topk(x, k, axis, descending, false);
          const ValuesAndIndices found = topk(there(x), k, axis, descending, false);
          CHECK(same_bits(here(found.indices), best.indices));
        }
    }
}

TEST_CASE("many places are added on a device in their order") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor ids = drawn_ids(3000, 7, 21); // long runs of one index
    const Tensor grad = random_normal({3000, 5}, RandomKey{22, 0}, 0.0, 1.0, dtype);
    const Tensor table = Tensor::zeros({9, 5}, dtype);
    const Tensor index = random_integers({3, 1300, 2}, RandomKey{23, 0}, 0, 4);
    const Tensor source = random_normal({3, 1300, 2}, RandomKey{24, 0}, 0.0, 1.0, dtype);
    const Tensor start = random_normal({3, 4, 2}, RandomKey{25, 0}, 0.0, 1.0, dtype);
    CHECK(same_bits(here(scatter_add(there(start), 1, there(index), there(source))),
                    scatter_add(start, 1, index, source)));
    const auto gradient = [&](const Tensor& weight, const Tensor& rows, const Tensor& cotangent) {
      Tape tape; // the second look-up adds to what the first one gave
      const Tensor y = add(embedding(weight, rows), embedding(weight, flip(rows, {0})));
      return tape.gradient(y, {weight}, cotangent).front();
    };
    const Tensor wanted = gradient(table, ids, grad);
    CHECK(relative_error(here(gradient(there(table), there(ids), there(grad))), wanted) <
          (dtype == DType::f32 ? 1e-5 : 1e-14));
    const Tensor weights = random_normal({3000}, RandomKey{26, 0}, 0.0, 1.0, dtype);
    CHECK(same_bits(here(bincount(there(ids), there(weights), 12)), bincount(ids, weights, 12)));
  }
}

TEST_CASE("long permutations are inverted on a device") {
  const Tensor p = random_permutation(5000, RandomKey{31, 0});
  CHECK(same_bits(here(invert_permutation(there(p))), invert_permutation(p)));
  const Tensor x = random_normal({3, 5000}, RandomKey{32, 0});
  CHECK(same_bits(here(permute_columns(there(x), there(p))), permute_columns(x, p)));
}

TEST_CASE("what is wrong with an index is said by the device") {
  const Tensor x = there(Tensor::ones({4, 3}));
  const auto says = [](const std::string& words, const std::string& wanted) {
    CAPTURE(words);
    CHECK(words.find(wanted) == 0);
  };
  Tensor bad = Tensor::zeros({600}, DType::i64);
  bad.mutable_data<std::int64_t>()[433] = 4;
  bad = there(bad);
  says(refusal_of([&] { return embedding(x, bad); }),
       "embedding: index 4 at position 433 is outside [0, 4), on cuda:0");
  says(refusal_of([&] { return one_hot(bad, 4); }), "one_hot: x is 4 at position 433; it must be in [0, 4), on cuda:0");
  const Tensor twice = there(Tensor::from<std::int64_t>({2, 0, 2, 1}, {4}));
  says(refusal_of([&] { return permute_rows(x, twice); }),
       "permute_rows: not a permutation of 0..3: 2 occurs at positions 0 and 2, on cuda:0");
  const Tensor minus = there(Tensor::full({3}, -1.0, DType::i64));
  says(refusal_of([&] { return scatter_add(there(Tensor::ones({5})), 0, minus, there(Tensor::ones({3}))); }),
       "scatter_add: index -1 at position ");
  CHECK(refusal_of([&] { return embedding(x, there(Tensor::zeros({2}, DType::i64))); }) ==
        "nothing"); // it is forgotten
}

TEST_CASE("numbers made for a device are those made for the CPU") {
  const auto made = [] {
    return std::vector<Tensor>{arange(0.5, 9.0, 0.25, DType::f32), linspace(-1.0, 1.0, 7), eye(3, 5),
                               full({2, 2}, 1.5)};
  };
  const std::vector<Tensor> wanted = made();
  const DeviceScope scope(Device::cuda());
  const std::vector<Tensor> got = made();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CHECK(got[i].device() == Device::cuda());
    CHECK(same_bits(here(got[i]), wanted[i]));
  }
}
