// Blocks of matrices transposed in vectors: every remainder, and nothing written beside the block.

#include "core/simd/transpose.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <vector>

namespace {

/// Whether a block in the middle of a larger matrix arrives, and its surroundings stay. `steps`: of the claimed source.
template <class T> bool arrives(std::int64_t rows, std::int64_t columns, std::int64_t claimed_step) {
  constexpr std::int64_t step = 23, first = 2;
  std::vector<T> from(step * step), to(step * step, T(-1)), want = to;
  std::iota(from.begin(), from.end(), T(0));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      want[static_cast<std::size_t>((first + c) * step + first + r)] =
          from[static_cast<std::size_t>((first + r) * step + first + c)];
  constexpr std::int64_t at = first * step + first;
  eg::simd::transpose<T>(from.data() + at, claimed_step, to.data() + at, step, rows, columns);
  return to == want;
}

} // namespace

TEST_CASE("a block is transposed whatever its extents, and nothing beside it is written") {
  for (std::int64_t rows = 0; rows < 19; ++rows)
    for (std::int64_t columns = 0; columns < 19; ++columns) {
      CAPTURE(rows);
      CAPTURE(columns);
      CHECK(arrives<float>(rows, columns, 23));
      CHECK(arrives<double>(rows, columns, 23));
    }
  CHECK(!arrives<float>(5, 5, 22)); // the check sees a wrong element
  CHECK(!arrives<double>(2, 2, 22));
}
