// The vector kernels of Huber's function have the bits of its plain form.

#include "core/ops/loss/huber_kernels.h"

#include <bit>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

using namespace eg;

namespace {

/// Numbers of any bits, of middling size, at the kinks, zeros, infinities and NaN.
template <class T> std::vector<T> numbers(double beta) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  std::vector<T> x = {T(0),
                      -T(0),
                      infinity,
                      -infinity,
                      std::numeric_limits<T>::quiet_NaN(),
                      T(beta),
                      T(-beta),
                      std::nextafter(T(beta), T(0)),
                      std::numeric_limits<T>::denorm_min()};
  std::mt19937_64 draw(20261127);
  while (x.size() < 5003) {
    x.push_back(std::bit_cast<T>(static_cast<Bits>(draw())));
    x.push_back(static_cast<T>(static_cast<double>(draw() % 400001) / 1e5 - 2.0));
    x.push_back(static_cast<T>((static_cast<double>(draw() % 400001) / 1e5 - 2.0) * beta));
  }
  return x;
}

template <class T> bool same(T a, T b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

template <class T> void check(double beta) {
  const std::vector<T> x = numbers<T>(beta);
  std::vector<T> y(x.size()), slope(x.size());
  huber_of(x.data(), y.data(), std::ssize(x), beta);
  huber_slope_of(x.data(), slope.data(), std::ssize(x), beta);
  std::size_t differ = 0, moved = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto of = [&](double b) { return static_cast<T>(huber_of(static_cast<double>(x[i]), b)); };
    if (!same(y[i], of(beta)) || !same(slope[i], static_cast<T>(huber_slope_of(static_cast<double>(x[i]), beta))))
      ++differ;
    if (!same(y[i], of(beta * (1.0 + 0x1p-20) + 0x1p-20))) ++moved;
  }
  CHECK(differ == 0);
  CHECK(moved > 1000); // a threshold a little further is seen
}

} // namespace

TEST_CASE("Huber's function in vectors has the bits of its plain form") {
  for (const double beta : {1.0, 0.4, 0.0, 3.7e-5, 0.125, 0x1p60, 0x1p-60, 0x1p61, 0x1p-61, 0x1p-140}) {
    check<float>(beta);
    check<double>(beta);
  }
}
