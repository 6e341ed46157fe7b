#include "core/ops.h"

#include <doctest/doctest.h>

using namespace eg;

TEST_CASE("copy_from between views of the same elements") {
  SUBCASE("a transpose onto itself") {
    Tensor x = Tensor::arange(9).reshape({3, 3}).clone();
    const Tensor wanted = x.transpose().clone();
    x.copy_from(x.transpose());
    CHECK(same_bits(x, wanted));
  }
  SUBCASE("columns shifted by one") {
    const Tensor x = Tensor::arange(12).reshape({3, 4}).clone();
    const Tensor wanted = x.slice(1, 0, 3).clone();
    Tensor right = x.slice(1, 1, 4);
    right.copy_from(x.slice(1, 0, 3));
    CHECK(same_bits(right, wanted));
  }
  SUBCASE("a view onto itself changes nothing") {
    const Tensor x = Tensor::arange(12).reshape({3, 4}).clone();
    const Tensor before = x.clone();
    Tensor view = x.transpose();
    view.copy_from(x.transpose());
    CHECK(same_bits(x, before));
  }
}

TEST_CASE("copy_from with strides, gaps and repeated elements") {
  const Tensor source = random_normal({37, 41}, {51, 1});
  const Tensor packed = source.transpose().clone();
  CHECK(packed.is_contiguous());
  for (std::int64_t i = 0; i < 41; ++i)
    for (std::int64_t j = 0; j < 37; ++j) CHECK(packed.at({i, j}) == source.at({j, i}));
  Tensor holder = Tensor::zeros({41, 50});
  Tensor gap = holder.slice(1, 3, 40);
  gap.copy_from(source.transpose());
  CHECK(same_bits(gap, packed));
  CHECK(holder.at({0, 2}) == 0.0);
  CHECK(holder.at({40, 40}) == 0.0);
  Tensor one = Tensor::zeros({1, 41});
  Tensor repeated = one.expand({37, 41});
  repeated.copy_from(source); // the last row stays
  CHECK(same_bits(one, source.slice(0, 36, 37)));
}

TEST_CASE("copying an undefined tensor is an error") {
  Tensor x = Tensor::ones({2});
  Tensor undefined;
  CHECK_THROWS_WITH_AS(x.copy_from(undefined), "copy_from: the source is undefined", Error);
  CHECK_THROWS_WITH_AS(undefined.copy_from(x), "copy_from: the tensor to write to is undefined", Error);
  CHECK_THROWS_WITH_AS(undefined.clone(),
                       "clone: this tensor is undefined: default constructed, it stands for \"not given\"", Error);
  CHECK_THROWS_WITH_AS(undefined.fill(1.0),
                       "fill: this tensor is undefined: default constructed, it stands for \"not given\"", Error);
}
