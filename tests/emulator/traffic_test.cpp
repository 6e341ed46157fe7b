// Transactions of warps, counted without a GPU: right kernels need the fewest, planted ones are seen by their figures.

#include "device.h"
#include "kernels.h"

namespace {

using namespace eg::test;
namespace emulator = eg::emulator;

template <class F> emulator::Counts traffic_of(F f) {
  emulator::reset_counts();
  emulator::count_traffic(true);
  f();
  emulator::count_traffic(false);
  return emulator::counts();
}

double sectors(const emulator::Counts& counts) {
  return static_cast<double>(counts.sectors) / static_cast<double>(counts.ideal_sectors);
}
double passes(const emulator::Counts& counts) {
  return static_cast<double>(counts.bank_passes) / static_cast<double>(counts.ideal_bank_passes);
}
/// Bytes that threads ask for, as a share of what must be moved once.
double bytes(const emulator::Counts& counts, double least) {
  return static_cast<double>(counts.read_bytes + counts.write_bytes) / least;
}

TEST_CASE("traffic: right kernels move the fewest sectors") {
  if (!emulator::checked()) return;
  std::mt19937_64 generator(1);
  constexpr int rows = 16, n = 256;
  const DeviceArray<float> x(normal(rows * n, generator)), gamma(normal(n, generator)), y(rows * n);
  const auto soft = traffic_of([&] { softmax(x.data(), y.data(), rows, n, 128); });
  CHECK(sectors(soft) == 1);
  CHECK(passes(soft) == 1);
  CHECK(bytes(soft, 8.0 * rows * n) == 2); // it reads its row three times
  const auto norm = traffic_of([&] { layer_norm(x.data(), gamma.data(), gamma.data(), y.data(), rows, n, 1e-5F); });
  CHECK(sectors(norm) == 1);
  const auto packed = traffic_of([&] { add_packed(x.data(), x.data(), y.data(), rows * n / 4); });
  CHECK(sectors(packed) == 1);
  CHECK(bytes(packed, 12.0 * rows * n) == 1);
  const auto product = traffic_of([&] { matmul(x.data(), x.data(), y.data(), 64, 64, 64, 64); });
  CHECK(sectors(product) == 1);
  CHECK(passes(product) < 1.2);
}

TEST_CASE("traffic: transposes by columns and by a tile without padding are flagged") {
  if (!emulator::checked()) return;
  std::mt19937_64 generator(1);
  constexpr int n = 64;
  const DeviceArray<float> x(normal(n * n, generator)), y(n * n);
  const auto right = traffic_of([&] { transpose(x.data(), y.data(), n); });
  CHECK(sectors(right) == 1);
  CHECK(passes(right) == 1);
  CHECK(right.reads == n * n);
  CHECK(right.writes == n * n);
  const auto columns = traffic_of([&] { transpose_by_columns(x.data(), y.data(), n); });
  CHECK(sectors(columns) == 4.5); // reads 1, writes 8
  const auto unpadded = traffic_of([&] { transpose_unpadded(x.data(), y.data(), n); });
  CHECK(sectors(unpadded) == 1);
  CHECK(passes(unpadded) == 16.5); // writes of the tile 1, reads 32
}

TEST_CASE("traffic: launches, blocks and threads are counted in both builds") {
  std::mt19937_64 generator(1);
  const DeviceArray<float> x(normal(1024, generator)), y(1024);
  emulator::reset_counts();
  softmax(x.data(), y.data(), 4, 256, 64);
  const emulator::Counts counts = emulator::counts();
  CHECK(counts.launches == 1);
  CHECK(counts.blocks == 4);
  CHECK(counts.threads == 256);
  CHECK(counts.switches > 0);
  CHECK(counts.sectors == 0); // nobody asked
}

} // namespace
