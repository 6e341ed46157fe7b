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

} // namespace
