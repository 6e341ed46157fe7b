#include "core/gemm/blas.h"
#include "core/ops.h"
#include "core/threads/parallel.h"

#include <atomic>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <stdexcept>
#include <thread>

using namespace eg;

namespace {

/// Every combination of transposes on one shape against f64 loops, entrywise within 2 K eps |A||B|.
template <class T> void check_shape(std::int64_t m, std::int64_t n, std::int64_t k) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const Tensor a = random_normal(ta ? Shape{k, m} : Shape{m, k}, {1, 1}, 0, 1, dtype_of<T>);
      const Tensor b = random_normal(tb ? Shape{n, k} : Shape{k, n}, {1, 2}, 0, 1, dtype_of<T>);
      Tensor c = Tensor::full({m, n}, 2.0, dtype_of<T>);
      blas::gemm_tiled<T>(m, n, k, T(0.5), {a.data<T>(), ta ? m : k, ta}, {b.data<T>(), tb ? k : n, tb}, T(3),
                          c.mutable_data<T>(), n);
      const T* x = a.data<T>();
      const T* y = b.data<T>();
      const double eps = std::numeric_limits<T>::epsilon();
      bool within = true;
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 0;
          double size = 0;
          for (std::int64_t l = 0; l < k; ++l) {
            const double product = static_cast<double>(x[ta ? l * m + i : i * k + l]) * y[tb ? j * k + l : l * n + j];
            sum += product;
            size += std::abs(product);
          }
          const double bound = 2 * eps * (static_cast<double>(k) * 0.5 * size + 6.0) + 1e-300;
          within = within && std::abs(c.at({i, j}) - (0.5 * sum + 6.0)) <= bound;
        }
      CHECK_MESSAGE(within, m << "x" << n << "x" << k << (ta ? " T" : " N") << (tb ? "T" : "N"));
    }
}

} // namespace

TEST_CASE("products are right for every transpose, size and type") {
  check_shape<float>(1, 1, 1);
  check_shape<float>(65, 65, 64);
  check_shape<float>(300, 7, 33);
  check_shape<float>(129, 250, 130);
  check_shape<double>(65, 65, 64);
  check_shape<double>(130, 129, 127);
}

TEST_CASE("a product over nothing scales C, and an empty C is left alone") {
  float c = 5.0F;
  blas::gemm<float>(1, 1, 0, 1.0F, {}, {}, 2.0F, &c, 1);
  CHECK(c == 10.0F);
  blas::gemm<float>(1, 1, 0, 1.0F, {}, {}, 0.0F, &c, 1);
  CHECK(c == 0.0F);
  CHECK_NOTHROW(blas::gemm_tiled<float>(0, 4, 4, 1.0F, {}, {}, 0.0F, nullptr, 4));
}

TEST_CASE("beta 0 does not read C") {
  const Tensor a = Tensor::ones({2, 2});
  Tensor c = Tensor::full({2, 2}, std::numeric_limits<double>::quiet_NaN());
  blas::gemm<float>(2, 2, 2, 1.0F, {a.data<float>(), 2, false}, {a.data<float>(), 2, false}, 0.0F,
                    c.mutable_data<float>(), 2);
  CHECK(c.to_vector<float>() == std::vector<float>(4, 2.0F));
}

TEST_CASE("tiles cover C once, and the bits do not depend on the number of threads") {
  const Tensor a = random_normal({700, 300}, {2, 1});
  const Tensor b = random_normal({300, 500}, {2, 2});
  Tensor first;
  for (const int threads : {1, 2, 3, 8}) {
    parallel::set_threads(threads);
    Tensor c = Tensor::empty({700, 500});
    std::atomic<std::int64_t> covered{0};
    const auto after = [&](const blas::Tile& tile) { covered += tile.rows * tile.cols; };
    blas::gemm_tiled<float>(700, 500, 300, 1.0F, {a.data<float>(), 300, false}, {b.data<float>(), 500, false}, {},
                            c.mutable_data<float>(), 500, after);
    CHECK(covered == 700 * 500);
    if (!first.defined()) first = c;
    CHECK(same_bits(c, first));
  }
  parallel::set_threads(0);
}

TEST_CASE("parallel loops cover every index once with fixed chunks") {
  for (const int threads : {1, 2, 5}) {
    parallel::set_threads(threads);
    std::vector<std::atomic<int>> seen(1003);
    std::atomic<int> odd_chunks{0};
    parallel::for_each(1003, 10, [&](std::int64_t begin, std::int64_t end) {
      if (begin % 10 != 0 || (end - begin != 10 && end != 1003)) ++odd_chunks;
      for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
    });
    CHECK(odd_chunks == 0);
    for (const auto& count : seen) CHECK(count == 1);
    CHECK_THROWS_AS(parallel::for_each(100, 1,
                                       [](std::int64_t begin, std::int64_t) {
                                         if (begin == 57) throw std::runtime_error("from a chunk");
                                       }),
                    std::runtime_error);
  }
  parallel::set_threads(0);
  CHECK_THROWS_AS(parallel::set_threads(-1), ValueError);
  CHECK_THROWS_AS(parallel::set_threads(100000), ValueError);
  CHECK_NOTHROW(parallel::for_each(0, 1, [](std::int64_t, std::int64_t) { FAIL("nothing to do"); }));
}

TEST_CASE("the number of threads may change while loops run") {
  std::atomic<bool> stop{false};
  std::thread changer([&] {
    for (int i = 0; i < 50; ++i) parallel::set_threads(1 + i % 3);
    stop = true;
  });
  do {
    std::atomic<std::int64_t> covered{0};
    parallel::for_each(100, 7, [&](std::int64_t begin, std::int64_t end) { covered += end - begin; });
    CHECK(covered == 100);
    CHECK(parallel::threads() >= 1);
    CHECK_FALSE(parallel::threads_reason().empty());
  } while (!stop);
  changer.join();
  parallel::set_threads(0);
}
