// Rows of block_diag and meshgrid: several tensors laid out side by side.

#include "core/ops/list.h"
#include "core/ops/views/movement.h"

#include <fmt/format.h>

namespace eg {
namespace {

void check_types(const OpArgs& args) {
  for (const Tensor& x : args.in)
    if (x.dtype() != args.in[0].dtype())
      throw DTypeError(fmt::format("{}: all must have one type: the first is {}, another is {}", args.op.name,
                                   name_of(args.in[0].dtype()), name_of(x.dtype())));
}

// --- block_diag ---

/// Vectors and scalars count as one row.
Shape block_shape(const OpArgs& args, const Tensor& x) {
  if (x.rank() > 2)
    throw ShapeError(fmt::format("{}: blocks have at most 2 axes, one is {}", args.op.name, x.shape().str()));
  if (x.rank() == 2) return x.shape();
  return {1, x.rank() == 1 ? x.shape()[0] : 1};
}

std::vector<TensorSpec> blocks_infer(const OpArgs& args) {
  check_types(args);
  Shape shape = {0, 0};
  for (const Tensor& x : args.in) {
    const Shape block = block_shape(args, x);
    if (__builtin_add_overflow(shape[0], block[0], &shape[0]) || __builtin_add_overflow(shape[1], block[1], &shape[1]))
      throw ShapeError("block_diag: the blocks have more rows or columns than can be counted");
  }
  return {{shape, args.in[0].dtype()}};
}

std::vector<Tensor> blocks_body(const OpArgs& args) {
  const std::int64_t columns = blocks_infer(args)[0].shape[1];
  std::vector<Tensor> rows;
  std::int64_t before = 0;
  for (const Tensor& x : args.in) {
    const Shape block = block_shape(args, x);
    rows.push_back(pad(reshape(x, block), 1, before, columns - before - block[1]));
    before += block[1];
  }
  return {concat(rows, 0)};
}

std::vector<Tensor> blocks_reference(const OpArgs& args) {
  const TensorSpec spec = blocks_infer(args)[0];
  Tensor y = Tensor::zeros(spec.shape, spec.dtype);
  std::int64_t row = 0, column = 0;
  for (const Tensor& given : args.in) {
    const Shape block = block_shape(args, given);
    const Tensor x = given.clone().reshape(block);
    visit_dtype(spec.dtype, [&]<class T>() {
      for (std::int64_t i = 0; i < block[0]; ++i)
        for (std::int64_t j = 0; j < block[1]; ++j)
          y.mutable_data<T>()[(row + i) * spec.shape[1] + column + j] = x.data<T>()[i * block[1] + j];
    });
    row += block[0];
    column += block[1];
  }
  return {y};
}

std::vector<Sample> blocks_samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_values(shape, dtype, tag); };
  return {{{x({2, 3}, 1), x({4, 1}, 2)}, {}, "two blocks"},
          {{sample_transposed({3, 5}, dtype, 3), x({2, 2}, 4), x({1, 4}, 5)}, {}, "three, one transposed"},
          {{x({3}, 6), x({}, 7), x({2, 2}, 8)}, {}, "a vector, a number and a matrix"},
          {{x({2, 0}, 9), x({2, 3}, 10)}, {}, "rows without columns"},
          {{sample_whole({2, 2}, 11, -9, 10), sample_whole({3}, 12, -9, 10)}, {}, "whole numbers"},
          {{x({3, 2}, 13)}, {}, "one block"}};
}

std::vector<Refusal> blocks_refuses() {
  return {{{Tensor::zeros({2, 2}), Tensor::zeros({1, 2, 2})}, {}, "blocks have at most 2 axes, one is [1, 2, 2]"},
          {{Tensor::zeros({2}), Tensor::zeros({2}, DType::i64)}, {}, "the first is f32, another is i64"}};
}

// --- meshgrid ---

/// Which output axis the vector with this number runs along.
int axis_of_vector(const OpArgs& args, std::size_t i) {
  const bool exchanged = args.attrs.text("indexing") == "xy" && args.in.size() > 1 && i < 2;
  return static_cast<int>(exchanged ? 1 - i : i);
}

std::vector<TensorSpec> grid_infer(const OpArgs& args) {
  check_types(args);
  const std::string& indexing = args.attrs.text("indexing");
  if (indexing != "ij" && indexing != "xy")
    throw ValueError(fmt::format("meshgrid: indexing is '{}'; it must be ij or xy", indexing));
  if (args.in.size() > max_rank)
    throw ShapeError(fmt::format("meshgrid: {} vectors make more axes than {}", args.in.size(), max_rank));
  Shape shape;
  for (std::size_t i = 0; i < args.in.size(); ++i) {
    if (args.in[i].rank() > 1)
      throw ShapeError(fmt::format("meshgrid: all must be vectors, one is {}", args.in[i].shape().str()));
    shape.push_back(1);
  }
  for (std::size_t i = 0; i < args.in.size(); ++i) shape[axis_of_vector(args, i)] = args.in[i].numel();
  return std::vector<TensorSpec>(args.in.size(), {shape, args.in[0].dtype()});
}

std::vector<Tensor> grid_body(const OpArgs& args) {
  const Shape shape = grid_infer(args)[0].shape;
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < args.in.size(); ++i) {
    Shape line = shape;
    for (int axis = 0; axis < line.rank(); ++axis)
      if (axis != axis_of_vector(args, i)) line[axis] = 1;
    out.push_back(expand(reshape(args.in[i], line), shape));
  }
  return out;
}

std::vector<Tensor> grid_reference(const OpArgs& args) {
  const TensorSpec spec = grid_infer(args)[0];
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < args.in.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axis_of_vector(args, i));
    out.push_back(tabulate(spec.shape, spec.dtype, [&](const Index& at) {
      return read(args.in[i], args.in[i].rank() == 0 ? Index{} : Index{at[axis]});
    }));
  }
  return out;
}

std::vector<Sample> grid_samples(DType dtype) {
  const auto x = [&](std::int64_t n, std::uint64_t tag) { return sample_values({n}, dtype, tag); };
  const Attrs xy = {{"indexing", std::string("xy")}};
  return {{{x(3, 1), x(5, 2)}, {}, "two vectors"},
          {{x(3, 3), x(5, 4)}, xy, "as x and y"},
          {{scattered(x(2, 5)), x(3, 6), x(4, 7)}, xy, "three, strided"},
          {{x(4, 8)}, {}, "one"},
          {{sample_values({}, dtype, 9), x(3, 10)}, {}, "a number counts as a vector"},
          {{x(3, 11), x(0, 12)}, {}, "empty"}};
}

std::vector<Refusal> grid_refuses() {
  const Tensor x = Tensor::zeros({3});
  return {{{x, Tensor::zeros({2, 3})}, {}, "all must be vectors, one is [2, 3]"},
          {{x, Tensor::zeros({3}, DType::i64)}, {}, "the first is f32, another is i64"},
          {{x}, {{"indexing", std::string("yx")}}, "indexing is 'yx'; it must be ij or xy"}};
}

std::vector<Symmetry> grid_symmetries(const Sample& s) {
  const bool xy = s.attrs.has("indexing") && s.attrs.text("indexing") == "xy" && s.in.size() > 1;
  std::vector<Symmetry> list;
  for (std::size_t i = 0; i < s.in.size(); ++i) {
    if (s.in[i].numel() < 2) continue;
    const int axis = static_cast<int>(xy && i < 2 ? 1 - i : i);
    const int number = static_cast<int>(i); // the other outputs are constant along its axis
    list.push_back({fmt::format("vector {}", i), {in_leg(number, 0), out_leg(number, axis)}});
  }
  return list;
}

} // namespace

constinit const OpDef block_diag_op = row({
    .name = "block_diag",
    .math = "y = the blocks along the diagonal, 0 elsewhere",
    .inputs = {{"xs"}},
    .variadic = true,
    .infer = blocks_infer,
    .body = blocks_body,
    .reference = blocks_reference,
    .samples = blocks_samples,
    .refuses = blocks_refuses,
    .no_symmetry = "a block has a part of the rows and columns, which a permutation of its own would move alone",
    .work = movement_work,
});

constinit const OpDef meshgrid_op = row({
    .name = "meshgrid",
    .math = "y_n[i_0, i_1, ..] = x_n[i_n]; indexing xy exchanges the first two axes",
    .inputs = {{"xs"}},
    .variadic = true,
    .outputs = {"ys"},
    .variadic_outputs = true,
    .attributes = {attr_text("indexing", "ij", "ij, or xy: rows are the second vector's")},
    .infer = grid_infer,
    .body = grid_body,
    .reference = grid_reference,
    .samples = grid_samples,
    .refuses = grid_refuses,
    .symmetries = grid_symmetries,
    .work = movement_work,
});

Tensor block_diag(const std::vector<Tensor>& xs) { return call(block_diag_op, xs, {}).front(); }

std::vector<Tensor> meshgrid(const std::vector<Tensor>& xs, const char* indexing) {
  return call(meshgrid_op, xs, {{"indexing", std::string(indexing)}});
}

} // namespace eg
