// Our own product: sizes on both sides of every cut, operands inside larger matrices, and what its bits depend on.

#include "unit/gemm_case.h"

#include <hwy/targets.h>

using namespace eg;

namespace {

double as_it_is(double x) { return x; }

template <class T> void check(std::int64_t m, std::int64_t n, std::int64_t k) {
  test::check_product<T>(gemm::product<T>, as_it_is, m, n, k);
}

} // namespace

TEST_CASE("the packed product is right on both sides of every cut") {
  REQUIRE(gemm::available());
  for (const std::int64_t m : {1, 5, 11, 12, 13, 25})
    for (const std::int64_t n : {1, 7, 15, 16, 17, 33, 63}) check<float>(m, n, 9);
  check<float>(37, 300, 515);
  check<float>(600, 37, 1030); // not swapped
  check<float>(49, 530, 512);
  check<double>(13, 17, 5);
  check<double>(29, 143, 700);
}

TEST_CASE("every width of vectors that the processor has multiplies right") {
  struct Restore {
    ~Restore() {
      hwy::SetSupportedTargetsForTest(0);
      hwy::GetChosenTarget().DeInit();
    }
  } const restore;
  int widths = 0;
  for (std::int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1, ++widths) {
    const std::int64_t target = rest & -rest;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    CAPTURE(hwy::TargetName(target));
    check<float>(29, 75, 130);
    check<float>(130, 45, 530);
    check<double>(29, 75, 130);
  }
  CHECK(widths > 1); // AVX2 beside AVX-512, or SSE4 beside AVX2
}

TEST_CASE("regions larger than what is packed at once add up") {
  // 16 MiB are packed at once: regions of at most 4 Mi floats or 2 Mi doubles.
  check<float>(14, 130, 30000); // along k; with 14 rows and both operands along k: swapped
  check<float>(9, 9000, 600);   // along the columns
  check<float>(14, 3, 150000);  // one column of panels: narrow regions along k
  check<double>(14, 130, 15000);
}

TEST_CASE("an element's bits depend on its row, its column and k alone") {
  test::check_bits_of_parts(gemm::product<float>, 600);
}

TEST_CASE("what is added to a product has the bits of a C that held it before") {
  for (const std::int64_t m : {30, 700}) test::check_addends(gemm::product<float>, m); // swapped and not
}

TEST_CASE("blocks are announced after they are whole") {
  for (const std::int64_t m : {30, 700}) test::check_announcements(gemm::product<float>, m); // swapped and not
}
