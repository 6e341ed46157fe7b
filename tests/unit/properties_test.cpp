// Properties that hold for anything: random chains of views against an index-by-index model, and the group laws of
// permutations.

#include "core/ops.h"
#include "permute/permutation.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

using namespace eg;

namespace {

/// A tensor as plain values with extents: what views must agree with.
struct Model {
  std::vector<std::int64_t> extents;
  std::vector<double> values;

  std::int64_t flat(const std::vector<std::int64_t>& index) const {
    std::int64_t at = 0;
    for (std::size_t a = 0; a < extents.size(); ++a) at = at * extents[a] + index[a];
    return at;
  }

  /// The model whose element `index` is this one's element from(index).
  template <class F> Model gathered(const std::vector<std::int64_t>& shape, F&& from) const {
    Model result{shape, {}};
    std::vector<std::int64_t> index(shape.size(), 0);
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t rest = i;
      for (std::size_t a = shape.size(); a-- > 0;) {
        index[a] = rest % shape[a];
        rest /= shape[a];
      }
      result.values.push_back(values[static_cast<std::size_t>(flat(from(index)))]);
    }
    return result;
  }
};

struct Pair {
  Tensor tensor;
  Model model;
};

Pair transposed(const Pair& p, std::size_t a, std::size_t b) {
  std::vector<std::int64_t> shape = p.model.extents;
  std::swap(shape[a], shape[b]);
  return {p.tensor.transpose(static_cast<int>(a), static_cast<int>(b)), p.model.gathered(shape, [&](auto index) {
            std::swap(index[a], index[b]);
            return index;
          })};
}

Pair sliced(const Pair& p, std::size_t axis, std::int64_t start, std::int64_t stop, std::int64_t step) {
  std::vector<std::int64_t> shape = p.model.extents;
  shape[axis] = (stop - start + step - 1) / step;
  return {p.tensor.slice(static_cast<int>(axis), start, stop, step), p.model.gathered(shape, [&](auto index) {
            index[axis] = start + step * index[axis];
            return index;
          })};
}

Pair expanded(const Pair& p, std::int64_t extent) {
  std::vector<std::int64_t> shape = p.model.extents;
  shape.insert(shape.begin(), extent);
  return {p.tensor.unsqueeze(0).expand(Shape(shape)), p.model.gathered(shape, [](auto index) {
            index.erase(index.begin());
            return index;
          })};
}

Pair flattened(const Pair& p) {
  Model model{{static_cast<std::int64_t>(p.model.values.size())}, p.model.values};
  return {p.tensor.reshape({-1}), model};
}

Pair step(const Pair& p) {
  const auto rank = static_cast<int>(p.model.extents.size());
  const auto axis = static_cast<std::size_t>(*rc::gen::inRange(0, rank));
  switch (*rc::gen::inRange(0, 4)) {
  case 0:
    return transposed(p, axis, static_cast<std::size_t>(*rc::gen::inRange(0, rank)));
  case 1: {
    const std::int64_t start = *rc::gen::inRange<std::int64_t>(0, p.model.extents[axis]);
    const std::int64_t stop = *rc::gen::inRange<std::int64_t>(start + 1, p.model.extents[axis] + 1);
    return sliced(p, axis, start, stop, *rc::gen::inRange<std::int64_t>(1, 4));
  }
  case 2:
    return rank < 5 ? expanded(p, *rc::gen::inRange<std::int64_t>(1, 4)) : p;
  default:
    return flattened(p);
  }
}

permute::Permutation any_permutation(std::int64_t size) {
  return permute::Permutation::random(size, {*rc::gen::arbitrary<std::uint64_t>(), 1});
}

} // namespace

TEST_CASE("chains of views agree with index-by-index models") {
  CHECK(rc::check("views", [] {
    const Shape shape{*rc::gen::inRange<std::int64_t>(1, 5), *rc::gen::inRange<std::int64_t>(1, 5),
                      *rc::gen::inRange<std::int64_t>(1, 5)};
    Pair p{Tensor::arange(shape.numel(), DType::f64).reshape(shape), {}};
    p.model = {{shape.begin(), shape.end()}, p.tensor.to_vector<double>()};
    const int length = *rc::gen::inRange(1, 7);
    for (int i = 0; i < length; ++i) {
      p = step(p);
      RC_ASSERT(p.tensor.shape() == Shape(p.model.extents));
      RC_ASSERT(p.tensor.to_vector<double>() == p.model.values);
      RC_ASSERT(p.tensor.contiguous().to_vector<double>() == p.model.values);
    }
  }));
}

TEST_CASE("permutations form a group, and act on axes as one") {
  CHECK(rc::check("group", [] {
    const std::int64_t size = *rc::gen::inRange<std::int64_t>(1, 30);
    const permute::Permutation p = any_permutation(size);
    const permute::Permutation q = any_permutation(size);
    const permute::Permutation r = any_permutation(size);
    RC_ASSERT(p.then(p.inverse()).is_identity());
    RC_ASSERT(p.then(q).then(r) == p.then(q.then(r)));
    RC_ASSERT(p.then(q).inverse() == q.inverse().then(p.inverse()));
    const Tensor x = random_normal({size, 3}, {*rc::gen::arbitrary<std::uint64_t>(), 2});
    RC_ASSERT(same_bits(q.apply(p.apply(x, 0), 0), p.then(q).apply(x, 0)));
  }));
}
