// Scans of several rows at once: the bits of a plain loop, on every width of vectors.

#include "core/ops.h"
#include "core/ops/reduce/scan_rows.h"
#include "core/random.h"

#include <doctest/doctest.h>
#include <hwy/targets.h>

#include <cstdint>
#include <vector>

using namespace eg;
using reduce::Scan;

namespace {

template <class T> Tensor numbers(std::int64_t n, std::uint64_t seed) {
  return random_normal({reduce::rows_of_scan, n}, RandomKey{seed, 3}, 0.9, 0.4, dtype_of<T>);
}

/// By one loop for each row, in double.
template <class T> std::vector<T> plainly(Scan scan, const T* a, const T* b, std::int64_t n, bool reverse) {
  std::vector<T> y(static_cast<std::size_t>(reduce::rows_of_scan * n));
  for (std::int64_t row = 0; row < reduce::rows_of_scan; ++row) {
    double z = 0;
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t at = row * n + (reverse ? n - 1 - k : k);
      const double v = static_cast<double>(a[at]);
      if (scan == Scan::linear) {
        const double product = v * z;
        z = k == 0 ? static_cast<double>(b[at]) : product + static_cast<double>(b[at]);
      } else {
        z = k == 0 ? v : scan == Scan::sum ? z + v : z * v;
      }
      y[static_cast<std::size_t>(at)] = static_cast<T>(z);
    }
  }
  return y;
}

template <class T> bool same(Scan scan, std::int64_t n, bool reverse, bool claimed) {
  const Tensor a = numbers<T>(n, 1), b = numbers<T>(n, 2);
  std::vector<T> y(static_cast<std::size_t>(a.numel()));
  reduce::scan_rows(scan, a.data<T>(), b.data<T>(), n, reverse, y.data());
  return y == plainly(scan, a.data<T>(), b.data<T>(), n, claimed);
}

void check_all() {
  for (const std::int64_t n : {1, 2, 7, 63, 64, 65, 130})
    for (const Scan scan : {Scan::sum, Scan::product, Scan::linear})
      for (const bool reverse : {false, true}) {
        CAPTURE(n);
        CAPTURE(static_cast<int>(scan));
        CAPTURE(reverse);
        CHECK(same<float>(scan, n, reverse, reverse));
        CHECK(same<double>(scan, n, reverse, reverse));
      }
}

} // namespace

TEST_CASE("scans of eight rows give the bits of plain loops") {
  check_all();
  CHECK(!same<float>(Scan::sum, 65, true, false)); // the check sees the other direction
  CHECK(!same<double>(Scan::linear, 65, false, true));
}

TEST_CASE("every width of vectors scans alike") {
  struct Restore {
    ~Restore() {
      hwy::SetSupportedTargetsForTest(0);
      hwy::GetChosenTarget().DeInit();
    }
  } const restore;
  for (std::int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
    hwy::SetSupportedTargetsForTest(rest & -rest);
    hwy::GetChosenTarget().DeInit();
    check_all();
  }
}

TEST_CASE("rows behind the last eight continue a cumsum with the same bits") {
  const Tensor x = random_normal({11, 70}, RandomKey{5, 3}, 0.0, 1.0);
  const Tensor all = cumsum(x, 1);
  for (std::int64_t row = 0; row < 11; ++row) {
    const Tensor one = cumsum(x.slice(0, row, row + 1), 1);
    for (std::int64_t k = 0; k < 70; ++k) CHECK(all.data<float>()[row * 70 + k] == one.data<float>()[k]);
  }
}
