// Means of windows that do not overlap: pixels may change places within a window, and windows as wholes. Enlarged
// images: pixels that are shown several times.

#include "core/ops.h"
#include "core/ops/list.h"
#include "permute/inference/rules.h"

#include <numeric>

namespace eg::permute {
namespace {

/// Extent of the windows along an axis where they tile it; 0 where they do not.
std::int64_t tile(std::int64_t extent, std::int64_t windows) {
  return windows > 0 && extent % windows == 0 ? extent / windows : 0;
}

/// One number of a list of one or two; `otherwise` of an empty one.
std::int64_t along(const std::vector<std::int64_t>& list, std::size_t axis, std::int64_t otherwise) {
  if (list.empty()) return otherwise;
  return list.size() == 1 ? list[0] : list[axis];
}

void read_tiles(Call& call, std::int64_t rows, std::int64_t columns) {
  const std::int64_t sides[] = {rows, columns};
  std::vector<std::pair<int, int>> settled;
  for (int side = 0; side < 2; ++side) {
    const int axis = 2 + side;
    if (sides[side] < 2) continue; // single pixels: the row says it
    settled.emplace_back(0, axis);
    call.out[0].axes[static_cast<std::size_t>(axis)] = {
        call.points.blocks(independent(call.points, call.in_shape(0), call.in[0].axis(axis)), sides[side]), {}};
  }
  read_declared(call, settled);
}

void read_adaptive(Call& call) {
  const Shape &x = call.in_shape(0), &y = call.out_shape(0);
  read_tiles(call, tile(x[2], y[2]), tile(x[3], y[3]));
}

void read_pool(Call& call) {
  const Shape &x = call.in_shape(0), &y = call.out_shape(0);
  const Attrs& a = call.attrs();
  std::int64_t sides[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t kernel = along(a.integers("kernel_size"), i, 0);
    const bool apart = along(a.integers("stride"), i, kernel) == kernel && along(a.integers("padding"), i, 0) == 0;
    const int axis = 2 + static_cast<int>(i);
    sides[i] = apart && tile(x[axis], y[axis]) == kernel ? kernel : 0;
  }
  read_tiles(call, sides[0], sides[1]);
}

/// The pixel of a line of `from` that each of `to` shows.
std::vector<std::int64_t> nearest(std::int64_t from, std::int64_t to, const std::string& mode) {
  std::vector<double> line(static_cast<std::size_t>(from));
  std::iota(line.begin(), line.end(), 0.0);
  const Tensor shown = interpolate(Tensor::from(line, {1, 1, from, 1}), {to, 1}, mode.c_str());
  std::vector<std::int64_t> index;
  for (const double i : shown.contiguous().to_vector<double>()) index.push_back(static_cast<std::int64_t>(i));
  return index;
}

/// Pixels are shown again or left out.
void read_interpolate(Call& call) {
  const std::string& mode = call.attrs().text("mode");
  if (!mode.starts_with("nearest") || call.in_shape(0).numel() == 0) return read_declared(call);
  const Shape& y = call.out_shape(0);
  Shape shape = call.in_shape(0);
  call.out[0] = call.in[0];
  for (const int axis : {2, 3}) {
    call.out[0] = picked(call.points, call.out[0], shape, axis, nearest(shape[axis], y[axis], mode));
    shape[axis] = y[axis];
  }
  call.out[0].constant = false;
}

} // namespace

std::span<const OpRule> window_rules() {
  static constexpr OpRule rules[] = {
      {&avg_pool2d_op, read_pool}, {&adaptive_avg_pool2d_op, read_adaptive}, {&interpolate_op, read_interpolate}};
  return rules;
}

} // namespace eg::permute
