#include "core/gemm/int8_product.h"

#include "core/gemm/amx.h"
#include "core/gemm/amx_kernels.h"
#include "core/gemm/int8_kernels.h"
#include "core/gemm/tile_kernels.h"
#include "core/memory/allocator.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace eg::int8_product {
namespace {

using gemm::tiles::Line;
using gemm::tiles::most_rows;
using gemm::tiles::side;

constexpr std::int64_t terms = 64; // of a step

/// 64 bytes of one row, zeros behind the last.
void copy_line(const std::int8_t* x, std::int64_t count, void* to) {
  if (count < terms) std::memset(to, 0, terms);
  std::memcpy(to, x, static_cast<std::size_t>(std::min(count, terms)));
}

/// 32 rows of the left operand from `row` on, of which `rows` are there.
void pack_left(const Product& p, std::int64_t row, std::int64_t rows, Line* out) {
  for (std::int64_t from = 0; from < p.k; from += terms)
    for (std::int64_t i = 0; i < side; ++i, ++out) {
      if (i < rows)
        copy_line(p.a + (row + i) * p.lda + from, p.k - from, out);
      else
        std::memset(out, 0, sizeof *out);
    }
}

/// `width` columns of the right operand from `column` on, of which `columns` are there.
void pack_right(const Product& p, std::int64_t column, std::int64_t columns, std::int64_t width, Line* out) {
  alignas(64) std::uint32_t words[16][16];
  for (std::int64_t from = 0; from < p.k; from += terms)
    for (std::int64_t j = 0; j < width; j += most_rows, out += most_rows) {
      for (std::int64_t i = 0; i < most_rows; ++i) {
        if (j + i < columns)
          copy_line(p.b + (column + j + i) * p.ldb + from, p.k - from, words[i]);
        else
          std::memset(words[i], 0, sizeof words[i]);
      }
      gemm::tiles::transpose(words, out);
    }
}

/// One function for all kernels, so that they round alike.
void finish(const Product& p, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
            const std::int32_t* sums) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int32_t* const sum = sums + i * side;
    const float scale = p.row_scales[row + i];
    const float* const scales = p.column_scales + column;
    float* const c = p.c + (row + i) * p.ldc + column;
    for (std::int64_t j = 0; j < columns; ++j) c[j] = static_cast<float>(sum[j]) * (scale * scales[j]);
    if (p.plus.bias != nullptr)
      for (std::int64_t j = 0; j < columns; ++j) c[j] += p.plus.bias[column + j];
    if (p.plus.addend != nullptr)
      for (std::int64_t j = 0; j < columns; ++j) c[j] += p.plus.addend[(row + i) * p.plus.ld + column + j];
  }
}

void multiply_tile(const Product& p, const Engine& engine, std::int64_t steps, std::int64_t row, const Line* left,
                   std::int64_t column, const Line* right) {
  alignas(64) std::int32_t sums[side * side];
  const std::int64_t rows = std::min<std::int64_t>(side, p.m - row),
                     columns = std::min<std::int64_t>(side, p.n - column);
  engine.multiply(steps, left, right, rows, columns, sums);
  finish(p, row, rows, column, columns, sums);
}

std::vector<Engine> found_engines() {
  std::vector<Engine> all;
  if (gemm::amx::refusal(gemm::amx::Numbers::int8).empty())
    all.push_back({"tdpbssd (AMX)", gemm::amx::multiply_int8, gemm::amx::with_tiles});
  for (const Engine& engine : int8_kernels::engines()) all.push_back(engine);
  return all;
}

} // namespace

const std::vector<Engine>& engines() {
  static const std::vector<Engine> all = found_engines();
  return all;
}

void product(const Product& p) { product(p, engines().front()); }

void product(const Product& p, const Engine& engine) {
  assert(p.k <= most_terms);
  if (p.m == 0 || p.n == 0) return;
  const std::int64_t steps = (p.k + terms - 1) / terms;
  const std::int64_t tall = (p.m + side - 1) / side, wide = (p.n + side - 1) / side;
  const std::int64_t panel = steps * side; // lines
  const std::shared_ptr<std::byte> room =
      allocator::allocate(static_cast<std::size_t>((tall + wide) * panel + 1) * sizeof(Line));
  Line* const left = reinterpret_cast<Line*>(room.get());
  Line* const right = left + tall * panel;
  const auto each = [](std::int64_t count, std::int64_t grain, auto&& body) {
    parallel::for_each(count, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) body(i);
    });
  };
  const std::int64_t panels_of_a_task = std::max<std::int64_t>(parallel::grain_for_bytes(2 * panel * 64), 1);
  each(tall, panels_of_a_task,
       [&](std::int64_t i) { pack_left(p, i * side, std::min<std::int64_t>(side, p.m - i * side), left + i * panel); });
  each(wide, panels_of_a_task, [&](std::int64_t j) {
    const std::int64_t columns = std::min<std::int64_t>(side, p.n - j * side);
    pack_right(p, j * side, columns, columns > most_rows ? side : most_rows, right + j * panel);
  });
  // A task multiplies some panels of the left operand with one of the right one after another, which stays in cache.
  constexpr std::int64_t tall_task = 4, wide_task = 8; // 128 x 256 of C
  const std::int64_t rows_of_tasks = (tall + tall_task - 1) / tall_task;
  each(rows_of_tasks * ((wide + wide_task - 1) / wide_task), 1, [&](std::int64_t task) {
    const std::int64_t first = task % rows_of_tasks * tall_task, begin = task / rows_of_tasks * wide_task;
    const auto tiles = [&] {
      for (std::int64_t j = begin; j < std::min(begin + wide_task, wide); ++j)
        for (std::int64_t i = first; i < std::min(first + tall_task, tall); ++i)
          multiply_tile(p, engine, steps, i * side, left + i * panel, j * side, right + j * panel);
    };
    if (engine.prepared != nullptr)
      engine.prepared(tiles);
    else
      tiles();
  });
}

} // namespace eg::int8_product
