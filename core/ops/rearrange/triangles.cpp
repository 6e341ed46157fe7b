// Rows of tril and triu.

#include "core/device/module.h"
#include "core/ops/list.h"
#include "core/ops/views/movement.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg {
namespace {

std::vector<TensorSpec> infer(const OpArgs& args) {
  check_rank_at_least(args, 0, 2);
  return {{args.in[0].shape(), args.in[0].dtype()}};
}

/// The diagonal, moved to where it just leaves the matrix if it lies beyond.
std::int64_t diagonal_of(const OpArgs& args) {
  const Shape& x = args.in[0].shape();
  return std::clamp(args.attrs.integer("diagonal"), -x[-2] - 1, x[-1] + 1);
}

template <bool lower> void triangle_cpu(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]);
  if (x.numel() == 0) return;
  const std::int64_t rows = x.shape()[-2];
  const std::int64_t columns = x.shape()[-1];
  const std::int64_t diagonal = diagonal_of(args);
  visit_dtype(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = out[0].mutable_data<T>();
    parallel::for_each(x.numel() / columns, parallel::grain_for_bytes(columns * static_cast<std::int64_t>(sizeof(T))),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t row = begin; row < end; ++row) {
                           const std::int64_t last = row % rows + diagonal; // column of the diagonal
                           const std::int64_t cut = std::clamp<std::int64_t>(lower ? last + 1 : last, 0, columns);
                           const T* x_row = from + row * columns;
                           T* y_row = to + row * columns;
                           std::fill(y_row, y_row + columns, T{});
                           if (lower)
                             std::copy(x_row, x_row + cut, y_row);
                           else
                             std::copy(x_row + cut, x_row + columns, y_row + cut);
                         }
                       });
  });
}

template <bool lower> void triangle_cuda(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]);
  if (x.numel() == 0) return;
  const device::TriangleJob job{out[0].mutable_device_bytes(args.op.name.data()),
                                x.device_bytes(),
                                size_of(x.dtype()),
                                x.numel(),
                                x.shape()[-2],
                                x.shape()[-1],
                                diagonal_of(args),
                                lower};
  device::launch(x.device(), args.op.name.data(), &device::Table::triangle, job);
}

template <bool lower> Gradients rule(const VjpArgs& args) {
  if (!args.wants(0)) return {Tensor()};
  const std::int64_t diagonal = args.attrs.integer("diagonal");
  return {lower ? tril(args.grad[0], diagonal) : triu(args.grad[0], diagonal)};
}

template <bool lower> std::vector<Tensor> naive(const OpArgs& args) {
  const std::int64_t diagonal = args.attrs.integer("diagonal");
  return {tabulate(args.in[0].shape(), args.in[0].dtype(), [&](const Index& i) {
    const std::int64_t right = i.back() - i[i.size() - 2];
    return (lower ? right <= diagonal : right >= diagonal) ? read(args.in[0], i) : 0.0;
  })};
}

std::vector<Sample> samples(DType dtype) {
  const auto at = [](std::int64_t diagonal) { return Attrs{{"diagonal", diagonal}}; };
  return {{{sample_values({5, 5}, dtype, 1)}, {}, "square"},
          {{sample_values({3, 4, 7}, dtype, 2)}, at(2), "wide, above the diagonal"},
          {{sample_values({2, 3, 33, 5}, dtype, 3)}, at(-1), "tall, below the diagonal"},
          {{sample_transposed({4, 3, 6}, dtype, 4)}, at(0), "transposed"},
          {{sample_values({3, 1, 1}, dtype, 5)}, at(0), "one element each"},
          {{sample_values({2, 3, 3}, dtype, 6)}, at(100), "the diagonal is outside"},
          {{sample_values({2, 0, 3}, dtype, 7)}, at(0), "no rows"}};
}

std::vector<Refusal> refuses() {
  return {{{Tensor::zeros({3})}, {}, "x must have at least 2 axes, it is [3]"},
          {{Tensor::zeros({3, 3})}, {{"diagonal", 0.5}}, "attribute 'diagonal' must be an integer"}};
}

std::vector<Symmetry> leading_axes(const Sample& s) {
  std::vector<Symmetry> list;
  for (int axis = 0; axis + 2 < s.in[0].rank(); ++axis) add_axis_symmetry(list, s, axis, axis);
  return list;
}

constexpr AttrSpec diagonal_spec = attr_int("diagonal", 0, "which diagonal; above 0: further up and right");

} // namespace

constinit const OpDef tril_op = row({
    .name = "tril",
    .math = "y_ij = x_ij where j - i <= diagonal, else 0",
    .inputs = {{"x"}},
    .attributes = {diagonal_spec},
    .infer = infer,
    .cpu = triangle_cpu<true>,
    .cuda = triangle_cuda<true>,
    .cuda_same_bits = true,
    .vjp = rule<true>,
    .reference = naive<true>,
    .samples = samples,
    .refuses = refuses,
    .symmetries = leading_axes,
    .work = movement_work,
});

constinit const OpDef triu_op = row({
    .name = "triu",
    .math = "y_ij = x_ij where j - i >= diagonal, else 0",
    .inputs = {{"x"}},
    .attributes = {diagonal_spec},
    .infer = infer,
    .cpu = triangle_cpu<false>,
    .cuda = triangle_cuda<false>,
    .cuda_same_bits = true,
    .vjp = rule<false>,
    .reference = naive<false>,
    .samples = samples,
    .refuses = refuses,
    .symmetries = leading_axes,
    .work = movement_work,
});

Tensor tril(const Tensor& x, std::int64_t diagonal) { return call1(tril_op, {x}, {{"diagonal", diagonal}}); }
Tensor triu(const Tensor& x, std::int64_t diagonal) { return call1(triu_op, {x}, {{"diagonal", diagonal}}); }

} // namespace eg
