#include "data/tensor_stats.h"

#include "core/random.h"
#include "core/threads/parallel.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>

using namespace eg;
using namespace eg::data;

TEST_CASE("tensor stats: of few numbers by hand") {
  const TensorStats s = statistics(Tensor::from<std::int64_t>({1, 2, 3, 10}, {2, 2}));
  CHECK(s.finite == 4);
  CHECK(s.min == 1);
  CHECK(s.max == 10);
  CHECK(s.mean == 4);
  CHECK(s.deviation == doctest::Approx(std::sqrt(12.5)));
  const TensorStats flags = statistics(Tensor::from<bool>({true, false, true, true}, {4}));
  CHECK(flags.mean == 0.75);
  const TensorStats none = statistics(Tensor::empty({0, 3}));
  CHECK(none.finite == 0);
  CHECK(std::isnan(none.mean));
  const double huge = std::numeric_limits<double>::max();
  CHECK(statistics(Tensor::from<double>({huge, huge}, {2})).mean == huge); // their sum is infinite
  CHECK(statistics(Tensor::from<float>({NAN, -INFINITY}, {2})).nan == 1);
  CHECK(statistics(Tensor::from<float>({NAN, -INFINITY}, {2})).infinite == 1);
}

TEST_CASE("tensor stats: parts are joined; layouts and threads change nothing") {
  const Tensor x = random_normal({700, 301}, {.seed = 9});
  const std::vector<float> values = x.to_vector<float>();
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) + 100;
  const double mean = sum / static_cast<double>(values.size());
  double squares = 0;
  for (const float v : values) squares += std::pow(static_cast<double>(v) + 100 - mean, 2);
  Tensor far = Tensor::empty({700, 301}, DType::f64);
  for (std::size_t i = 0; i < values.size(); ++i) far.mutable_data<double>()[i] = static_cast<double>(values[i]) + 100;
  const TensorStats s = statistics(far);
  CHECK(s.mean == doctest::Approx(mean).epsilon(1e-13));
  CHECK(s.deviation == doctest::Approx(std::sqrt(squares / static_cast<double>(values.size()))).epsilon(1e-12));
  CHECK(s.deviation != doctest::Approx(std::sqrt(squares / static_cast<double>(values.size() - 1))).epsilon(1e-12));
  const TensorStats turned = statistics(far.transpose());
  CHECK(turned.mean == doctest::Approx(mean).epsilon(1e-13));
  CHECK(turned.max == s.max);
  const int threads = parallel::threads();
  parallel::set_threads(1);
  const TensorStats one = statistics(far);
  parallel::set_threads(threads);
  CHECK(one.mean == s.mean);
  CHECK(one.deviation == s.deviation);
}
