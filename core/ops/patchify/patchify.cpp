// patchify and unpatchify: images to sequences of flattened square patches and back; each is the other's adjoint.

#include "core/device/transfer.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/views/movement.h"
#include "core/ops/views/strided_copy.h"

#include <fmt/format.h>

namespace eg {
namespace {

/// Extents of the images and of the grid of patches.
struct Grid {
  std::int64_t batch, channels, height, width, patch;

  std::int64_t rows() const { return height / patch; }
  std::int64_t columns() const { return width / patch; }
  Shape images() const { return {batch, channels, height, width}; }
  Shape patches() const { return {batch, rows() * columns(), channels * patch * patch}; }
  /// Both sides have these axes, in this order in the patches: image, patch row, patch column, channel, row, column.
  Shape cells() const { return {batch, rows(), columns(), channels, patch, patch}; }
};

void check_grid(const OpArgs& a, const Grid& g) {
  // With these bounds no product below overflows.
  constexpr std::int64_t most_pixels = 32767;
  constexpr std::int64_t most_extent = (std::int64_t{1} << 31) - 1;
  if (g.patch < 1 || g.patch > most_pixels)
    throw ValueError(fmt::format("{}: patch is {}; it must be in [1, {}]", a.op.name, g.patch, most_pixels));
  for (const std::int64_t extent : {g.channels, g.height, g.width})
    if (extent < 0 || extent > most_extent)
      throw ValueError(fmt::format("{}: extent {} is outside [0, {}]", a.op.name, extent, most_extent));
  if (g.height % g.patch != 0 || g.width % g.patch != 0)
    throw ShapeError(
        fmt::format("{}: patches of {} do not tile the image: images are {}", a.op.name, g.patch, g.images().str()));
}

Grid patchify_grid(const OpArgs& a) {
  const Shape& s = a.in[0].shape();
  if (s.rank() != 4) throw ShapeError(fmt::format("patchify: images must be [B, C, H, W], they are {}", s.str()));
  const Grid g{s[0], s[1], s[2], s[3], a.attrs.integer("patch")};
  check_grid(a, g);
  return g;
}

Grid unpatchify_grid(const OpArgs& a) {
  const Shape& s = a.in[0].shape();
  if (s.rank() != 3)
    throw ShapeError(fmt::format("unpatchify: patches must be [B, patches, C p p], they are {}", s.str()));
  const Grid g{s[0], a.attrs.integer("channels"), a.attrs.integer("height"), a.attrs.integer("width"),
               a.attrs.integer("patch")};
  check_grid(a, g);
  g.images().numel(); // refuses what cannot be counted
  if (s != g.patches())
    throw ShapeError(fmt::format("unpatchify: patches do not fit the image: patches are {}, images {} need {}", s.str(),
                                 g.images().str(), g.patches().str()));
  return g;
}

/// Strides of the cells' axes over an image tensor with strides s.
Shape cells_of_images(const Shape& s, std::int64_t patch) {
  return {s[0], s[2] * patch, s[3] * patch, s[1], s[2], s[3]};
}

/// The same over a patch tensor with strides s.
Shape cells_of_patches(const Shape& s, const Grid& g) {
  return {s[0], s[1] * g.columns(), s[1], s[2] * g.patch * g.patch, s[2] * g.patch, s[2]};
}

void patchify_cpu(const OpArgs& a, std::span<Tensor> out) {
  const Grid g = patchify_grid(a);
  if (out[0].numel() == 0) return;
  strided_copy(out[0].dtype(), g.cells(), out[0].mutable_bytes("patchify"), contiguous_strides(g.cells()),
               a.in[0].bytes(), cells_of_images(a.in[0].strides(), g.patch));
}

void unpatchify_cpu(const OpArgs& a, std::span<Tensor> out) {
  const Grid g = unpatchify_grid(a);
  if (out[0].numel() == 0) return;
  strided_copy(out[0].dtype(), g.cells(), out[0].mutable_bytes("unpatchify"),
               cells_of_images(out[0].strides(), g.patch), a.in[0].bytes(), cells_of_patches(a.in[0].strides(), g));
}

void patchify_cuda(const OpArgs& a, std::span<Tensor> out) {
  const Grid g = patchify_grid(a);
  if (out[0].numel() == 0) return;
  Tensor to = out[0].view_as(g.cells(), contiguous_strides(g.cells()), 0);
  device::copy_elements(to, a.in[0].view_as(g.cells(), cells_of_images(a.in[0].strides(), g.patch), 0));
}

void unpatchify_cuda(const OpArgs& a, std::span<Tensor> out) {
  const Grid g = unpatchify_grid(a);
  if (out[0].numel() == 0) return;
  Tensor to = out[0].view_as(g.cells(), cells_of_images(out[0].strides(), g.patch), 0);
  device::copy_elements(to, a.in[0].view_as(g.cells(), cells_of_patches(a.in[0].strides(), g), 0));
}

std::vector<Tensor> patchify_reference(const OpArgs& a) {
  const Grid g = patchify_grid(a);
  const std::int64_t area = g.patch * g.patch;
  return {tabulate(g.patches(), a.in[0].dtype(), [&](const Index& i) {
    const std::int64_t row = i[1] / g.columns() * g.patch + i[2] % area / g.patch;
    const std::int64_t column = i[1] % g.columns() * g.patch + i[2] % g.patch;
    return read(a.in[0], {i[0], i[2] / area, row, column});
  })};
}

std::vector<Tensor> unpatchify_reference(const OpArgs& a) {
  const Grid g = unpatchify_grid(a);
  return {tabulate(g.images(), a.in[0].dtype(), [&](const Index& i) {
    const std::int64_t patch = i[2] / g.patch * g.columns() + i[3] / g.patch;
    const std::int64_t inside = (i[1] * g.patch + i[2] % g.patch) * g.patch + i[3] % g.patch;
    return read(a.in[0], {i[0], patch, inside});
  })};
}

Attrs patch_attr(std::int64_t patch) { return {{"patch", patch}}; }

Attrs image_attrs(std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t patch) {
  return {{"channels", channels}, {"height", height}, {"width", width}, {"patch", patch}};
}

std::vector<Sample> patchify_samples(DType dtype) {
  return {{{sample_values({2, 3, 4, 6}, dtype, 1)}, patch_attr(2), "colour images"},
          {{sample_transposed({3, 1, 6, 3}, dtype, 2)}, patch_attr(3), "transposed grey images"},
          {{sample_values({1, 2, 5, 7}, dtype, 3)}, patch_attr(1), "patches of one pixel"},
          {{sample_values({0, 1, 2, 2}, dtype, 4)}, patch_attr(2), "no images"}};
}

std::vector<Refusal> patchify_refuses() {
  return {{{Tensor::zeros({2, 3, 32})}, patch_attr(4), "images must be [B, C, H, W], they are [2, 3, 32]"},
          {{Tensor::zeros({1, 1, 30, 32})}, patch_attr(4), "patches of 4 do not tile the image"},
          {{Tensor::zeros({1, 1, 4, 4})}, patch_attr(0), "patch is 0"}};
}

std::vector<Sample> unpatchify_samples(DType dtype) {
  return {{{sample_values({2, 6, 12}, dtype, 1)}, image_attrs(3, 4, 6, 2), "colour images"},
          {{sample_transposed({3, 2, 9}, dtype, 2)}, image_attrs(1, 6, 3, 3), "transposed patches"},
          {{sample_values({1, 35, 2}, dtype, 3)}, image_attrs(2, 5, 7, 1), "patches of one pixel"},
          {{sample_values({0, 1, 4}, dtype, 4)}, image_attrs(1, 2, 2, 2), "no images"}};
}

std::vector<Refusal> unpatchify_refuses() {
  return {{{Tensor::zeros({2, 12})}, image_attrs(3, 4, 6, 2), "patches must be [B, patches, C p p]"},
          {{Tensor::zeros({2, 6, 12})}, image_attrs(3, 4, 4, 2), "patches do not fit the image"},
          {{Tensor::zeros({2, 6, 12})}, image_attrs(3, 4, 5, 2), "patches of 2 do not tile the image"},
          {{Tensor::zeros({2, 6, 12})}, image_attrs(-3, 4, 6, 2), "extent -3 is outside [0,"}};
}

std::vector<Symmetry> images_axis(const Sample& s) {
  std::vector<Symmetry> list;
  add_axis_symmetry(list, s, 0, 0);
  return list;
}

} // namespace

constinit const OpDef patchify_op = row({
    .name = "patchify",
    .math = "y[b, (i, j), (c, u, v)] = x[b, c, i p + u, j p + v]",
    .inputs = {{"images"}},
    .outputs = {"patches"},
    .attributes = {required_attr("patch", AttrKind::integer, "side p of a patch, in pixels")},
    .infer = [](const OpArgs& a) -> std::vector<TensorSpec> {
      return {{patchify_grid(a).patches(), a.in[0].dtype()}};
    },
    .cpu = patchify_cpu,
    .cuda = patchify_cuda,
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& v) -> Gradients {
      const Shape& s = v.in[0].shape();
      return {unpatchify(v.grad[0], s[1], s[2], s[3], v.attrs.integer("patch"))};
    },
    .reference = patchify_reference,
    .samples = patchify_samples,
    .refuses = patchify_refuses,
    .symmetries = images_axis,
    .work = movement_work,
});

constinit const OpDef unpatchify_op = row({
    .name = "unpatchify",
    .math = "y[b, c, i p + u, j p + v] = x[b, (i, j), (c, u, v)]",
    .inputs = {{"patches"}},
    .outputs = {"images"},
    .attributes = {required_attr("channels", AttrKind::integer, "channels C of an image"),
                   required_attr("height", AttrKind::integer, "rows of an image, in pixels"),
                   required_attr("width", AttrKind::integer, "columns of an image, in pixels"),
                   required_attr("patch", AttrKind::integer, "side p of a patch, in pixels")},
    .infer = [](const OpArgs& a) -> std::vector<TensorSpec> {
      return {{unpatchify_grid(a).images(), a.in[0].dtype()}};
    },
    .cpu = unpatchify_cpu,
    .cuda = unpatchify_cuda,
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& v) -> Gradients { return {patchify(v.grad[0], v.attrs.integer("patch"))}; },
    .reference = unpatchify_reference,
    .samples = unpatchify_samples,
    .refuses = unpatchify_refuses,
    .symmetries = images_axis,
    .work = movement_work,
});

Tensor patchify(const Tensor& images, std::int64_t patch) { return call1(patchify_op, {images}, patch_attr(patch)); }

Tensor unpatchify(const Tensor& patches, std::int64_t channels, std::int64_t height, std::int64_t width,
                  std::int64_t patch) {
  return call1(unpatchify_op, {patches}, image_attrs(channels, height, width, patch));
}

} // namespace eg
