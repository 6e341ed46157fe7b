// permute_rows, permute_columns, invert_permutation: a permutation acts by a gather, its adjoint by the inverse one.

#include "core/ops.h"
#include "core/ops/index/row_moves.h"
#include "core/ops/list.h"

#include <fmt/format.h>

namespace eg {
namespace {

std::vector<TensorSpec> rows_infer(const OpArgs& a) {
  check_dtype(a, 1, DType::i64);
  const Shape& x = a.in[0].shape();
  const Shape& rows = a.in[1].shape();
  bool fits = x.rank() >= 2 && rows.rank() >= 1 && rows[-1] == x[-2];
  if (fits && rows.rank() > 1) {
    Shape wanted = x;
    wanted.erase(x.rank() - 1);
    fits = rows == wanted;
  }
  if (!fits)
    throw ShapeError(fmt::format("permute_rows: x must be [..., T, C] and rows [T] or [..., T]: x is {}, rows is {}",
                                 x.str(), rows.str()));
  return {{x, a.in[0].dtype()}};
}

RowMove rows_move(const Shape& x, const Tensor& packed_rows) {
  RowMove m;
  m.outer = outer_size(x, x.rank() - 2);
  m.extent = m.count = x[-2];
  m.inner = x[-1];
  m.index = index_address(packed_rows);
  m.shared = packed_rows.rank() == 1;
  return m;
}

void rows_cpu(const OpArgs& a, std::span<Tensor> out) {
  const Tensor x = a.in[0].contiguous();
  const Tensor rows = a.in[1].contiguous();
  check_permutations("permute_rows", rows);
  take_rows(x.dtype(), rows_move(x.shape(), rows), x.bytes(), out[0].mutable_bytes("permute_rows"));
}

/// Checks the permutations as well, which the inverse cannot do without.
void take_permuted(const OpArgs& a, const RowMove& m, const Tensor& x, const Tensor& permutations, Tensor& y) {
  Tensor inverse = Tensor::empty(permutations.shape(), DType::i64);
  invert_on_device(a.op.name, permutations, inverse);
  take_on_device(a.op.name, m, false, x, y);
}

void rows_cuda(const OpArgs& a, std::span<Tensor> out) {
  const Tensor x = packed(a.in[0]);
  const Tensor rows = packed(a.in[1]);
  take_permuted(a, rows_move(x.shape(), rows), x, rows, out[0]);
}

std::vector<Tensor> rows_reference(const OpArgs& a) {
  const Tensor& rows = a.in[1];
  return {tabulate(a.in[0].shape(), a.in[0].dtype(), [&](Index i) {
    const auto row = static_cast<std::ptrdiff_t>(i.size()) - 2;
    const Index place = rows.rank() == 1 ? Index{i[i.size() - 2]} : Index(i.begin(), i.begin() + row + 1);
    i[static_cast<std::size_t>(row)] = static_cast<std::int64_t>(read(rows, place));
    return read(a.in[0], i);
  })};
}

Tensor order_of(std::initializer_list<std::int64_t> values, const Shape& shape) { return Tensor::from(values, shape); }

std::vector<Sample> rows_samples(DType dtype) {
  return {{{sample_values({4, 3}, dtype, 1), order_of({2, 0, 3, 1}, {4})}, {}, "a matrix"},
          {{sample_values({2, 4, 5}, dtype, 2), order_of({2, 0, 3, 1}, {4})}, {}, "one permutation for all"},
          {{sample_values({2, 3, 7}, dtype, 3), order_of({2, 0, 1, 1, 2, 0}, {2, 3})}, {}, "one for each sample"},
          {{sample_transposed({2, 3, 33}, dtype, 4), order_of({2, 1, 0, 1, 2, 0}, {3, 2}).reshape({2, 3})},
           {},
           "a transposed x"},
          {{sample_values({3, 1, 2}, dtype, 5), order_of({0, 0, 0}, {3, 1})}, {}, "one row"},
          {{sample_values({5, 1}, dtype, 6), order_of({4, 0, 3, 1, 2}, {5})}, {}, "one column"},
          {{sample_values({0, 2, 2}, dtype, 7), order_of({1, 0}, {2})}, {}, "no samples"}};
}

std::vector<Refusal> rows_refuses() {
  const Tensor x = Tensor::zeros({2, 3, 4});
  return {{{x, order_of({0, 1, 3}, {3})}, {}, "index 3 at position 2 is outside [0, 3)"},
          {{x, order_of({0, 2, 0}, {3})}, {}, "not a permutation of 0..2: 0 occurs at positions 0 and 2"},
          {{x, order_of({0, 1, 2, 1, 1, 0}, {2, 3})}, {}, "1 occurs at positions 0 and 1"},
          {{x, order_of({0, 1}, {2})}, {}, "x is [2, 3, 4], rows is [2]"},
          {{x, order_of({0, 1, 2}, {1, 3})}, {}, "x is [2, 3, 4], rows is [1, 3]"},
          {{x, Tensor::zeros({3})}, {}, "rows must be i64, it is f32"}};
}

std::vector<Symmetry> rows_symmetries(const Sample& s) {
  const Shape& x = s.in[0].shape();
  const bool shared = s.in[1].rank() == 1;
  std::vector<Symmetry> list;
  for (int axis = 0; axis < x.rank() - 2; ++axis) {
    if (x[axis] < 2) continue;
    list.push_back({fmt::format("axis {}", axis), {in_leg(0, axis), out_leg(0, axis)}});
    if (!shared) list.back().legs.push_back(in_leg(1, axis));
  }
  if (x[-1] >= 2) list.push_back({"columns", {in_leg(0, -1), out_leg(0, -1)}});
  if (x[-2] >= 2) {
    list.push_back({"rows of y", {in_leg(1, -1), out_leg(0, -2)}});
    list.push_back({"rows of x", {in_leg(0, -2)}, {1}});
  }
  return list;
}

std::vector<TensorSpec> columns_infer(const OpArgs& a) {
  check_dtype(a, 1, DType::i64);
  const Shape& x = a.in[0].shape();
  const Shape& columns = a.in[1].shape();
  if (x.rank() < 1 || columns.rank() != 1 || columns[0] != x[-1])
    throw ShapeError(fmt::format("permute_columns: x must be [..., C] and columns [C]: x is {}, columns is {}", x.str(),
                                 columns.str()));
  return {{x, a.in[0].dtype()}};
}

RowMove columns_move(const Shape& x, const Tensor& packed_columns) {
  RowMove m;
  m.outer = outer_size(x, x.rank() - 1);
  m.extent = m.count = x[-1];
  m.index = index_address(packed_columns);
  return m;
}

void columns_cpu(const OpArgs& a, std::span<Tensor> out) {
  const Tensor x = a.in[0].contiguous();
  const Tensor columns = a.in[1].contiguous();
  check_permutations("permute_columns", columns);
  take_rows(x.dtype(), columns_move(x.shape(), columns), x.bytes(), out[0].mutable_bytes("permute_columns"));
}

void columns_cuda(const OpArgs& a, std::span<Tensor> out) {
  const Tensor x = packed(a.in[0]);
  const Tensor columns = packed(a.in[1]);
  take_permuted(a, columns_move(x.shape(), columns), x, columns, out[0]);
}

std::vector<Tensor> columns_reference(const OpArgs& a) {
  return {tabulate(a.in[0].shape(), a.in[0].dtype(), [&](Index i) {
    i.back() = static_cast<std::int64_t>(read(a.in[1], {i.back()}));
    return read(a.in[0], i);
  })};
}

std::vector<Sample> columns_samples(DType dtype) {
  return {{{sample_values({3, 4}, dtype, 1), order_of({2, 0, 3, 1}, {4})}, {}, "a matrix"},
          {{sample_values({2, 5, 3}, dtype, 2), order_of({1, 2, 0}, {3})}, {}, "a batch"},
          {{sample_transposed({7, 3}, dtype, 3), order_of({2, 1, 0}, {3})}, {}, "a transposed x"},
          {{sample_values({9, 33}, dtype, 4), random_permutation(33, RandomKey{5, 1})}, {}, "an odd width"},
          {{sample_values({5}, dtype, 6), order_of({4, 0, 3, 1, 2}, {5})}, {}, "one row"},
          {{sample_values({3, 1}, dtype, 7), order_of({0}, {1})}, {}, "one column"},
          {{sample_values({0, 2}, dtype, 8), order_of({1, 0}, {2})}, {}, "no rows"}};
}

std::vector<Refusal> columns_refuses() {
  const Tensor x = Tensor::zeros({2, 3});
  return {{{x, order_of({0, 1, 3}, {3})}, {}, "index 3 at position 2 is outside [0, 3)"},
          {{x, order_of({0, 2, 0}, {3})}, {}, "not a permutation of 0..2: 0 occurs at positions 0 and 2"},
          {{x, order_of({0, 1}, {2})}, {}, "x is [2, 3], columns is [2]"},
          {{x, Tensor::zeros({3})}, {}, "columns must be i64, it is f32"}};
}

std::vector<Symmetry> columns_symmetries(const Sample& s) {
  const Shape& x = s.in[0].shape();
  std::vector<Symmetry> list;
  for (int axis = 0; axis < x.rank() - 1; ++axis) add_axis_symmetry(list, s, axis, axis);
  if (x[-1] >= 2) {
    list.push_back({"columns of y", {in_leg(1, 0), out_leg(0, -1)}});
    list.push_back({"columns of x", {in_leg(0, -1)}, {1}});
  }
  return list;
}

std::vector<TensorSpec> inverse_infer(const OpArgs& a) {
  check_dtype(a, 0, DType::i64);
  check_rank_at_least(a, 0, 1);
  return {{a.in[0].shape(), DType::i64}};
}

void inverse_cpu(const OpArgs& a, std::span<Tensor> out) {
  const Tensor p = a.in[0].contiguous();
  check_permutations("invert_permutation", p);
  const std::int64_t n = p.shape()[-1];
  const std::int64_t* from = p.data<std::int64_t>();
  auto* to = out[0].mutable_data<std::int64_t>("invert_permutation");
  for (std::int64_t i = 0; i < p.numel(); ++i) to[i / n * n + from[i]] = i % n;
}

void inverse_cuda(const OpArgs& a, std::span<Tensor> out) {
  invert_on_device("invert_permutation", packed(a.in[0]), out[0]);
}

std::vector<Tensor> inverse_reference(const OpArgs& a) {
  const Tensor& p = a.in[0];
  return {tabulate(p.shape(), DType::i64, [&](const Index& y) {
    Index i = y;
    i.back() = 0;
    while (static_cast<std::int64_t>(read(p, i)) != y.back()) ++i.back();
    return static_cast<double>(i.back());
  })};
}

std::vector<Sample> inverse_samples(DType) {
  return {{{order_of({2, 0, 3, 1}, {4})}, {}, "one permutation"},
          {{order_of({2, 0, 1, 0, 2, 1}, {2, 3})}, {}, "one a row"},
          {{order_of({1, 0, 0, 1}, {2, 2}).transpose()}, {}, "transposed"},
          {{order_of({0}, {1})}, {}, "of one"},
          {{order_of({}, {3, 0})}, {}, "of nothing"}};
}

std::vector<Refusal> inverse_refuses() {
  return {{{order_of({0, 3, 1}, {3})}, {}, "index 3 at position 1 is outside [0, 3)"},
          {{order_of({0, 1, 1}, {3})}, {}, "not a permutation of 0..2: 1 occurs at positions 1 and 2"},
          {{Tensor::zeros({3})}, {}, "permutation must be i64, it is f32"},
          {{order_of({0}, {})}, {}, "permutation"}};
}

std::vector<Symmetry> inverse_symmetries(const Sample& s) {
  std::vector<Symmetry> list;
  for (int axis = 0; axis < s.in[0].rank() - 1; ++axis) add_axis_symmetry(list, s, axis, axis);
  if (s.in[0].shape()[-1] >= 2) list.push_back({"values", {out_leg(0, -1)}, {0}});
  return list;
}

} // namespace

constinit const OpDef permute_rows_op = row({
    .name = "permute_rows",
    .math = "y[.., i, :] = x[.., rows[.., i], :]: P_R X",
    .inputs = {{"x"}, {"rows"}},
    .infer = rows_infer,
    .cpu = rows_cpu,
    .cuda = rows_cuda,
    .cuda_same_bits = true,
    .saves = saves::in(1),
    .vjp = [](const VjpArgs& v) -> Gradients {
      return {permute_rows(v.grad[0], invert_permutation(v.in[1])), Tensor()};
    },
    .reference = rows_reference,
    .samples = rows_samples,
    .refuses = rows_refuses,
    .symmetries = rows_symmetries,
    .least_extents = {{"rows of y", 2, "x keeps all its rows"}},
    .work = movement_work,
});

constinit const OpDef permute_columns_op = row({
    .name = "permute_columns",
    .math = "y[.., j] = x[.., columns[j]]: X P_C",
    .inputs = {{"x"}, {"columns"}},
    .infer = columns_infer,
    .cpu = columns_cpu,
    .cuda = columns_cuda,
    .cuda_same_bits = true,
    .saves = saves::in(1),
    .vjp = [](const VjpArgs& v) -> Gradients {
      return {permute_columns(v.grad[0], invert_permutation(v.in[1])), Tensor()};
    },
    .reference = columns_reference,
    .samples = columns_samples,
    .refuses = columns_refuses,
    .symmetries = columns_symmetries,
    .least_extents = {{"columns of y", 2, "x keeps all its columns"}},
    .work = movement_work,
});

constinit const OpDef invert_permutation_op = row({
    .name = "invert_permutation",
    .math = "y[.., p[.., i]] = i",
    .inputs = {{"permutation"}},
    .infer = inverse_infer,
    .cpu = inverse_cpu,
    .cuda = inverse_cuda,
    .cuda_same_bits = true,
    .no_gradient = "its values are integers",
    .reference = inverse_reference,
    .samples = inverse_samples,
    .refuses = inverse_refuses,
    .symmetries = inverse_symmetries,
    .work = movement_work,
});

Tensor permute_rows(const Tensor& x, const Tensor& rows) { return call1(permute_rows_op, {x, rows}); }
Tensor permute_columns(const Tensor& x, const Tensor& columns) { return call1(permute_columns_op, {x, columns}); }
Tensor invert_permutation(const Tensor& permutation) { return call1(invert_permutation_op, {permutation}); }

} // namespace eg
