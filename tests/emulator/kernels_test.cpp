// Right kernels: the numbers of plain loops in double, and the same bits under every schedule.

#include "device.h"
#include "kernels.h"

#include <numeric>

namespace {

using namespace eg::test;
using eg::emulator::checked;

TEST_CASE("emulator: softmax of random shapes") {
  std::mt19937_64 generator(1);
  for (int round = 0; round < (checked() ? 30 : 300); ++round) {
    const int rows = between(1, 6, generator), n = between(1, 300, generator), threads = 32 * between(1, 8, generator);
    const auto count = static_cast<std::size_t>(rows * n);
    const DeviceArray<float> x(normal(count, generator, 3));
    const auto values = x.host();
    const auto y = on_all_schedules([&] {
      const DeviceArray<float> out(count);
      softmax(x.data(), out.data(), rows, n, threads);
      return out.host();
    });
    std::vector<double> want(count);
    for (std::size_t r = 0; r < count; r += static_cast<std::size_t>(n)) {
      double total = 0;
      for (std::size_t j = r; j < r + static_cast<std::size_t>(n); ++j) total += want[j] = std::exp(double{values[j]});
      for (std::size_t j = r; j < r + static_cast<std::size_t>(n); ++j) want[j] /= total;
    }
    CHECK(error(y, want) < 1e-6);
  }
}

/// y, dx, dgamma and dbeta of rows of n.
struct Norm {
  std::vector<double> y, dx, sums;
};
Norm norm_reference(const std::vector<float>& x, const std::vector<float>& gamma, const std::vector<float>& beta,
                    const std::vector<float>& g, double eps) {
  const std::size_t n = gamma.size(), rows = x.size() / n;
  Norm want{std::vector<double>(x.size()), std::vector<double>(x.size()), std::vector<double>(2 * n)};
  for (std::size_t r = 0; r < rows; ++r) {
    const float* const row = x.data() + r * n;
    double mean = 0, var = 0, a = 0, b = 0;
    for (std::size_t j = 0; j < n; ++j) mean += row[j] / static_cast<double>(n);
    for (std::size_t j = 0; j < n; ++j) var += (row[j] - mean) * (row[j] - mean) / static_cast<double>(n);
    const double rstd = 1 / std::sqrt(var + eps);
    for (std::size_t j = 0; j < n; ++j) {
      const double xh = (row[j] - mean) * rstd, gj = g[r * n + j], gh = gj * gamma[j];
      want.y[r * n + j] = xh * gamma[j] + beta[j];
      a += gh / static_cast<double>(n);
      b += gh * xh / static_cast<double>(n);
      want.sums[j] += gj * xh;
      want.sums[n + j] += gj;
    }
    for (std::size_t j = 0; j < n; ++j) {
      const double xh = (row[j] - mean) * rstd, gh = static_cast<double>(g[r * n + j]) * gamma[j];
      want.dx[r * n + j] = rstd * (gh - a - xh * b);
    }
  }
  return want;
}

TEST_CASE("emulator: layer_norm and its gradient of random shapes") {
  std::mt19937_64 generator(2);
  constexpr float eps = 1e-2F;
  for (int round = 0; round < (checked() ? 20 : 200); ++round) {
    const int rows = between(1, 20, generator), n = between(1, 130, generator), blocks = between(1, 4, generator);
    const auto width = static_cast<std::size_t>(n), count = static_cast<std::size_t>(rows) * width;
    const auto x = normal(count, generator, 2, 1), gamma = normal(width, generator, 0.5, 1.5);
    const auto beta = normal(width, generator), g = normal(count, generator);
    const DeviceArray<float> dx(x), dgamma(gamma), dbeta(beta), dg(g);
    const Norm want = norm_reference(x, gamma, beta, g, eps);
    const auto y = on_all_schedules([&] {
      const DeviceArray<float> out(count);
      layer_norm(dx.data(), dgamma.data(), dbeta.data(), out.data(), rows, n, eps);
      return out.host();
    });
    CHECK(error(y, want.y) < 4e-6);
    std::vector<float> sums;
    const auto gradient = on_all_schedules([&] {
      const DeviceArray<float> out(count), partial(static_cast<std::size_t>(blocks) * 2 * width), joined(2 * width);
      layer_norm_backward(dx.data(), dgamma.data(), dg.data(), out.data(), partial.data(), joined.data(), rows, n, eps,
                          blocks);
      auto all = out.host();
      sums = joined.host();
      all.insert(all.end(), sums.begin(), sums.end());
      return all;
    });
    CHECK(error(std::vector<float>(gradient.begin(), gradient.end() - 2 * n), want.dx) < 1e-5);
    CHECK(error(sums, want.sums) < 1e-5);
  }
}

TEST_CASE("emulator: addition with broadcasting of random shapes") {
  std::mt19937_64 generator(4);
  for (int round = 0; round < (checked() ? 100 : 1500); ++round) {
    Walk walk;
    walk.rank = between(1, 4, generator);
    long counts[2] = {1, 1}, count = 1;
    for (int axis = walk.rank - 1; axis >= 0; --axis) {
      walk.extent[axis] = between(1, 7, generator);
      count *= walk.extent[axis];
      for (int side = 0; side < 2; ++side) {
        if (between(0, 3, generator) == 0) continue; // repeated along this axis
        walk.stride[side][axis] = counts[side];
        counts[side] *= walk.extent[axis];
      }
    }
    const auto a = normal(static_cast<std::size_t>(counts[0]), generator);
    const auto b = normal(static_cast<std::size_t>(counts[1]), generator);
    const DeviceArray<float> da(a), db(b);
    const auto y = on_all_schedules([&] {
      const DeviceArray<float> out(static_cast<std::size_t>(count));
      add(walk, da.data(), db.data(), out.data(), count);
      return out.host();
    });
    bool right = true;
    for (long i = 0; i < count; ++i) {
      long rest = i, at[2] = {0, 0};
      for (int axis = walk.rank - 1; axis >= 0; rest /= walk.extent[axis--])
        for (int side = 0; side < 2; ++side) at[side] += rest % walk.extent[axis] * walk.stride[side][axis];
      right = right &&
              y[static_cast<std::size_t>(i)] == a[static_cast<std::size_t>(at[0])] + b[static_cast<std::size_t>(at[1])];
    }
    CHECK(right);
  }
}

TEST_CASE("emulator: 16 bytes at once, in float and double") {
  std::mt19937_64 generator(5);
  for (const long count : {1L, 3L, 64L, 1000L}) {
    const auto a = normal(static_cast<std::size_t>(4 * count), generator);
    const DeviceArray<float> x(a), y(a.size());
    add_packed(x.data(), x.data(), y.data(), count);
    const auto twice = y.host();
    CHECK(std::ranges::equal(a, twice, [](float one, float two) { return 2 * one == two; }));
    const DeviceArray<double> dx(std::vector<double>(a.begin(), a.end())), dy(a.size());
    add_packed(dx.data(), dx.data(), dy.data(), 2 * count);
    const auto wide = dy.host();
    CHECK(std::ranges::equal(a, wide, [](double one, double two) { return 2 * one == two; }));
  }
}

TEST_CASE("emulator: a matrix product has the bits of a chain of multiply-adds") {
  std::mt19937_64 generator(6);
  for (int round = 0; round < (checked() ? 6 : 60); ++round) {
    const int m = between(1, 70, generator), n = between(1, 70, generator), k = between(1, 50, generator);
    const auto um = static_cast<std::size_t>(m), un = static_cast<std::size_t>(n), uk = static_cast<std::size_t>(k);
    const auto a = normal(um * uk, generator), b = normal(uk * un, generator);
    const DeviceArray<float> da(a), db(b);
    const int tile = 16 << between(0, 2, generator);
    const auto c = on_all_schedules([&] {
      const DeviceArray<float> out(um * un);
      matmul(da.data(), db.data(), out.data(), m, n, k, tile);
      return out.host();
    });
    std::vector<float> chain(um * un);
    std::vector<double> want(um * un);
    for (std::size_t i = 0; i < um; ++i)
      for (std::size_t j = 0; j < un; ++j)
        for (std::size_t l = 0; l < uk; ++l) {
          want[i * un + j] += static_cast<double>(a[i * uk + l]) * b[l * un + j];
          chain[i * un + j] = std::fma(a[i * uk + l], b[l * un + j], chain[i * un + j]);
        }
    CHECK(same_bits(c, chain));
    CHECK(error(c, want) < 1e-5);
  }
}

TEST_CASE("emulator: a scatter by whole-number atomics has no order") {
  std::mt19937_64 generator(7);
  for (int round = 0; round < (checked() ? 10 : 100); ++round) {
    const int tokens = between(1, 60, generator), width = between(1, 40, generator), rows = between(1, 9, generator);
    const auto count = static_cast<std::size_t>(rows * width);
    std::vector<long> ids(static_cast<std::size_t>(tokens));
    for (long& id : ids) id = between(0, rows - 1, generator);
    const auto g = normal(static_cast<std::size_t>(tokens * width), generator);
    const DeviceArray<long> di(ids);
    const DeviceArray<float> dg(g);
    const double unit = std::ldexp(1.0, -50);
    const auto sums = on_all_schedules([&] {
      const DeviceArray<unsigned long long> whole(count);
      const DeviceArray<float> out(count);
      eg::emulator::device_memset(whole.data(), 0, count * sizeof(unsigned long long));
      scatter_add(di.data(), dg.data(), whole.data(), tokens, width, 1 / unit);
      scale(whole.data(), out.data(), static_cast<long>(count), unit);
      return out.host();
    });
    std::vector<double> want(count);
    for (std::size_t i = 0; i < g.size(); ++i) {
      const std::size_t token = i / static_cast<std::size_t>(width), j = i % static_cast<std::size_t>(width);
      want[static_cast<std::size_t>(ids[token] * width) + j] += g[i];
    }
    CHECK(error(sums, want) < 1e-6);
  }
}

TEST_CASE("emulator: transposes") {
  std::mt19937_64 generator(8);
  constexpr int n = 64;
  const auto x = normal(n * n, generator);
  const DeviceArray<float> dx(x);
  for (const auto& kernel : {transpose, transpose_by_columns, transpose_unpadded}) {
    const auto y = on_all_schedules([&] {
      const DeviceArray<float> out(n * n);
      kernel(dx.data(), out.data(), n, nullptr);
      return out.host();
    });
    bool right = true;
    for (std::size_t i = 0; i < n * n; ++i) right = right && y[i] == x[i % n * n + i / n];
    CHECK(right);
  }
}

TEST_CASE("emulator: the words of a warp") {
  std::vector<int> x(32);
  for (int i = 0; i < 32; ++i) x[static_cast<std::size_t>(i)] = i * i % 11;
  const DeviceArray<int> dx(x);
  const auto y = on_all_schedules([&] {
    const DeviceArray<int> out(6 * 32);
    warp_words(dx.data(), out.data());
    return out.host();
  });
  unsigned votes = 0;
  for (unsigned i = 0; i < 32; ++i) votes |= x[i] % 3 == 0 ? 1U << i : 0U;
  for (std::size_t i = 0; i < 32; ++i) {
    const std::vector<int> want{x[5],
                                x[i ^ 9U],
                                x[i + 3 < 32 ? i + 3 : i],
                                x[i >= 3 ? i - 3 : i],
                                static_cast<int>(votes),
                                2 + (std::ranges::count(x, 7) != 0 ? 1 : 0)};
    CHECK(std::vector<int>(y.begin() + static_cast<long>(6 * i), y.begin() + static_cast<long>(6 * i + 6)) == want);
  }
}

TEST_CASE("emulator: barriers of half a warp order its memory") {
  std::vector<int> x(32), want;
  for (int i = 0; i < 32; ++i) x[static_cast<std::size_t>(i)] = i * i % 7;
  const DeviceArray<int> dx(x);
  const auto y = on_all_schedules([&] {
    const DeviceArray<int> out(32);
    half_warps(dx.data(), out.data());
    return out.host();
  });
  want = x;
  for (int round = 0; round < 3; ++round) {
    const int sums[2] = {std::accumulate(want.begin(), want.begin() + 16, 0),
                         std::accumulate(want.begin() + 16, want.end(), 0)};
    for (std::size_t i = 0; i < 32; ++i) want[i] = sums[i / 16] + static_cast<int>(i);
  }
  CHECK(y == want);
}

TEST_CASE("emulator: e^x by multiply-adds is within 2 ULP") {
  double worst = 0;
  for (float x = -87; x < 88; x += 0.00137F) {
    const double want = std::exp(static_cast<double>(x)), ulp = std::ldexp(1.0, std::ilogb(want) - 23);
    worst = std::max(worst, std::abs(exp_by_fma(x) - want) / ulp);
  }
  CHECK(worst < 2);
  CHECK(worst > 0.4); // the measure itself: no float is nearer than half a unit everywhere
}

} // namespace
